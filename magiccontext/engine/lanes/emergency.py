"""The tiered emergency tool drop (reclaim-core section 7).

From the force band on, a permitted pass may drop tool results nobody asked to drop, before the other
heuristics and on tags read again after the drain.  It computes how much must go, then takes it from the
cheapest tier first, oldest first:

    fixed    what the active tags do not explain: system prompt, tools, untagged text
    target   fixed, and 0.30 of the room between fixed and the ceiling
    reclaim  what lies above the target; up to 2,000 tokens are not worth a bust

The tail is the mass of *all* active tags.  With the candidates alone, everything protected would look
fixed and the target would move up with it.

A *latch* keeps the lane from firing on every step of a session that stays in the band: it holds the input
tokens at which the lanes last changed bytes, and 0 means armed.  It is durable; only LATCH moves it.

From 95 % on, the window and the reserves yield and the latch is ignored.  Protected tools still hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from magiccontext.engine.lanes.protection import in_window, round_half_up
from magiccontext.engine.toolnames import tool_key

KEEP_OF_ROOM = 0.30
MIN_RECLAIM = 2_000
REARM_BELOW_BAND = 5.0


class Tier(NamedTuple):
    """Tools of one worth; the newest ``reserve`` share of the tier's candidates stays."""

    name: str
    tools: frozenset[str]
    reserve: float


T1 = Tier("T1", frozenset({"read", "todowrite", "task", "aft_outline", "aft_zoom"}), 0.20)
T2 = Tier("T2", frozenset({"edit", "write", "apply_patch", "grep", "glob", "aft_search"}), 0.20)
T3 = Tier("T3", frozenset(), 0.0)  # everything else

