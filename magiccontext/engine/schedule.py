"""When the scheduler says execute (reclaim-core section 4).

The scheduler knows usage, a threshold and a clock that somebody else read.  It says *execute* or *defer*;
whether anything may then change is the permission's matter (:mod:`magiccontext.engine.permission`), and a
"defer" here is not yet a defer pass.

Usage is a percentage of the usable soft window.  Four lines cross it:

    execute threshold   configured, 65 by default, at most 90
    threshold + 10      where the signed-thinking hold ends (replay-lanes section 3.2)
    force band          85, or threshold + 2 where that is more; so at most 92
    emergency           95, measured against the usable *hard* window where that is known

A *pressure episode* lasts from the moment usage reaches the execute threshold until it falls below.  Two
flags follow it: that one is in an episode, and that the routine lanes ran in it.  An execute for idleness
below the threshold opens no episode.

Times are milliseconds; a lifetime may be infinite.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

DEFAULT_THRESHOLD = 65.0
MAX_THRESHOLD = 90.0
MIN_FORCE_BAND = 85.0
FORCE_BAND_ABOVE_THRESHOLD = 2.0
EMERGENCY = 95.0

DEFAULT_TTL_MS = 300_000.0
_TTL = re.compile(r"(?P<digits>[0-9]{1,15})(?P<unit>[smh]?)")
_UNIT_MS = {"": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


class Lifetime(NamedTuple):
    """A cache lifetime in milliseconds.  ``valid`` is False when the text was not understood."""

    ms: float
    valid: bool


def parse_ttl(text: str) -> Lifetime:
    """Read a ``cache_ttl`` value (section 4.3).

    It is digits with ``s``, ``m`` or ``h``, bare milliseconds, or ``never`` in any case.  Anything else
    acts as five minutes and is flagged, so that the caller can say so.
    """
    if text.lower() == "never":
        return Lifetime(math.inf, True)
    found = _TTL.fullmatch(text)
    if found is None:
        return Lifetime(DEFAULT_TTL_MS, False)
    return Lifetime(float(int(found["digits"]) * _UNIT_MS[found["unit"]]), True)


def effective_threshold(percentage: float) -> float:
    """The execute threshold as it acts (config section 10.3): senseless values are 65, at most 90."""
    if not math.isfinite(percentage) or percentage < 0:
        return DEFAULT_THRESHOLD
    return min(percentage, MAX_THRESHOLD)


def force_band(threshold: float) -> float:
    """Where the force band begins, in percent of the usable soft window (section 4.2)."""
    return max(MIN_FORCE_BAND, effective_threshold(threshold) + FORCE_BAND_ABOVE_THRESHOLD)


def expired(now_ms: float, last_response_ms: float, ttl_ms: float) -> bool:
    """Idle expiry: the provider's cache outlived its lifetime, strictly, and only after a first response
    (history-render section 5)."""
    return last_response_ms > 0 and now_ms - last_response_ms > ttl_ms


class Decision(StrEnum):
    EXECUTE = "execute"
    DEFER = "defer"


@dataclass(frozen=True, slots=True)
class Moment:
    """What the scheduler looks at.  ``last_response_ms`` is 0 when the provider never answered."""

    percentage: float
    threshold: float
    last_response_ms: float
    now_ms: float
    ttl_ms: float
    compaction_off: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    holds: Callable[[Moment], bool]
    decision: Decision


# Section 4.4, in its order.  A figure that is not a number compares as false and so ends in the last row.
SCHEDULER: tuple[Rule, ...] = (
    Rule("compaction_off", lambda m: m.compaction_off, Decision.DEFER),
    Rule("nothing_yet", lambda m: m.percentage == 0 and m.last_response_ms <= 0, Decision.DEFER),
    Rule("threshold", lambda m: m.percentage >= m.threshold, Decision.EXECUTE),
    # Unlike idle expiry, usage without any response (an estimate, say) counts as long ago.
    Rule("idle", lambda m: m.now_ms - m.last_response_ms > m.ttl_ms, Decision.EXECUTE),
    Rule("otherwise", lambda m: True, Decision.DEFER),
)


def deciding_rule(moment: Moment) -> Rule:
    """The first row of :data:`SCHEDULER` that holds."""
    return next(rule for rule in SCHEDULER if rule.holds(moment))


def scheduler(moment: Moment) -> Decision:
    """Execute or defer (section 4.4)."""
    return deciding_rule(moment).decision


class Episode(NamedTuple):
    """The pressure episode of a session; both flags are stored with it."""

    active: bool = False
    routine_ran: bool = False


# (usage at or above the threshold, routine lanes ran on this pass, they had run in this episode) → next.
EPISODE: dict[tuple[bool, bool, bool], Episode] = {
    (False, False, False): Episode(False, False),
    (False, False, True): Episode(False, False),
    (False, True, False): Episode(False, False),
    (False, True, True): Episode(False, False),
    (True, False, False): Episode(True, False),
    (True, False, True): Episode(True, True),
    (True, True, False): Episode(True, True),
    (True, True, True): Episode(True, True),
}


def next_episode(
    before: Episode, *, percentage: float, threshold: float, routine_ran: bool = False
) -> Episode:
    """The episode after a look at usage, or after the lanes of a pass (sections 4.4 and 5.5)."""
    return EPISODE[percentage >= threshold, routine_ran, before.routine_ran]
