"""``ctx_reduce``: what the agent asks to drop, and what it is told (reclaim-core section 2).

The call only queues.  It never touches the array and never starts a rebuild, so it may say yes to anything
that a later pass can do: a tag that is held now is queued, and the answer names it.  What it refuses, it
refuses whole, because half a range the agent did not mean is worse than an error it can read.

Three functions, in the order of a call:

    copied_placeholders   before execution, for every *other* tool: were the arguments copied from a
                          reduced call?  Such a call would write the notation into the person's files.
    parse_drop            the argument, as numbers
    plan_reduce           the numbers against the session's tags: what to queue and what to answer

Numbers are tag numbers.  Errors the agent sees begin with ``Error:``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from magiccontext.engine.notation import MARK
from magiccontext.engine.state import TagStatus
from magiccontext.engine.toolnames import is_reduce_tool

MAX_ELEMENTS = 1_000
MAX_SUMMARY_BYTES = 1 << 20
_MAX_QUOTED_ITEM = 40

# Each notation stands for its number; the longer forms contain the shorter ones.
_NOTATIONS: tuple[re.Pattern[str], ...] = (
    re.compile(rf"\[dropped {MARK}([0-9]+){MARK}\]"),
    re.compile(r"\btag ([0-9]+)", re.IGNORECASE),
    re.compile(rf"{MARK}([0-9]+){MARK}?"),
)
# More digits than any tag number has; converting thousands of them costs time.
_INTEGER = re.compile(r"[0-9]{1,15}")


class ReduceFault(StrEnum):
    """Why a drop was not understood."""

    EMPTY = "empty"
    NOT_AN_INTEGER = "not_an_integer"
    START_AFTER_END = "start_after_end"
    TOO_MANY = "too_many"


class ReduceError(ValueError):
    """The ``drop`` argument is missing or wrong.  ``text`` is the tool's answer; nothing is queued."""

    def __init__(self, kind: ReduceFault, detail: str) -> None:
        self.kind = kind
        prefix = "" if kind is ReduceFault.EMPTY else "Invalid range syntax. "
        self.text = f"Error: {prefix}{detail}"
        super().__init__(self.text)


def _drop_text(arguments: Mapping[str, Any]) -> str:
    """The ``drop`` string, also out of the summary of a reduced call that the model copied as arguments."""
    if "drop" not in arguments and arguments.get("reduced") is True:
        summary = arguments.get("summary")
        if isinstance(summary, str) and len(summary) <= MAX_SUMMARY_BYTES:
            try:
                decoded = json.loads(summary)
            except (ValueError, RecursionError):
                decoded = None
            if isinstance(decoded, dict) and isinstance(decoded.get("drop"), str):
                arguments = decoded
    drop = arguments.get("drop")
    return drop if isinstance(drop, str) else ""


def _integer(text: str, item: str) -> int:
    text = text.strip()
    if _INTEGER.fullmatch(text) is None:
        raise ReduceError(
            ReduceFault.NOT_AN_INTEGER,
            f'"{item[:_MAX_QUOTED_ITEM]}" is neither a tag number nor a range such as 3-5.',
        )
    return int(text)


def _range(item: str) -> range:
    first, dash, last = item.partition("-")
    start = _integer(first, item)
    end = _integer(last, item) if dash else start
    if start > end:
        raise ReduceError(ReduceFault.START_AFTER_END, f'"{item}" begins after its end.')
    if end - start >= MAX_ELEMENTS:
        raise ReduceError(
            ReduceFault.TOO_MANY, f'"{item}" covers more than {MAX_ELEMENTS} tags, the most in one range.'
        )
    return range(start, end + 1)


def parse_drop(arguments: Mapping[str, Any]) -> tuple[int, ...]:
    """The tag numbers named by the tool's arguments, each once, ascending.

    Raises ReduceError when ``drop`` is missing, blank or no string, when an item is not a number or a
    range, and when a range or the whole names more than 1,000 tags.
    """
    text = _drop_text(arguments)
    for notation in _NOTATIONS:
        # With spaces around, two marks side by side stay two and never become one larger number.
        text = notation.sub(r" \1 ", text)
    text = text.replace(MARK, " ").strip()
    if not text:
        raise ReduceError(
            ReduceFault.EMPTY, 'the "drop" parameter is required: tag numbers and ranges, such as "3-5,8".'
        )
    numbers: set[int] = set()
    for item in text.split(","):
        numbers.update(_range(item.strip()))
        if len(numbers) > MAX_ELEMENTS:
            raise ReduceError(
                ReduceFault.TOO_MANY,
                f'with "{item[:_MAX_QUOTED_ITEM]}" the call names more than {MAX_ELEMENTS} tags, '
                "the most in one call.",
            )
    return tuple(sorted(numbers))


@dataclass(frozen=True, slots=True)
class TagFacts:
    """What a tag's number means now.  ``held``: protected or not droppable yet, so the drop waits."""

    status: TagStatus = TagStatus.ACTIVE
    tool_name: str | None = None
    inert: bool = False
    queued: bool = False
    held: bool = False


@dataclass(frozen=True, slots=True)
class ReducePlan:
    """What a call does.  ``queue`` is empty when ``error`` is set; ``text`` is the tool's answer."""

    queue: tuple[int, ...] = ()
    already: tuple[int, ...] = ()
    refused_reduce_calls: tuple[int, ...] = ()
    inert: tuple[int, ...] = ()
    held: tuple[int, ...] = ()  # those of ``queue`` that wait
    error: bool = False
    text: str = ""


class Fate(StrEnum):
    """What happens to one number of a call."""

    UNKNOWN = "unknown"
    COMPACTED = "compacted"
    REDUCE_CALL = "reduce_call"
    INERT = "inert"
    ALREADY = "already"
    QUEUE = "queue"


