"""Checks an answer of the server without believing it (design section 11).

Four questions, each a function of plain values: is the array a conversation a provider accepts, is everything
in it that may not be missing, does its front equal what was sent before, and if not, does a reason given for
it follow from the transcript? The last one is the point: a server may say what it likes, but an idle gap, a
changed model, a usage above the threshold or a queued drop are facts of the recording and of what was really
sent, and are computed from those.

`REASONS` is the whole table of what may change bytes that were already sent. What is not in it is no reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from magiccontext.replay.cost import common_front
from magiccontext.replay.facts import Facts

LEVELS = ("defer", "soft_plus", "soft", "hard")
EXECUTE_THRESHOLD = 65.0
EMERGENCY = 95.0
LEADING_TAGS = re.compile("(?:§\\d+§ ?)+")
INJECTED = re.compile("<system-reminder>.*?</system-reminder>|<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that must not happen in a run; any of them makes it fail."""

    code: str
    call: int
    detail: str


@dataclass(frozen=True, slots=True)
class Sent:
    """What went to the provider: digests of the messages, and the system prompt as it was returned."""

    digests: Sequence[bytes]
    system: bytes | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the transcript and the earlier answers say about one call, without asking the server.

    `percentage`: prompt tokens of the last answered call in percent of the usable window, 0 after a change of
    model (reclaim-core section 4.1). `queued`: tags our agent marked that are still on the wire. `held`: a
    call since the last rebuild had a reason and was answered with a defer. `rendered`: a first head was
    already served.
    """

    idle: bool = False
    model_changed: bool = False
    percentage: float = 0.0
    threshold: float = EXECUTE_THRESHOLD
    queued: int = 0
    subagent: bool = False
    held: bool = False
    rendered: bool = False

    @property
    def force(self) -> bool:
        return self.percentage >= max(85.0, self.threshold + 2)

    @property
    def execute(self) -> bool:
        """The scheduler's decision (reclaim-core section 4.4)."""
        return self.idle or self.percentage >= self.threshold

    @property
    def any_cause(self) -> bool:
        return self.execute or self.model_changed


REASONS: dict[str, Callable[[Evidence], bool]] = {
    "ttl_idle": lambda e: e.idle,
    "ttl_expiry": lambda e: e.idle,
    "force_band": lambda e: e.force,
    "queued_drops": lambda e: e.execute and e.queued > 0,
    "subagent_execute": lambda e: e.subagent and e.execute,
    "model_change": lambda e: e.model_changed,
    "m1_delta": lambda e: e.execute,
    "first_render": lambda e: not e.rendered,
    "hold_release": lambda e: e.held,
    # A replay never sends these: its system, tools and project are constant, and no person flushes.
    "explicit_flush": lambda e: False,
    "flush_request": lambda e: False,
    "system_hash": lambda e: False,
    "tool_list": lambda e: False,
    "host_compaction": lambda e: False,
    "project_change": lambda e: False,
}

RIDES = frozenset({"pressure_refold"})
"""Reasons that never open a rebuild and only join one (history-render section 5)."""


def check_front(
    call: int, before: Sent | None, now: Sent, report: dict[str, Any], evidence: Evidence
) -> list[Problem]:
    """Whether what was sent before is still there, and if not, whether that is explained.

    `report` is the answer's `pass` object. The level it names must be the one its bytes show.
    """
    level = report.get("level")
    reasons = report.get("reasons")
    if level not in LEVELS or not isinstance(reasons, list):
        return [Problem("bad_answer", call, "pass.level or pass.reasons is missing or unknown")]
    problems: list[Problem] = []
    permitted = report.get("permitted")
    if permitted in LEVELS and LEVELS.index(level) > LEVELS.index(permitted):
        problems.append(Problem("engine_fault", call, f"level {level} above the permitted {permitted}"))
    if before is None:
        return problems
    common = common_front(before.digests, now.digests)
    changed = common < len(before.digests)
    where = f"message {common} of {len(before.digests)} already sent"
    if before.system != now.system:
        changed, where = True, "the system prompt"
    if not changed:
        if level != "defer":
            problems.append(
                Problem("wrong_level", call, f"{level} reported, but nothing sent before changed")
            )
        return problems
    if level == "defer":
        problems.append(Problem("defer_changed_bytes", call, where))
        return problems
    return problems + _explained(call, where, [str(reason) for reason in reasons], evidence)


