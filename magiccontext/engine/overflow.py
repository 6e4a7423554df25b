"""What a provider's error says about its window (reclaim-core section 8.1).

Every provider words an overflow in its own way, and an error may quote three numbers of which one is the
limit.  Three tables read it: which texts are an overflow, which shapes name a limit and what kind of
limit, and which name the size of the request.  A limit is believed between 1,024 and 10,000,000 tokens;
when shapes quote several numbers, the first believable one in the order of the table is the limit.  An
error that is no overflow teaches nothing, whatever numbers it holds.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

LIMIT_RANGE = (1_024, 10_000_000)
# A provider says it in the first lines; a proxy may attach the whole request.
MAX_TEXT = 20_000


class Provenance(StrEnum):
    """What the provider's number bounds."""

    PROMPT_ONLY = "prompt_only"  # the input side
    COMBINED = "combined"  # input and output together
    UNKNOWN = "unknown"  # treated as combined


@dataclass(frozen=True, slots=True)
class Overflow:
    """Tokens throughout.  ``limit`` and ``provenance`` are both set or both None."""

    is_overflow: bool
    limit: int | None = None
    provenance: Provenance | None = None
    reported_input: int | None = None


class Shape(NamedTuple):
    pattern: re.Pattern[str]
    provenance: Provenance


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("<N>", r"([0-9][0-9,_]*)"), re.IGNORECASE | re.DOTALL)


def _shape(provenance: Provenance, pattern: str) -> Shape:
    return Shape(_compiled(pattern), provenance)


# Where the message of an error object is found, best first; the whole object as JSON when nowhere.
MESSAGE_PATHS: tuple[tuple[str, ...], ...] = (
    ("error", "error", "message"),
    ("error", "message"),
    ("data", "error", "message"),
    ("data", "message"),
    ("cause", "message"),
    ("message",),
    ("responseBody",),
    ("response_body",),
    ("body",),
)

OVERFLOWS: tuple[re.Pattern[str], ...] = tuple(
    _compiled(pattern)
    for pattern in (
        r"prompt is too long",
        r"input is too long for requested model",
        r"exceeds the context window",
        r"input token count.*exceeds the maximum",
        r"maximum prompt length is <N>",
        r"reduce the length of the messages",
        r"maximum context length is <N> tokens",
        r"maximum model length is <N>",
        r"exceeds the limit of <N>",
        r"exceeds the available context size",
        r"greater than the context length",
        r"context window exceeds limit",
        r"exceeded model token limit",
        r"context[ _]length[ _]exceeded",
        r"request entity too large",
        r"context length is only <N> tokens",
        r"input length.*exceeds.*context length",
        r"prompt too long[;,]? exceeded (?:max )?context length",
        r"too large for model with <N> maximum context length",
        r"model_context_window_exceeded",
        r"context size has been exceeded",
        r"prompt exceeds.*max_context",
        # Anchored, so that a text full of the number is read once.
        r"\A(?=.*\b413\b)(?=.*(?:entity|payload|context|prompt))",
    )
)

LIMITS: tuple[Shape, ...] = (
    _shape(Provenance.PROMPT_ONLY, r"maximum prompt length is <N>"),
    _shape(Provenance.PROMPT_ONLY, r"> *<N> maximum"),
    _shape(Provenance.PROMPT_ONLY, r"maximum number of tokens allowed \(?<N>"),
    _shape(Provenance.COMBINED, r"maximum context length (?:is|of) <N>"),
    _shape(Provenance.COMBINED, r"maximum model length is <N>"),
    _shape(Provenance.COMBINED, r"too large for model with <N> maximum context length"),
    _shape(Provenance.COMBINED, r"context length (?:is only |is |of |\()<N>"),
    _shape(Provenance.COMBINED, r"context size (?:is |of )?\(?<N>"),
    _shape(Provenance.UNKNOWN, r"limit of <N>"),
    _shape(Provenance.UNKNOWN, r"max_context\w*\W{1,4}<N>"),
)

REPORTED_INPUTS: tuple[re.Pattern[str], ...] = tuple(
    _compiled(pattern)
    for pattern in (
        r"prompt is too long: *<N>",
        r"input token count \(<N>",
        r"input length:? *(?:is |of )?<N>",
        r"prompt was <N>",
        r"messages resulted in <N>",
    )
)


def _number(digits: str) -> int:
    digits = digits.replace(",", "").replace("_", "")
    # A longer row of digits is no token count, and converting it would cost time.
    return int(digits) if len(digits) <= 15 else 0


def believable(limit: int) -> bool:
    """Whether a stated window may be one (hosts section 1; section 8.1)."""
    return LIMIT_RANGE[0] <= limit <= LIMIT_RANGE[1]


def message_of(error: str | dict[str, Any]) -> str:
    """The text in which an error says what went wrong: the first of :data:`MESSAGE_PATHS` that has one."""
    if isinstance(error, str):
        return error
    for path in MESSAGE_PATHS:
        value: Any = error
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str) and value:
            return value
    return json.dumps(error, ensure_ascii=False, default=str)


def _limit(text: str) -> tuple[int, Provenance] | None:
    for shape in LIMITS:
        for found in shape.pattern.finditer(text):
            if believable(limit := _number(found[1])):
                return limit, shape.provenance
    return None


def _reported_input(text: str) -> int | None:
    for pattern in REPORTED_INPUTS:
        if (found := pattern.search(text)) and (tokens := _number(found[1])) > 0:
            return tokens
    return None


def parse_overflow(error: str | dict[str, Any]) -> Overflow:
    """Read a provider error, given as text or as the decoded error object (section 8.1)."""
    text = message_of(error)[:MAX_TEXT]
    if not any(pattern.search(text) for pattern in OVERFLOWS):
        return Overflow(False)
    limit, provenance = _limit(text) or (None, None)
    return Overflow(True, limit, provenance, _reported_input(text))


def detected_survives(detected_limit: int, accepted_input: int) -> bool:
    """Whether a detected limit still holds once ``accepted_input`` tokens went through (section 8.2)."""
    return accepted_input <= detected_limit