# Section 2, first row that holds.  The first two refuse the whole call.
FATES: tuple[tuple[Fate, Callable[[TagFacts | None], bool]], ...] = (
    (Fate.UNKNOWN, lambda t: t is None),
    (Fate.COMPACTED, lambda t: t is not None and t.status is TagStatus.COMPACTED),
    (Fate.REDUCE_CALL, lambda t: t is not None and is_reduce_tool(t.tool_name)),
    (Fate.INERT, lambda t: t is not None and t.inert),
    (Fate.ALREADY, lambda t: t is not None and (t.status is TagStatus.DROPPED or t.queued)),
    (Fate.QUEUE, lambda t: True),
)


def marks(numbers: Iterable[int]) -> str:
    """Numbers as the agent sees them: ``§1§, §2§``."""
    return ", ".join(f"{MARK}{number}{MARK}" for number in numbers)


def plan_reduce(numbers: Sequence[int], lookup: Callable[[int], TagFacts | None]) -> ReducePlan:
    """What a ``ctx_reduce`` call queues and answers; ``lookup`` gives None for an unknown number."""
    facts = {number: lookup(number) for number in numbers}
    by_fate: dict[Fate, tuple[int, ...]] = {
        fate: tuple(n for n, fact in facts.items() if fate is next(f for f, holds in FATES if holds(fact)))
        for fate in Fate
    }
    if unknown := by_fate[Fate.UNKNOWN]:
        return ReducePlan(error=True, text=f"Error: unknown tags: {marks(unknown)}. Nothing was queued.")
    if compacted := by_fate[Fate.COMPACTED]:
        return ReducePlan(
            error=True,
            text=f"Error: conflict: {marks(compacted)} lie before the last compaction and are no longer in "
            "the conversation. Nothing was queued.",
        )
    queue = by_fate[Fate.QUEUE]
    plan = ReducePlan(
        queue=queue,
        already=by_fate[Fate.ALREADY],
        refused_reduce_calls=by_fate[Fate.REDUCE_CALL],
        inert=by_fate[Fate.INERT],
        held=tuple(n for n in queue if (fact := facts[n]) is not None and fact.held),
    )
    return ReducePlan(
        plan.queue, plan.already, plan.refused_reduce_calls, plan.inert, plan.held, text=_answer(plan)
    )


def _answer(plan: ReducePlan) -> str:
    sentences: list[str] = []
    if plan.queue:
        sentences.append(f"Queued: drop {marks(plan.queue)}.")
        if plan.already:
            sentences.append(f"{len(plan.already)} more needed no action: already queued or dropped.")
    elif plan.already or not (plan.refused_reduce_calls or plan.inert):
        sentences.append("Nothing to queue: all requested tags were already queued or processed.")
    else:
        sentences.append("Nothing to queue.")
    if plan.held:
        sentences.append(f"Held until newer work displaces them: {marks(plan.held)}.")
    if plan.refused_reduce_calls:
        sentences.append(
            f"Not queued: {marks(plan.refused_reduce_calls)}, because ctx_reduce calls are cleaned up "
            "automatically."
        )
    if plan.inert:
        sentences.append(f"Skipped: {marks(plan.inert)}, provider framing with nothing to reclaim.")
    return " ".join(sentences)


def storage_failure(reason: str) -> str:
    """The tool's answer when the queue could not be written."""
    return f"Error: the drop could not be queued: {reason}"


MAX_OFFENCES = 12
MAX_QUOTED = 160
_CUT = "...[truncated]"
_MAX_BEFORE_CUT = 5
_COUNTED = re.compile(r"\[[0-9]+ items\]")

# What an argument of a reduced call looks like.
COPIES: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("placeholder", lambda s: s.startswith(f"[dropped {MARK}") and s.endswith(f"{MARK}]")),
    ("cut string", lambda s: s.endswith(_CUT) and len(s) <= _MAX_BEFORE_CUT + len(_CUT)),
    ("object", lambda s: s == "[object]"),
    ("list", lambda s: _COUNTED.fullmatch(s) is not None),
)


class Offence(NamedTuple):
    """A parameter that holds a copied value; ``path`` is like ``edits[2].text``, ``quoted`` is cut short."""

    path: str
    quoted: str


def copied_placeholders(arguments: Mapping[str, Any]) -> list[Offence]:
    """The parameters of a call that were copied from a reduced one, at most 12 (section 2, end).

    A call with any is refused before it runs.  Not to be asked about ``ctx_reduce`` itself, whose
    argument may name placeholders.
    """
    found: list[Offence] = []
    # Reversed, so that the stack gives the parameters in the order of the call; depth has no bound.
    waiting: list[tuple[str, Any]] = [(str(key), value) for key, value in reversed(list(arguments.items()))]
    while waiting and len(found) < MAX_OFFENCES:
        path, value = waiting.pop()
        if isinstance(value, str):
            if any(copied(value.strip()) for _, copied in COPIES):
                found.append(Offence(path, value.strip()[:MAX_QUOTED]))
        elif isinstance(value, Mapping):
            waiting += [(f"{path}.{key}", inner) for key, inner in reversed(list(value.items()))]
        elif isinstance(value, list | tuple):
            waiting += [(f"{path}[{i}]", value[i]) for i in reversed(range(len(value)))]
    return found


def copied_refusal(offences: Sequence[Offence]) -> str:
    """What the agent is told instead of the result of a refused call."""
    named = "; ".join(f'{offence.path} = "{offence.quoted}"' for offence in offences)
    return (
        f"Error: this call was not run, because arguments were copied from a reduced call: {named}. "
        "Those values stand for content that was removed. Read the original with ctx_expand, or write the "
        "arguments anew."
    )
