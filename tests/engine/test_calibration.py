import pytest

from magiccontext.engine.calibration import (
    NEUTRAL,
    REVISION,
    SEEDS,
    Ratios,
    Seed,
    Source,
    fit_ratios,
    local_budget,
    lookup,
    provider_tokens,
)


def ratio(value: float) -> Ratios:
    return Ratios(value, value, value)


OWN = (
    Seed("anthropic", "claude-", ratio(1.2)),
    Seed("anthropic", "claude-sonnet-4", ratio(1.3)),
    Seed("anthropic", "Claude-Sonnet-4-5", ratio(1.4)),
    Seed("openai", "gpt-5.2", ratio(1.05)),
    Seed("openai", "gpt-5.6", ratio(1.1)),
    Seed("openai", "gpt-5.2-mini", ratio(1.15)),
    Seed("openrouter-like", "gpt-5.6", ratio(1.9)),
    Seed("google", "gemini-2.5-pro", ratio(1.25)),
)

# Section 10.2: (provider, model, source, seed).
LOOKUP = [
    ("anthropic", "claude-sonnet-4-5-20250929", Source.PREFIX, "anthropic/Claude-Sonnet-4-5"),
    ("ANTHROPIC", "CLAUDE-SONNET-4-1", Source.PREFIX, "anthropic/claude-sonnet-4"),
    ("anthropic", "claude-opus-9", Source.PREFIX, "anthropic/claude-"),
    ("openai", "gpt-5.4", Source.OLDER, "openai/gpt-5.2"),
    ("openai", "gpt-7", Source.OLDER, "openai/gpt-5.6"),
    ("openai", "gpt-4.1", Source.NEWER, "openai/gpt-5.2"),
    ("openai", "gpt-5.4-mini", Source.OLDER, "openai/gpt-5.2-mini"),
    ("openai", "gpt-5.4-nano", Source.SIBLING, "openai/gpt-5.2"),
    ("openai", "gpt-latest", Source.OLDER, "openai/gpt-5.6"),
    ("openai", "gpt-6-nano", Source.NEUTRAL, ""),  # no sibling of that major version
    ("openai", "o3", Source.NEUTRAL, ""),
    ("google", "claude-sonnet-4-5", Source.NEUTRAL, ""),  # has seeds of its own
    ("azure", "gpt-5.6", Source.OTHER_PROVIDER, "openai/gpt-5.6"),  # home wins the tie
    ("bedrock", "anthropic/claude-sonnet-4-5", Source.OTHER_PROVIDER, "anthropic/Claude-Sonnet-4-5"),
    ("azure", "mistral-large", Source.NEUTRAL, ""),
    ("azure", "", Source.NEUTRAL, ""),
]


@pytest.mark.parametrize(("provider", "model", "source", "seed"), LOOKUP)
def test_lookup(provider: str, model: str, source: Source, seed: str) -> None:
    found = lookup(provider, model, OWN)
    assert (found.source, found.seed) == (source, seed)
    assert found.revision == REVISION
    wanted = {f"{s.provider}/{s.prefix}": s.ratios for s in OWN}.get(seed, NEUTRAL)
    assert found.ratios == wanted


@pytest.mark.parametrize("model", ["claude-4-6-sonnet", "claude-sonnet-4-6", "claude-sonnet4.6"])
def test_versions_are_read_in_every_spelling(model: str) -> None:
    seeds = (
        Seed("anthropic", "claude-3-5-sonnet", ratio(1.1)),
        Seed("anthropic", "claude-opus-4-5", ratio(1.7)),
    )
    assert lookup("anthropic", model, seeds).seed == "anthropic/claude-3-5-sonnet"


def test_a_date_is_no_version() -> None:
    seeds = (Seed("anthropic", "claude-sonnet-5-20260101", ratio(1.1)),)
    assert lookup("anthropic", "claude-sonnet-4-20250514", seeds).source is Source.NEWER


def test_own_seeds_are_measurements_within_reason() -> None:
    for seed in SEEDS:
        for value in (seed.ratios.system, seed.ratios.tools, seed.ratios.prose):
            assert 0.5 <= value <= 3


def test_unmeasured_model_is_neutral_and_fits_as_the_worst() -> None:
    unknown = lookup("azure", "mistral-large", OWN)
    assert unknown.ratios == Ratios(1.0, 1.0, 1.0)
    assert fit_ratios(unknown, OWN) == ratio(2.0)
    assert fit_ratios(unknown, [*OWN, Seed("x", "y", Ratios(1.0, 2.5, 1.0))]) == ratio(2.5)
    measured = lookup("openai", "gpt-5.6", OWN)
    assert fit_ratios(measured, OWN) == ratio(1.1)


def test_mass_is_rounded_up_once() -> None:
    assert provider_tokens([(3, 1.1), (3, 1.1)]) == 7  # 6.6, not 4 + 4
    assert provider_tokens([(10, 1.1)]) == 11, "noise of the product costs no token"
    assert provider_tokens([]) == 0


def test_budget_goes_the_other_way() -> None:
    assert local_budget(100, 1.5) == 66
    assert local_budget(11, 1.1) == 10
