import math
from typing import Any

import pytest

from magiccontext.engine.overflow import Provenance
from magiccontext.engine.window import (
    Detected,
    ProviderKind,
    ReserveRule,
    WindowSource,
    best_context,
    geometry,
    provider_kind,
)


@pytest.mark.parametrize(
    ("provider", "kind"),
    [
        ("anthropic", ProviderKind.SHARED_TRUNCATED),
        ("xAI", ProviderKind.SHARED_TRUNCATED),
        ("google", ProviderKind.SEPARATE),
        ("google-antigravity", ProviderKind.SEPARATE),
        ("openai", ProviderKind.SHARED_RESERVED),
        ("", ProviderKind.SHARED_RESERVED),
    ],
)
def test_provider_kind(provider: str, kind: ProviderKind) -> None:
    assert provider_kind(provider) is kind


@pytest.mark.parametrize("context", [None, 0, 1_023, 10_000_001])
def test_unbelievable_context_is_128k_and_estimated(context: int | None) -> None:
    window = geometry("openai", context)
    assert (window.context, window.estimated) == (128_000, True)
    assert window.source is WindowSource.ESTIMATED


@pytest.mark.parametrize("context", [1_024, 10_000_000])
def test_context_bounds_are_inclusive(context: int) -> None:
    window = geometry("openai", context)
    assert (window.context, window.estimated) == (context, False)


# Section 10.1: (provider, context, keywords, usable soft, usable hard, rule).
GEOMETRY: list[tuple[str, int, dict[str, Any], int, int, ReserveRule]] = [
    # 1: the person's reserve
    ("openai", 200_000, {"output_reserve": 20_000}, 180_000, 180_000, ReserveRule.CONFIGURED),
    (
        "openai",
        200_000,
        {"output_reserve": 0, "output_limit": 64_000},
        200_000,
        200_000,
        ReserveRule.CONFIGURED,
    ),
    ("openai", 200_000, {"output_reserve": 190_000}, 100_000, 168_000, ReserveRule.CONFIGURED),
    (
        "openai",
        400_000,
        {"output_reserve": 10_000, "input_limit": 272_000},
        262_000,
        368_000,
        ReserveRule.CONFIGURED,
    ),
    ("google", 200_000, {"output_reserve": 20_000}, 180_000, 200_000, ReserveRule.CONFIGURED),
    ("openai", 1_500, {"output_reserve": 1_000}, 1_024, 1_024, ReserveRule.CONFIGURED),
    # 2: pre-carved input
    (
        "openai",
        400_000,
        {"input_limit": 272_000, "output_limit": 128_000},
        272_000,
        368_000,
        ReserveRule.PRE_CARVED,
    ),
    ("google", 400_000, {"input_limit": 272_000}, 272_000, 400_000, ReserveRule.PRE_CARVED),
    ("openai", 200_000, {"input_limit": 200_000}, 200_000, 200_000, ReserveRule.NONE),
    # 3: separate quotas
    ("google", 1_000_000, {"output_limit": 64_000}, 1_000_000, 1_000_000, ReserveRule.SEPARATE),
    # 4: the model's output limit
    ("anthropic", 200_000, {"output_limit": 32_000}, 168_000, 195_904, ReserveRule.MODEL_OUTPUT),
    ("anthropic", 200_000, {"output_limit": 64_000}, 150_000, 195_904, ReserveRule.MODEL_OUTPUT),
    ("openai", 400_000, {"output_limit": 128_000}, 300_000, 368_000, ReserveRule.MODEL_OUTPUT),
    (
        "openai",
        400_000,
        {"output_limit": 128_000, "overlay": True},
        368_000,
        368_000,
        ReserveRule.MODEL_OUTPUT,
    ),
    ("openai", 400_000, {"output_limit": 8_000}, 392_000, 392_000, ReserveRule.MODEL_OUTPUT),
    # an output that is a placeholder
    ("openai", 200_000, {"output_limit": 200_000, "overlay": True}, 200_000, 200_000, ReserveRule.NONE),
    ("openai", 200_000, {"output_limit": 200_000}, 150_000, 168_000, ReserveRule.MODEL_OUTPUT),
    ("openai", 200_000, {"output_limit": 0}, 200_000, 200_000, ReserveRule.NONE),
    # nothing known of the output
    ("anthropic", 200_000, {}, 200_000, 200_000, ReserveRule.NONE),
    # small local models
    ("ollama", 8_192, {"output_limit": 8_192}, 6_144, 6_144, ReserveRule.MODEL_OUTPUT),
    ("ollama", 1_024, {"output_limit": 512}, 1_024, 1_024, ReserveRule.MODEL_OUTPUT),
    # an overlay overrides the kind
    ("openai", 200_000, {"kind": ProviderKind.SEPARATE}, 200_000, 200_000, ReserveRule.SEPARATE),
]


