"""How many tokens the parts of the head may take (history-render section 4), and when that changed (5).

Two identities are stored with a pair.  The *policy* says what was configured and is independent of the
window: it changes when a person changes it.  The *allowances* say what came of it in provider tokens: they
move with the window too, and only a fall of some size matters.  Both are in provider tokens, so that a new
calibration changes neither.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import NamedTuple

from magiccontext.engine.calibration import NOISE, local_budget
from magiccontext.engine.head.model import Budgets

DEFAULT_HISTORY_SHARE = 0.15
HISTORY_SHARES = (0.05, 0.5)
HISTORY_FALLBACK = 60_000
DEFAULT_MEMORY = 4_000
MEMORY_LIMITS = (500, 20_000)
PROFILE = 4_000
DELTA_SHARE = 0.25  # what m[1] may take of the memory and profile budgets

SHRINK_TOKENS = 64
SHRINK_SHARE = 0.01

_POLICY = re.compile(r"(?P<memory>m[0-9]+)-h(?P<history>.+)")
_ALLOWANCES = re.compile(r"m(?P<memory>[0-9]+)-h(?P<history>[0-9]+)")


class ThresholdKind(StrEnum):
    """How the execute threshold was configured."""

    PERCENTAGE = "percentage"
    TOKENS = "tokens"


class Local(NamedTuple):
    """Budgets in local tokens."""

    history: int
    memory: int
    profile: int


def history_limit(
    usable_soft: int, measured_limit: int = 0, *, input_tokens: int = 0, percentage: float = 0.0
) -> float | None:
    """The window a history budget is a share of, in provider tokens; None when nothing is known.

    ``measured_limit`` is the last window measured for the *same* model.  Zero means unknown throughout.
    """
    if usable_soft > 0:
        return usable_soft
    if measured_limit > 0:
        return measured_limit
    return input_tokens / (percentage / 100) if percentage > 0 and input_tokens > 0 else None


def history_budget(limit: float | None, threshold: float, share: float | None = None) -> int:
    """Provider tokens for compartments.

    ``threshold`` is the execute threshold in percent, ``share`` the configured part of it (None: default).
    """
    if limit is None:
        return HISTORY_FALLBACK
    least, most = HISTORY_SHARES
    share = DEFAULT_HISTORY_SHARE if share is None else min(max(share, least), most)
    return math.floor(limit * (threshold / 100) * share + NOISE)


def memory_budget(configured: int | None) -> int:
    """Provider tokens for memories."""
    least, most = MEMORY_LIMITS
    return DEFAULT_MEMORY if configured is None else min(max(configured, least), most)


def local(budgets: Budgets) -> Local:
    """Budgets as the local counter measures them."""
    return Local(
        local_budget(budgets.history, budgets.ratio),
        local_budget(budgets.memory, budgets.ratio),
        local_budget(budgets.profile, budgets.ratio),
    )


def delta(budget: int) -> int:
    """What m[1] may take of a budget."""
    return max(1, math.floor(budget * DELTA_SHARE))


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(float(number))


def policy_identity(memory: int, share: float | None, kind: ThresholdKind, threshold: float) -> str:
    """What was configured, e.g. ``m4000-hp0.15:percentage:65``; ``share`` None is written ``default``."""
    history = "default" if share is None else _plain(share)
    return f"m{memory}-hp{history}:{kind.value}:{_plain(threshold)}"


def policy_changed(stored: str | None, current: str) -> bool:
    """Whether another policy was stored.  Nothing stored is adopted later, not compared.

    An older identity has a number for its history part, which says nothing about the policy; then only the
    memory parts are compared.
    """
    if stored is None or stored == current:
        return False
    old, new = _POLICY.fullmatch(stored), _POLICY.fullmatch(current)
    if old and new and old["history"].isdecimal():
        return old["memory"] != new["memory"]
    return True


def allowances(budgets: Budgets) -> str:
    """What a pair was rendered within, e.g. ``m4000-h19500``."""
    return f"m{budgets.memory}-h{budgets.history}"


def recorded_history(recorded: str | None) -> int:
    """The history's part of stored allowances; 0 when there are none."""
    found = _ALLOWANCES.fullmatch(recorded or "")
    return int(found["history"]) if found is not None else 0


def _fell(recorded: int, now: int) -> bool:
    return recorded - now > max(SHRINK_TOKENS, SHRINK_SHARE * recorded)


def shrunk(recorded: str | None, budgets: Budgets) -> bool:
    """Whether an allowance fell noticeably below the recorded one, however many steps that took."""
    found = _ALLOWANCES.fullmatch(recorded or "")
    return found is not None and (
        _fell(int(found["memory"]), budgets.memory) or _fell(int(found["history"]), budgets.history)
    )