TIERS_IN_ORDER = (T3, T2, T1)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tool tag the lane may look at; sizes are provider tokens.

    ``reclaimable`` is what a drop would free now: the result alone when the call would stay a skeleton.
    """

    number: int
    tool_name: str | None
    reclaimable: int
    active: bool = True
    droppable: bool = True
    protected_tool: bool = False


class Outcome(StrEnum):
    DROP = "drop"
    BELOW_BAND = "below-band"
    LATCHED = "latched"
    UNKNOWN_CEILING = "unknown-ceiling"
    UNKNOWN_USAGE = "unknown-usage"
    SMALL_RECLAIM = "below-minimum"
    NO_CANDIDATES = "no-candidates"
    SMALL_SELECTION = "selection-below-minimum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """What the lane knows of the request.  ``current``, ``ceiling`` and ``tail`` are provider tokens."""

    current: float
    ceiling: float  # see ceiling_tokens; 0 when the limit is unknown
    tail: int  # calibrated tokens of all active tags on the wire
    in_force_band: bool = True
    emergency: bool = False  # at or above 95 %
    latch: int = 0  # last_emergency_input_sample
    paid: bool = False  # the pass is a rebuild already paid for
    cutoff: int | None = None  # of the protection window

    @property
    def target(self) -> float:
        fixed = max(self.current - self.tail, 0)
        return fixed + KEEP_OF_ROOM * max(self.ceiling - fixed, 0)

    @property
    def reclaim(self) -> int:
        return round_half_up(self.current - self.target)


@dataclass(frozen=True, slots=True)
class EmergencyPlan:
    """What to drop, in order.  ``reclaim`` is what had to go, ``selected`` what the numbers free."""

    outcome: Outcome
    numbers: tuple[int, ...] = ()
    target: float = 0.0
    reclaim: int = 0
    selected: int = 0


def _known(tokens: float) -> bool:
    return math.isfinite(tokens) and tokens > 0


# Why the lane does nothing, before it looks at a candidate; first row that holds.  A paid pass has
# cleared the latch before this lane (see LATCH).
REFUSALS: tuple[tuple[Outcome, Callable[[Pressure], bool]], ...] = (
    (Outcome.BELOW_BAND, lambda p: not (p.in_force_band or p.emergency)),
    (Outcome.LATCHED, lambda p: p.latch > 0 and not p.paid and not p.emergency),
    (Outcome.UNKNOWN_CEILING, lambda p: not _known(p.ceiling)),
    (Outcome.UNKNOWN_USAGE, lambda p: not _known(p.current)),
    (Outcome.SMALL_RECLAIM, lambda p: p.reclaim <= MIN_RECLAIM),
)


def ceiling_tokens(limit: int, threshold: float) -> int:
    """The tokens at which the execute threshold lies; 0 for an unknown limit."""
    return math.floor(limit * threshold / 100)


def tier_of(tool_name: str | None) -> Tier:
    """The tier of a tool; a tool without a name is in T3."""
    return next((tier for tier in (T1, T2) if tool_key(tool_name) in tier.tools), T3)


def _eligible(candidate: Candidate, pressure: Pressure) -> bool:
    return (
        candidate.active
        and candidate.droppable
        and candidate.reclaimable > 0
        and not candidate.protected_tool
        and (pressure.emergency or not in_window(candidate.number, pressure.cutoff))
    )


def _in_order(candidates: list[Candidate], pressure: Pressure) -> Iterable[Candidate]:
    for tier in TIERS_IN_ORDER:
        members = sorted((c for c in candidates if tier_of(c.tool_name) is tier), key=lambda c: c.number)
        reserve = 0.0 if pressure.emergency else tier.reserve
        yield from members[: len(members) - math.ceil(len(members) * reserve)]


def select(candidates: Iterable[Candidate], pressure: Pressure) -> EmergencyPlan:
    """What the emergency lane drops on this pass (section 7)."""
    for outcome, holds in REFUSALS:
        if holds(pressure):
            return EmergencyPlan(outcome)
    needed = pressure.reclaim
    numbers: list[int] = []
    selected = 0
    for candidate in _in_order([c for c in candidates if _eligible(c, pressure)], pressure):
        if selected >= needed:
            break
        numbers.append(candidate.number)
        selected += candidate.reclaimable
    if not numbers:
        return EmergencyPlan(Outcome.NO_CANDIDATES)
    if selected < MIN_RECLAIM and not pressure.paid:
        return EmergencyPlan(Outcome.SMALL_SELECTION)
    return EmergencyPlan(Outcome.DROP, tuple(numbers), pressure.target, needed, selected)


class When(StrEnum):
    """The moments at which the latch may move."""

    USAGE = "usage resolved"
    HEURISTICS = "start of heuristics"
    END = "end of the lanes"
    REFUSED = "pass aborted by a refusal"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatchFacts:
    percentage: float
    force_band: float
    input_tokens: int = 0
    model_changed: bool = False
    paid: bool = False
    # Drain, heuristics or reasoning changed bytes on this pass; replay changes none.
    changed: bool = False

    @property
    def in_force_band(self) -> bool:
        return self.percentage >= self.force_band


class Move(NamedTuple):
    when: When
    why: str
    holds: Callable[[LatchFacts], bool]
    sample: Callable[[LatchFacts], int]


# Section 7; a moment without a row that holds leaves the latch alone.
LATCH: tuple[Move, ...] = (
    Move(When.USAGE, "model changed", lambda f: f.model_changed, lambda f: 0),
    Move(
        When.USAGE,
        "pressure is gone",
        lambda f: 0 < f.percentage < f.force_band - REARM_BELOW_BAND,
        lambda f: 0,
    ),
    Move(When.HEURISTICS, "already paid for", lambda f: f.in_force_band and f.paid, lambda f: 0),
    Move(When.END, "bytes changed", lambda f: f.in_force_band and f.changed, lambda f: f.input_tokens),
    Move(When.REFUSED, "nothing was sent", lambda f: True, lambda f: 0),
)


def next_latch(sample: int, when: When, facts: LatchFacts) -> int:
    """``last_emergency_input_sample`` after a moment of the pass; 0 is armed."""
    return next((move.sample(facts) for move in LATCH if move.when is when and move.holds(facts)), sample)