@pytest.mark.parametrize(("provider", "context", "more", "soft", "hard", "rule"), GEOMETRY)
def test_geometry(
    provider: str, context: int, more: dict[str, Any], soft: int, hard: int, rule: ReserveRule
) -> None:
    window = geometry(provider, context, **more)
    assert (window.usable_soft, window.usable_hard, window.rule) == (soft, hard, rule)
    assert window.usable_hard >= window.usable_soft >= 1_024


@pytest.mark.parametrize("reserve", [-1, math.inf, math.nan])
def test_senseless_reserve_is_refused(reserve: float) -> None:
    with pytest.raises(ValueError, match="output_reserve"):
        geometry("openai", 200_000, output_reserve=reserve)


# (detected, usable soft, usable hard, window) of a 200k Anthropic model with 32k output.
DETECTED = [
    ((180_000, Provenance.PROMPT_ONLY), 168_000, 180_000, 200_000),
    ((150_000, Provenance.PROMPT_ONLY), 150_000, 150_000, 200_000),
    ((150_000, Provenance.COMBINED), 118_000, 145_904, 150_000),
    ((150_000, Provenance.UNKNOWN), 118_000, 145_904, 150_000),
    ((300_000, Provenance.COMBINED), 168_000, 195_904, 200_000),
    ((300_000, Provenance.PROMPT_ONLY), 168_000, 195_904, 200_000),
    ((512, Provenance.COMBINED), 168_000, 195_904, 200_000),
]


@pytest.mark.parametrize(("detected", "soft", "hard", "context"), DETECTED)
def test_detected_limit_only_lowers(
    detected: tuple[int, Provenance], soft: int, hard: int, context: int
) -> None:
    for given in (detected, Detected(*detected)):
        window = geometry("anthropic", 200_000, output_limit=32_000, detected=given)
        assert (window.usable_soft, window.usable_hard, window.context) == (soft, hard, context)
        assert window.detected is (hard < 195_904)


# (source, more, usable soft) after 190k were accepted by a 200k model whose soft wall is 168k.
PROVEN = [
    (WindowSource.CATALOG, {}, 190_000),
    (WindowSource.ESTIMATED, {}, 190_000),
    (WindowSource.PROVIDER, {}, 168_000),
    (WindowSource.OVERLAY, {}, 168_000),
    (WindowSource.CATALOG, {"detected": (160_000, Provenance.COMBINED)}, 128_000),
    (WindowSource.CATALOG, {"output_reserve": 50_000}, 150_000),
]


@pytest.mark.parametrize(("source", "more", "soft"), PROVEN)
def test_proven_input_raises_only_a_wall_that_was_looked_up(
    source: WindowSource, more: dict[str, Any], soft: int
) -> None:
    window = geometry("anthropic", 200_000, output_limit=32_000, source=source, proven_input=190_000, **more)
    assert window.usable_soft == soft
    assert (window.rule is ReserveRule.PROVEN) is (soft == 190_000)


def test_proven_input_raises_hard_wall_and_window_too() -> None:
    window = geometry("openai", 100_000, proven_input=130_000)
    assert (window.usable_soft, window.usable_hard, window.context) == (130_000, 130_000, 130_000)
    assert geometry("openai", 100_000, proven_input=90_000).usable_soft == 100_000


def test_best_source_of_the_context_wins() -> None:
    stated = {WindowSource.CATALOG: 200_000, WindowSource.OVERLAY: 400_000, WindowSource.PROVIDER: 12}
    assert best_context(stated) == (400_000, WindowSource.OVERLAY)
    assert best_context({}) == (128_000, WindowSource.ESTIMATED)
