"""After an overflow: the recovery latch, and the last look at a finished request (reclaim-core section 8).

The latch is armed by a provider's overflow error, or when a smaller model is chosen than the last request
would fit.  While it is armed a primary session is treated as an emergency, for as long as that can help.
The final check refuses what is proven too large, and only that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from magiccontext.engine.overflow import Overflow, Provenance
from magiccontext.engine.schedule import EMERGENCY
from magiccontext.engine.state import Vars

MAX_NO_HEAD = 2
CALM_PERCENTAGE = 80.0
DISARM_SHARE = 0.8

NO_HEAD_NOTICE = "MC-H02"


def learn_overflow(vars: Vars, overflow: Overflow, model: str, *, primary: bool, compaction: bool) -> Vars:
    """``vars`` after a provider refused a request as too large (section 8.2).

    The limit is learned for every session; only a primary one with compaction on arms its recovery and
    takes the reported input as its usage.
    """
    if overflow.limit is not None:
        vars = replace(
            vars,
            detected_limit=overflow.limit,
            detected_model=model,
            detected_provenance=str(overflow.provenance or Provenance.UNKNOWN),
        )
    if not primary or not compaction:
        return vars
    return replace(
        vars,
        recovery_armed=True,
        recovery_origin="provider_overflow",
        usage_input_tokens=overflow.reported_input or vars.usage_input_tokens,
        proven_safe_input=0,
    )


def treats_as_emergency(vars: Vars, *, primary: bool) -> bool:
    """An armed latch counts as 95 % until the historian twice had nothing to take (section 8.3)."""
    return primary and vars.recovery_armed and vars.recovery_no_head < MAX_NO_HEAD


def count_no_head(vars: Vars, *, primary: bool, eligible_head: bool, percentage: float) -> tuple[Vars, bool]:
    """Advance the no-head count of an armed session.  The second value: tell the person now."""
    if not primary:
        return vars, False
    if vars.recovery_armed and not eligible_head and vars.recovery_no_head < MAX_NO_HEAD:
        count = vars.recovery_no_head + 1
        return replace(vars, recovery_no_head=count), count == MAX_NO_HEAD
    if vars.recovery_no_head and not vars.recovery_armed and percentage < CALM_PERCENTAGE:
        return replace(vars, recovery_no_head=0), False
    return vars, False


@dataclass(frozen=True, slots=True)
class FinalCheck:
    """What the last look sees.  Tokens; ``percentage`` is that of the emergency line."""

    lower: int
    trusted: int
    usable_hard: int
    protected_tokens: int
    percentage: float
    armed: bool
    origin: str
    proven_limit: int  # provider-proven limit of this model; 0 when unknown
    folded: bool  # a history fold landed on this pass
    unmanaged: bool  # nothing of this session was ever dropped or summarised


@dataclass(frozen=True, slots=True)
class Ending:
    """How the check ends: serve, serve and disarm, or refuse with a code and what to do."""

    code: str = ""
    text: str = ""
    disarm: bool = False

    @property
    def refused(self) -> bool:
        return bool(self.code)


PROTECTED = Ending(
    "protected_tool_results_over_limit",
    "The newest tool results alone are larger than the model's window. Choose a model with a larger window, "
    "or go back to before the last tool calls.",
)
UNMANAGED = Ending(
    "MC-H06",
    "This session was already larger than the model's window when it came here, and what may be left out is "
    "not enough to make it fit. Choose a model with a larger window, or go back in the conversation.",
)
OVER = Ending(
    "MC-H04",
    "The request is larger than the model's window although everything that may be left out has been left "
    "out. Choose a model with a larger window, or shorten the newest messages.",
)
NOT_RECOVERED = Ending(
    "overflow_not_recovered",
    "The provider refused the last request as too large and nothing could be summarised since. Run "
    "/ctx-flush, choose a model with a larger window, or clear the session.",
)

FINAL: tuple[tuple[str, Callable[[FinalCheck], bool], Ending], ...] = (
    (
        "protected results alone are over",
        lambda c: c.lower > c.usable_hard and c.protected_tokens > c.usable_hard,
        PROTECTED,
    ),
    ("over, never managed", lambda c: c.lower > c.usable_hard and c.unmanaged, UNMANAGED),
    ("proven over the window", lambda c: c.lower > c.usable_hard, OVER),
    (
        "recovered",
        lambda c: c.armed and c.proven_limit > 0 and c.trusted < DISARM_SHARE * c.proven_limit,
        Ending(disarm=True),
    ),
    ("below the emergency", lambda c: c.percentage < EMERGENCY, Ending()),
    (
        "refused by the provider, nothing folded",
        lambda c: c.armed and c.origin == "provider_overflow" and not c.folded,
        NOT_RECOVERED,
    ),
    ("otherwise", lambda c: True, Ending()),
)
"""Section 8.4, in its order; the first row that holds decides."""


def final_check(check: FinalCheck) -> Ending:
    return next(ending for _, holds, ending in FINAL if holds(check))
