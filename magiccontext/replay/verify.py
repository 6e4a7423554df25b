"""Checks an answer of the server without believing it (design section 11).

Questions, each a function of plain values: is the array a conversation a provider accepts, are the newest
results in it, does its front equal what was sent before, and if not, does a reason given for it follow from
the transcript? The last one is the point: a server may say what it likes, but an idle gap, a changed model, a
usage above the threshold, a queued drop or a publication of ours are facts of the recording and of what was
really sent, and are computed from those. What a head may stand for is the question of `history`.

`REASONS` is the whole table of what may change bytes that were already sent. What is not in it is no reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from magiccontext.replay.cost import common_front
from magiccontext.replay.facts import Facts
from magiccontext.replay.head import Head
from magiccontext.replay.problems import Problem
from magiccontext.replay.tail import LEADING_TAGS

LEVELS = ("defer", "soft_plus", "soft", "hard")
EXECUTE_THRESHOLD = 65.0
EMERGENCY = 95.0


@dataclass(frozen=True, slots=True)
class Sent:
    """What went to the provider: digests of the messages, the system prompt as it was returned, the head."""

    digests: Sequence[bytes]
    system: bytes | None
    head: Head | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the transcript and the earlier answers say about one call, without asking the server.

    `percentage`: prompt tokens of the last answered call in percent of the usable window, 0 after a change of
    model (reclaim-core section 4.1). `queued`: tags our agent marked that are still on the wire. `held`: a
    call since the last rebuild had a reason and was answered with a defer. `rendered`: a head was already
    served. `unserved`: compartments we published that no answer has shown. `overweight`: with them, m[1] is
    too large beside m[0] or the history budget (history-render section 5, pressure backstop).
    """

    idle: bool = False
    model_changed: bool = False
    percentage: float = 0.0
    threshold: float = EXECUTE_THRESHOLD
    queued: int = 0
    subagent: bool = False
    held: bool = False
    rendered: bool = False
    unserved: int = 0
    overweight: bool = False

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
    "m1_delta": lambda e: (e.execute or e.force) and e.unserved > 0,
    "pressure_refold": lambda e: e.overweight,
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

FOLDS = frozenset({"first_render", "ttl_idle", "model_change", "pressure_refold"})
"""The only reasons for which m[0] may differ, of those a replay can bring about."""


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
    if evidence.subagent and now.head is not None:
        problems.append(Problem("head_in_subagent", call, "a subagent has no head"))
    if before is None:
        return problems
    expected, where = _change(before, now)
    if expected != level:
        problems.append(
            Problem("defer_changed_bytes", call, where)
            if level == "defer"
            else Problem("wrong_level", call, f"{level} reported, but {where}: {expected}")
        )
    if expected == "defer" or level == "defer":
        return problems
    return problems + _explained(call, expected, where, [str(reason) for reason in reasons], evidence)


def _change(before: Sent, now: Sent) -> tuple[str, str]:
    """The level the bytes show (design section 3), and where what was sent before first differs."""
    old, new = before.head, now.head
    if (old.m0 if old else None) != (new.m0 if new else None):
        return "hard", "m[0] differs"
    if old is not None and new is not None and old.m1 != new.m1:
        return "soft", "m[1] differs"
    common = common_front(before.digests, now.digests)
    if before.system != now.system:
        return "soft_plus", "the system prompt differs"
    if common < len(before.digests):
        return "soft_plus", f"message {common} of {len(before.digests)} already sent differs"
    return "defer", "nothing sent before differs"


def _explained(call: int, level: str, where: str, reasons: list[str], evidence: Evidence) -> list[Problem]:
    problems = []
    if not RIDES.issuperset(reasons):
        folds = FOLDS.intersection(reasons)
        if level == "hard" and not folds:
            problems.append(Problem("unexplained_fold", call, f"{where}: {', '.join(reasons)}"))
        elif level == "soft" and not folds and not evidence.unserved:
            problems.append(Problem("unexplained_refresh", call, f"{where}, nothing new was published"))
    else:
        problems.append(Problem("unexplained_bust", call, f"{where}, no reason given"))
    for reason in reasons:
        bears_out = REASONS.get(reason)
        if bears_out is None:
            problems.append(Problem("unknown_reason", call, f"{where}: {reason}"))
        elif not bears_out(evidence):
            problems.append(
                Problem(
                    "unjustified_reason",
                    call,
                    f"{where}: {reason}, but idle={evidence.idle} model_changed={evidence.model_changed} "
                    f"usage={evidence.percentage:.1f}% queued={evidence.queued} "
                    f"unserved={evidence.unserved} overweight={evidence.overweight}",
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