def _explained(call: int, where: str, reasons: list[str], evidence: Evidence) -> list[Problem]:
    opening = [reason for reason in reasons if reason not in RIDES]
    if not opening:
        return [Problem("unexplained_bust", call, f"{where}, no reason given")]
    problems = []
    for reason in opening:
        bears_out = REASONS.get(reason)
        if bears_out is None:
            problems.append(Problem("unknown_reason", call, f"{where}: {reason}"))
        elif not bears_out(evidence):
            problems.append(
                Problem(
                    "unjustified_reason",
                    call,
                    f"{where}: {reason}, but idle={evidence.idle} model_changed={evidence.model_changed} "
                    f"usage={evidence.percentage:.1f}% queued={evidence.queued}",
                )
            )
    return problems


def check_conversation(call: int, messages: Sequence[Facts]) -> list[Problem]:
    """Whether a provider would take it: user messages first and last, calls answered right behind them."""
    problems: list[Problem] = []
    if not messages or messages[0].role != "user":
        problems.append(Problem("bad_order", call, "the array does not start with a user message"))
    if messages and messages[-1].role != "user":
        problems.append(Problem("assistant_terminal", call, "the array ends with an assistant message"))
    open_calls: set[str] = set()
    answered: set[str] = set()
    side = ""
    for number, message in enumerate(messages):
        if message.role not in ("user", "assistant"):
            continue
        if message.role != side:
            if message.role == "assistant":
                problems += _unanswered(call, number, open_calls - answered)
                open_calls = set()
            answered = set() if message.role == "user" else answered
            side = message.role
        if message.role == "assistant":
            open_calls |= set(message.calls)
        for result in message.results:
            if message.role != "user" or result not in open_calls or result in answered:
                problems.append(Problem("orphan_result", call, f"message {number}: result {result}"))
            answered.add(result)
    return problems + _unanswered(call, len(messages), open_calls - answered)


def _unanswered(call: int, number: int, ids: set[str]) -> list[Problem]:
    return [Problem("orphan_call", call, f"before message {number}: call {name}") for name in sorted(ids)]


def check_user_texts(call: int, raw: Sequence[Facts], sent: Sequence[Facts]) -> list[Problem]:
    """Whether everything the user said is in the array, in order (hosts section 2.2 item 7).

    Tag prefixes may be added, injected host notices may leave (reclaim-core section 6.1).
    """
    said = [text for message in sent if message.role == "user" for text in message.texts]
    cores = [_core(text) for text in said]
    position = 0
    problems = []
    for number, message in enumerate(raw):
        if message.role != "user":
            continue
        for text in message.texts:
            wanted = _core(text)
            if not wanted:
                continue
            found = next((i for i in range(position, len(cores)) if _holds(cores[i], wanted)), None)
            if found is None:
                problems.append(Problem("user_text_missing", call, f"raw message {number}: {wanted[:60]!r}"))
            else:
                position = found + 1
    return problems


def _holds(core: str, wanted: str) -> bool:
    """Markers may stand before what the user said, hints behind it."""
    return core.startswith(wanted) or core.endswith(wanted)


@lru_cache(maxsize=8192)
def _core(text: str) -> str:
    return INJECTED.sub("", LEADING_TAGS.sub("", text, count=1)).strip()


def check_fresh_results(call: int, raw: Sequence[Facts], sent: Sequence[Facts]) -> list[Problem]:
    """Whether the results the model asked for in its last response reach it whole."""
    wanted = _newest_outputs(raw)
    given = _newest_outputs(sent)
    missing = [
        name for name, output in wanted.items() if not any(_bare(output) in text for text in given.values())
    ]
    return [Problem("fresh_result_missing", call, f"result {name}") for name in missing]


def _bare(output: str) -> str:
    return LEADING_TAGS.sub("", output, count=1) if output.startswith("§") else output


def _newest_outputs(messages: Sequence[Facts]) -> dict[str, str]:
    outputs: dict[str, str] = {}
    for message in reversed(messages):
        if message.role == "assistant":
            break
        outputs.update(zip(message.results, message.outputs, strict=True))
    return outputs
