"""How compartments lose detail with age (history-render section 8).

Age is a position, not a time: how many tiered compartments are newer.  It is measured in half lives, which
importance stretches and pressure shortens, and a table turns the result into a tier.  Tier 1 is the richest
text, 4 hardly more than a heading, and 5 means archived: nothing is left of the row.

Pressure is decided once per render, from nominal costs and never from real text, so that rewording a
compartment moves no other.  Real lengths come in afterwards: a guard demotes the oldest rows until the body
fits, and a loop around both raises the pressure when the finished block is still too long.

Nothing here knows what a row looks like.  It asks for the tokens of (row, tier) and of a set of tiers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

ARCHIVED = 5
DEFAULT_IMPORTANCE = 50
MIN_PRESSURE = 0.10

BASE_HALF_LIFE = 24.0  # compartments, at importance 50 and pressure 1
IMPORTANCE_PER_DOUBLING = 25.0
OVERLAP_WEIGHT = 2.0


class Step(NamedTuple):
    """A tier, the age in half lives below which it holds, and its nominal cost in tokens."""

    tier: int
    below: float
    cost: int


CURVE: tuple[Step, ...] = (
    Step(1, 0.201, 322),
    Step(2, 0.729, 109),
    Step(3, 1.322, 35),
    Step(4, 2.587, 20),
)
COSTS: dict[int, int] = {step.tier: step.cost for step in CURVE} | {ARCHIVED: 0}
ARCHIVE_AGE = CURVE[-1].below

# The fold loop: how far over budget the block may be, how much each retry adds, how many there are.
TOLERANCE = 1.05
PRESSURE_STEP = 1.15
RETRIES = 3


def clamped_importance(importance: int | None) -> int:
    """Importance as it acts: 1–100, None is 50."""
    return DEFAULT_IMPORTANCE if importance is None else min(max(importance, 1), 100)


def half_life(importance: int | None, pressure: float) -> float:
    """Half life in compartments."""
    doublings = (clamped_importance(importance) - DEFAULT_IMPORTANCE) / IMPORTANCE_PER_DOUBLING
    return BASE_HALF_LIFE * math.pow(2.0, doublings) / max(pressure, MIN_PRESSURE)


def age(index: int, importance: int | None, pressure: float) -> float:
    """Age in half lives of the row at 1-based position ``index`` from the newest."""
    return (max(index, 1) - 1) / half_life(importance, pressure)


def tier_at(index: int, importance: int | None, pressure: float, overlap: float = 0.0) -> int:
    """The tier of a row, :data:`ARCHIVED` included.

    ``overlap`` (clamped to 0–1) is how much of the row an anchor still touches; it keeps a row from being
    archived, never from losing detail.
    """
    z = age(index, importance, pressure)
    for step in CURVE:
        if z < step.below:
            return step.tier
    kept = z < ARCHIVE_AGE + OVERLAP_WEIGHT * min(max(overlap, 0.0), 1.0)
    return CURVE[-1].tier if kept else ARCHIVED


def curve(importances: Sequence[int | None], pressure: float) -> list[int]:
    """Tiers of rows given oldest first."""
    count = len(importances)
    return [tier_at(count - position, value, pressure) for position, value in enumerate(importances)]


def nominal_cost(tiers: Sequence[int]) -> int:
    return sum(COSTS[tier] for tier in tiers)


def budget_pressure(importances: Sequence[int | None], budget: float) -> float:
    """Pressure of one render; 1 when there is no budget.  Rows archived at pressure 1 cost nothing."""
    if budget <= 0:
        return 1.0
    return max(MIN_PRESSURE, nominal_cost(curve(importances, 1.0)) / budget)


class _Guard:
    """Tiers being demoted, oldest first, with the steps that are left."""

    def __init__(self, tiers: Sequence[int]) -> None:
        self.tiers = list(tiers)
        self.steps = ARCHIVED * len(self.tiers)
        self.oldest = 0

    def demote(self) -> tuple[int, int] | None:
        """Take one step; the row and its tier before, or None when there is nothing left to take."""
        while self.oldest < len(self.tiers) and self.tiers[self.oldest] >= ARCHIVED:
            self.oldest += 1
        if self.oldest == len(self.tiers) or self.steps == 0:
            return None
        self.steps -= 1
        self.tiers[self.oldest] += 1
        return self.oldest, self.tiers[self.oldest] - 1


def demoted(
    tiers: Sequence[int],
    budget: float,
    row_tokens: Callable[[int, int], int],
    body_tokens: Callable[[Sequence[int]], int],
) -> list[int]:
    """The budget guard: ``tiers`` (oldest first) after demoting the oldest rows until they fit.

    First the sum of the rows is held against the budget, then the joined body.  ``row_tokens(row, tier)``
    measures one row and is never asked about an archived one, ``body_tokens(tiers)`` the body.  A row is
    pushed all the way to archived before the next one is touched.  At most five steps per row are taken in
    total.  Without a budget nothing is demoted.
    """
    guard = _Guard(tiers)
    if budget <= 0:
        return guard.tiers

    def measured(row: int, tier: int) -> int:
        return row_tokens(row, tier) if tier < ARCHIVED else 0

    total = sum(measured(row, tier) for row, tier in enumerate(guard.tiers))
    while total > budget and (step := guard.demote()):
        row, before = step
        total += measured(row, before + 1) - measured(row, before)
    while body_tokens(guard.tiers) > budget and guard.demote():
        pass
    return guard.tiers


def fold_loop(render: Callable[[float], str], tokens: Callable[[str], int], budget: float) -> str:
    """Render with rising pressure until the block fits, at most :data:`RETRIES` times more.

    ``render(budget)`` makes the ``<session-history>`` block, tags included; the last one stands even if it
    is still too long.  Without a budget there is one render.
    """
    block = render(budget)
    if budget <= 0:
        return block
    multiplier = 1.0
    for _ in range(RETRIES):
        if tokens(block) <= TOLERANCE * budget:
            break
        multiplier *= PRESSURE_STEP
        block = render(budget / multiplier)
    return block
