"""Per-model lookups (config.md section 10; cases 16, 30)."""

import math

import pytest

from magiccontext.config import Config, lookup
from magiccontext.config.lookup import KeyClass, ThresholdMode, TtlSource


def test_the_walk_goes_from_the_exact_key_to_the_wildcard() -> None:
    assert lookup.model_keys("google-antigravity/g-1") == [
        ("google/g-1", KeyClass.EXACT),
        ("google-antigravity/g-1", KeyClass.EXACT),
        ("g-1", KeyClass.BARE),
        ("google/g", KeyClass.EXACT),
        ("google-antigravity/g", KeyClass.EXACT),
        ("g", KeyClass.BARE),
        ("google/*", KeyClass.WILDCARD),
        ("google-antigravity/*", KeyClass.WILDCARD),
    ]


@pytest.mark.parametrize("model", [None, "", "noslash", "/x", "x/"])
def test_a_missing_or_malformed_model_goes_to_the_default(model: str | None) -> None:
    assert lookup.model_keys(model) == []
    assert lookup.value_for_model({"default": 1, "x/*": 2}, model, 3) == 1


def test_a_leading_dash_is_not_cut_away() -> None:
    assert lookup.model_keys("p/-x")[0:2] == [("p/-x", KeyClass.EXACT), ("-x", KeyClass.BARE)]
    assert all(key for key, _ in lookup.model_keys("p/-x"))


def test_a_specific_entry_beats_the_wildcard_whatever_the_order() -> None:
    found = lookup.match_model({"openai/*": 1, "gpt": 2}, "openai/gpt-5")
    assert found is not None
    assert (found.value, found.key, found.key_class) == (2, "gpt", KeyClass.BARE)


def test_keys_are_case_sensitive() -> None:
    assert lookup.match_model({"OpenAI/gpt-5": 1}, "openai/gpt-5") is None


@pytest.mark.parametrize(
    ("model", "ttl"),
    [
        ("openai/gpt-5.6", "30m"),
        ("openai/gpt-5.10-codex", "30m"),
        ("openrouter/openai/gpt-6", "30m"),
        ("openai/gpt-6-mini", "30m"),
        ("openai/gpt-5.5", "5m"),
        ("openai/gpt-5", "5m"),
        ("openai/gpt-4o", "5m"),
        ("openai/gpt-oss-120b", "5m"),
        ("openai/chatgpt-6", "5m"),
        ("anthropic/claude-opus-6", "5m"),
        (None, "5m"),
    ],
)
def test_the_built_in_lifetime_depends_on_the_model(model: str | None, ttl: str) -> None:
    found = lookup.cache_ttl(Config(), model)
    assert (found.text, found.source) == (ttl, TtlSource.BUILT_IN)


def test_a_written_five_minutes_is_a_decision() -> None:
    found = lookup.cache_ttl(Config(cache_ttl="5m"), "openai/gpt-6")
    assert (found.text, found.source, found.lifetime.ms) == ("5m", TtlSource.CONFIG, 300_000)


def test_a_written_map_without_a_fitting_entry_leaves_the_built_in_value() -> None:
    found = lookup.cache_ttl(Config(cache_ttl={"anthropic/*": "1h"}), "openai/gpt-6")
    assert (found.text, found.source) == ("30m", TtlSource.BUILT_IN)


def test_never_is_infinite_and_nonsense_is_five_minutes_and_flagged() -> None:
    assert lookup.resolve_cache_ttl("never", "a/b").lifetime.ms == math.inf
    assert lookup.resolve_cache_ttl("soon", "a/b").lifetime == (300_000, False)


def test_tokens_win_over_the_percentage_when_the_window_is_known() -> None:
    config = Config(execute_threshold_percentage=70, execute_threshold_tokens={"a/*": 50_000})
    found = lookup.execute_threshold(config, "a/b", 200_000)
    assert (found.percentage, found.mode, found.absolute_tokens) == (25, ThresholdMode.TOKENS, 50_000)
    assert lookup.execute_threshold(config, "a/b", None).percentage == 70
    assert lookup.execute_threshold(config, "c/d", 200_000).percentage == 70


def test_tokens_are_capped_at_nine_tenths_of_the_window() -> None:
    found = lookup.resolve_execute_threshold(65, {"default": 500_000}, 100_000, "a/b")
    assert (found.percentage, found.clamped, found.configured_value) == (90, True, 500_000)


@pytest.mark.parametrize("senseless", [math.nan, math.inf, -math.inf, -1.0])
def test_a_senseless_percentage_counts_as_sixty_five(senseless: float) -> None:
    found = lookup.resolve_execute_threshold(senseless, None, 100_000, "a/b")
    assert (found.percentage, found.clamped) == (65, False)
