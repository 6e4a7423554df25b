"""What the lanes leave alone (reclaim-core section 2.1).

Two things shield a tool result.  The *protection window* holds the newest tool traffic, by its tokens: it
yields at 95 %.  *Protected tools* hold the newest few results of named tools, and never yield.  Both count
tool tags only; the window counts them whatever their status, so that a drop does not let it reach further
back.

A window is a cutoff: members are the tool tags with that number or a higher one.  Without tools there is
no cutoff, and nothing is a member.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from magiccontext.engine.calibration import provider_tokens
from magiccontext.engine.toolnames import REDUCE, tool_key

FLOOR_RANGE = (4_000, 1_000_000)
FLOOR_SHARE = 0.05
MIN_FLOOR_SHARE = 0.08
MIN_FLOOR = 16_000
MAX_FLOOR = 64_000
# However large the newest results are, this many stay.
MIN_NEWEST = 3

DEFAULT_PROTECTED_TOOLS: dict[str, int] = {"todowrite": 1, REDUCE: 3}


@dataclass(frozen=True, slots=True)
class ToolTag:
    """What protection needs to know of a tool tag; ``tokens`` are local ones of the output alone."""

    number: int
    id: str = ""  # tells tags with one number apart
    tool_name: str | None = None
    tokens: int | None = None
    active: bool = True

    @property
    def age(self) -> tuple[int, str]:
        return self.number, self.id


def round_half_up(value: float) -> int:
    """The nearest whole number; a half goes up, as in the reference's arithmetic."""
    return math.floor(value + 0.5)


def default_floor(usable_soft: int) -> int:
    """Tokens of the newest tool traffic to protect, for a usable soft window of that many tokens."""
    lowest = min(MIN_FLOOR, round_half_up(MIN_FLOOR_SHARE * usable_soft))
    return min(max(round_half_up(FLOOR_SHARE * usable_soft), lowest), MAX_FLOOR)


def protection_floor(configured: int | None, usable_soft: int) -> int:
    """The configured ``protected_tokens``, else the derived floor.

    Raises ValueError for a configured value outside 4,000 to 1,000,000.
    """
    if configured is None:
        return default_floor(usable_soft)
    if not FLOOR_RANGE[0] <= configured <= FLOOR_RANGE[1]:
        raise ValueError(f"protected_tokens must be {FLOOR_RANGE[0]} to {FLOOR_RANGE[1]}, not {configured}")
    return configured


def window_cutoff(tags: Iterable[ToolTag], floor: int, tools_ratio: float = 1.0) -> int | None:
    """The lowest tag number inside the protection window, or None when there are no tool tags.

    ``tags`` are the session's tool tags of any status, in any order; ``floor`` is in provider tokens.
    """
    newest_first = sorted(tags, key=lambda tag: tag.age, reverse=True)
    numbers: list[int] = []
    by_size: int | None = None
    total = 0
    for number, group in groupby(newest_first, key=lambda tag: tag.number):
        numbers.append(number)
        total += sum(tag.tokens or 0 for tag in group)
        if by_size is None and provider_tokens([(total, tools_ratio)]) >= floor:
            by_size = number
        if by_size is not None and len(numbers) >= MIN_NEWEST:
            break
    if not numbers:
        return None
    by_count = numbers[min(MIN_NEWEST, len(numbers)) - 1]
    return min(numbers[-1] if by_size is None else by_size, by_count)


def in_window(number: int, cutoff: int | None) -> bool:
    """Whether a tool tag is a member of the protection window."""
    return cutoff is not None and number >= cutoff


def merge_protected_tools(*configured: Mapping[str, int]) -> dict[str, int]:
    """Keep counts by tool key: the defaults, overlaid by each map in turn.  0 takes a tool out."""
    merged = dict(DEFAULT_PROTECTED_TOOLS)
    for tools in configured:
        merged.update({tool_key(name): keep for name, keep in tools.items()})
    return {name: keep for name, keep in merged.items() if keep > 0}


def held_by_tool(tags: Iterable[ToolTag], protected_tools: Mapping[str, int]) -> frozenset[int]:
    """The numbers of the newest active tags of each protected tool.

    ``protected_tools`` is a merged map (:func:`merge_protected_tools`).
    """
    left = dict(protected_tools)
    held: set[int] = set()
    for tag in sorted((tag for tag in tags if tag.active), key=lambda tag: tag.age, reverse=True):
        name = tool_key(tag.tool_name)
        if left.get(name, 0) > 0:
            left[name] -= 1
            held.add(tag.number)
    return frozenset(held)
