"""How much of a model's window is usable (reclaim-core section 10.1).

A window has two walls.  The *soft* one is what every percentage, threshold and budget is measured
against: the context less what is kept free for the answer.  The *hard* one is where the provider refuses;
it is never below the soft one.

Where the answer's room comes from differs by provider kind: some cut the answer short when the window is
full (``shared_truncated``), some reserve its maximum up front (``shared_reserved``), some count input and
answer apart (``separate``).  Which rule gave the soft wall is kept with it, so that a page can say so.

Facts about a window are of unequal worth.  One a provider stated beats an overlay, an overlay beats the
catalog, and where nothing is known 128,000 is assumed and marked as estimated.  A limit read from an error
only ever lowers a wall.  An accepted request only ever raises one, and only a wall that was looked up:
beyond a trusted wall it counts as pressure above 100 %.

All sizes are tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from magiccontext.engine.overflow import Provenance, believable

UNKNOWN_CONTEXT = 128_000
MIN_USABLE = 1_024
TRUNCATION_MARGIN = 4_096
MAX_UPFRONT_OUTPUT = 32_000
OUTPUT_SHARE = 0.25


class ProviderKind(StrEnum):
    SHARED_TRUNCATED = "shared_truncated"
    SEPARATE = "separate"
    SHARED_RESERVED = "shared_reserved"


PROVIDER_KINDS: dict[str, ProviderKind] = {
    "anthropic": ProviderKind.SHARED_TRUNCATED,
    "xai": ProviderKind.SHARED_TRUNCATED,
    "google": ProviderKind.SEPARATE,
    "google-antigravity": ProviderKind.SEPARATE,
}
OTHER_PROVIDERS = ProviderKind.SHARED_RESERVED


class WindowSource(StrEnum):
    """Where a context size comes from, best first."""

    PROVIDER = "provider"
    OVERLAY = "overlay"
    CATALOG = "catalog"
    ESTIMATED = "estimated"


# The sources whose word an accepted larger request overrules.
LOOKED_UP = frozenset({WindowSource.CATALOG, WindowSource.ESTIMATED})


class ReserveRule(StrEnum):
    """Which rule set the soft wall."""

    CONFIGURED = "output_reserve"
    PRE_CARVED = "input_limit"
    SEPARATE = "separate_quota"
    MODEL_OUTPUT = "output_limit"
    NONE = "no_output_limit"
    PROVEN = "proven_input"


@dataclass(frozen=True, slots=True)
class Detected:
    """A limit read from an overflow error of this very model (section 8.1)."""

    limit: int
    provenance: Provenance = Provenance.UNKNOWN


@dataclass(frozen=True, slots=True)
class Window:
    """The geometry of one model's window.  ``usable_soft`` is the limit meant wherever a percentage is."""

    context: int
    usable_soft: int
    usable_hard: int
    estimated: bool
    source: WindowSource
    kind: ProviderKind
    rule: ReserveRule
    detected: bool = False  # a detected limit lowered a wall


def provider_kind(provider: str) -> ProviderKind:
    """How a provider shares its window between input and answer."""
    return PROVIDER_KINDS.get(provider.lower(), OTHER_PROVIDERS)


def best_context(stated: Mapping[WindowSource, int | None]) -> tuple[int, WindowSource]:
    """The believable context size of the best source; 128,000 and ``ESTIMATED`` when there is none."""
    for source in WindowSource:
        if (size := stated.get(source)) is not None and believable(size):
            return size, source
    return UNKNOWN_CONTEXT, WindowSource.ESTIMATED


def _floor_of(base: int) -> float:
    return max(MIN_USABLE, base / 2)


def _soft(
    kind: ProviderKind,
    context: int,
    output_limit: int | None,
    input_limit: int | None,
    output_reserve: float | None,
    overlay: bool,
) -> tuple[int, ReserveRule]:
    carved = input_limit is not None and input_limit < context
    base = input_limit if input_limit is not None and carved else context
    if output_reserve is not None:
        return math.floor(max(base - output_reserve, _floor_of(base))), ReserveRule.CONFIGURED
    if carved:
        return base, ReserveRule.PRE_CARVED
    if kind is ProviderKind.SEPARATE:
        return context, ReserveRule.SEPARATE
    if not output_limit:
        return context, ReserveRule.NONE
    reserve = min(output_limit, context * OUTPUT_SHARE, MAX_UPFRONT_OUTPUT if overlay else math.inf)
    return math.floor(max(context - reserve, _floor_of(context))), ReserveRule.MODEL_OUTPUT


def _hard(kind: ProviderKind, context: int, output_limit: int | None) -> int:
    margins = {
        ProviderKind.SHARED_TRUNCATED: TRUNCATION_MARGIN,
        ProviderKind.SEPARATE: 0,
        ProviderKind.SHARED_RESERVED: min(output_limit or MAX_UPFRONT_OUTPUT, MAX_UPFRONT_OUTPUT),
    }
    return context - margins[kind]


def geometry(
    provider: str,
    context: int | None,
    *,
    output_limit: int | None = None,
    input_limit: int | None = None,
    output_reserve: float | None = None,
    detected: Detected | tuple[int, Provenance] | None = None,
    source: WindowSource = WindowSource.CATALOG,
    kind: ProviderKind | None = None,
    overlay: bool = False,
    proven_input: int = 0,
) -> Window:
    """The usable window of the model about to be called (section 10.1).

    ``context`` outside 1,024 to 10,000,000, or None, acts as 128,000 and estimated (hosts section 1).
    ``output_reserve`` is the person's configured value for this model, already looked up; it applies
    before everything else, 0 included.  ``kind`` and ``overlay`` come from an overlay file, which makes
    an output limit that equals the context a mere placeholder.  ``proven_input`` is the largest input
    this model accepted.

    Raises ValueError for a reserve below 0 or not finite.
    """
    if output_reserve is not None and not 0 <= output_reserve < math.inf:
        raise ValueError(f"output_reserve must be a number of at least 0, not {output_reserve}")
    kind = kind or provider_kind(provider)
    if context is None or not believable(context):
        context, source = UNKNOWN_CONTEXT, WindowSource.ESTIMATED
    if input_limit is not None and not believable(input_limit):
        input_limit = None
    if overlay and output_limit == context:
        output_limit = None
    if output_limit is not None and output_limit <= 0:
        output_limit = None

    seen = Detected(*detected) if isinstance(detected, tuple) else detected
    if seen is not None and not believable(seen.limit):
        seen = None
    stated = context
    if seen is not None and seen.provenance is not Provenance.PROMPT_ONLY:
        context = min(context, seen.limit)
    soft, rule = _soft(kind, context, output_limit, input_limit, output_reserve, overlay)
    hard = max(_hard(kind, context, output_limit), soft, MIN_USABLE)
    lowered = context < stated
    if seen is not None and seen.provenance is Provenance.PROMPT_ONLY:
        lowered = seen.limit < hard
        soft, hard = min(soft, seen.limit), min(hard, seen.limit)

    # A reserve the person configured is the person's wall, and a detected one is the provider's.
    looked_up = source in LOOKED_UP and not lowered and rule is not ReserveRule.CONFIGURED
    if looked_up and proven_input > soft:
        soft, rule = proven_input, ReserveRule.PROVEN
        hard, context = max(hard, soft), max(context, soft)
    return Window(
        context=context,
        usable_soft=soft,
        usable_hard=hard,
        estimated=source is WindowSource.ESTIMATED,
        source=source,
        kind=kind,
        rule=rule,
        detected=lowered,
    )
