"""Per-model lookups, as pure functions (config.md sections 10.1 to 10.3)."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Literal, TypeVar

from magiccontext.config.schema import Config
from magiccontext.engine.schedule import DEFAULT_THRESHOLD, Lifetime, effective_threshold, parse_ttl

# Canonical provider → the name another host gives it. A session's model key may use either.
PROVIDER_ALIASES: dict[str, str] = {
    "openai": "openai-codex",
    "google": "google-antigravity",
    "opencode": "opencode-zen",
}
_CANONICAL = {alias: canonical for canonical, alias in PROVIDER_ALIASES.items()}

Host = Literal["pi", "omp"]
# Host → canonical providers that it calls by their alias.
HOST_ALIASES: dict[Host, frozenset[str]] = {
    "pi": frozenset({"openai", "google"}),
    "omp": frozenset({"openai", "google", "opencode"}),
}

T = TypeVar("T")

DEFAULT_KEY = "default"
TOKEN_CAP_SHARE = 0.9


class KeyClass(StrEnum):
    """How specific a key of the walk is."""

    EXACT = "exact"
    BARE = "bare"
    WILDCARD = "wildcard"


def split_model(model: str | None) -> tuple[str, str] | None:
    """(provider, model id) at the first slash; None for a key without both."""
    provider, slash, name = (model or "").partition("/")
    return (provider, name) if slash and provider and name else None


def providers_alike(provider: str) -> tuple[str, ...]:
    """A provider's names, the canonical one first."""
    canonical = _CANONICAL.get(provider, provider)
    alias = PROVIDER_ALIASES.get(canonical)
    return (canonical,) if alias is None else (canonical, alias)


def aliases_of(model: str) -> tuple[str, ...]:
    """All spellings of a model key, the canonical one first; a malformed key is its only spelling."""
    parts = split_model(model)
    if parts is None:
        return (model,)
    return tuple(f"{provider}/{parts[1]}" for provider in providers_alike(parts[0]))


def canonical_model(model: str, host: Host) -> str:
    """A model key of a host under its canonical provider name."""
    parts = split_model(model)
    if parts is None:
        return model
    canonical = _CANONICAL.get(parts[0], parts[0])
    return f"{canonical}/{parts[1]}" if canonical in HOST_ALIASES[host] else model


def host_model(model: str, host: Host) -> str:
    """A canonical model key in the spelling of a host."""
    parts = split_model(model)
    if parts is None or parts[0] not in HOST_ALIASES[host]:
        return model
    return f"{PROVIDER_ALIASES[parts[0]]}/{parts[1]}"


def _shortened(name: str) -> Iterable[str]:
    """A model id and what is left of it as `-segments` are cut from its end."""
    yield name
    while (dash := name.rfind("-")) > 0:
        name = name[:dash]
        yield name


def model_keys(model: str | None, *, bare_model: bool = False) -> list[tuple[str, KeyClass]]:
    """The keys to try for a model, most specific first, before `default` (section 10.1).

    Empty for a missing or malformed model. With `bare_model`, a model without a provider is tried by its id.
    """
    parts = split_model(model)
    if parts is None:
        if bare_model and model and "/" not in model:
            return [(name, KeyClass.BARE) for name in _shortened(model)]
        return []
    providers = providers_alike(parts[0])
    keys: list[tuple[str, KeyClass]] = []
    for name in _shortened(parts[1]):
        keys += [(f"{provider}/{name}", KeyClass.EXACT) for provider in providers]
        keys.append((name, KeyClass.BARE))
    keys += [(f"{provider}/*", KeyClass.WILDCARD) for provider in providers]
    return keys


@dataclass(frozen=True)
class Match(Generic[T]):
    """A value of a per-model map, the key it stood under, and that key's class (None for `default`)."""

    value: T
    key: str
    key_class: KeyClass | None


def match_model(values: Mapping[str, T], model: str | None, *, bare_model: bool = False) -> Match[T] | None:
    """The most specific entry for a model, without `default`; None when there is none (section 10.1)."""
    for key, key_class in model_keys(model, bare_model=bare_model):
        if key in values:
            return Match(values[key], key, key_class)
    return None


def match_or_default(
    values: Mapping[str, T], model: str | None, *, bare_model: bool = False
) -> Match[T] | None:
    """The most specific entry for a model, else that of `default`, else None."""
    found = match_model(values, model, bare_model=bare_model)
    if found is None and DEFAULT_KEY in values:
        return Match(values[DEFAULT_KEY], DEFAULT_KEY, None)
    return found


def value_for_model(setting: T | Mapping[str, T] | None, model: str | None, fallback: T) -> T:
    """What a setting that is a value or a per-model map says for a model; `fallback` when it says nothing."""
    if setting is None:
        return fallback
    if isinstance(setting, Mapping):
        found = match_or_default(setting, model)
        return fallback if found is None else found.value
    return setting


class TtlSource(StrEnum):
    """Who decided a cache lifetime. A built-in one is frozen per session and model (section 10.2)."""

    CONFIG = "your config"
    BUILT_IN = "built-in"


@dataclass(frozen=True)
class CacheTtl:
    """A cache lifetime as text, who decided it, and what it comes to (`math.inf` ms for `never`)."""

    text: str
    source: TtlSource
    lifetime: Lifetime


BUILT_IN_TTL = "5m"
LONG_BUILT_IN_TTL = "30m"
LONG_TTL_FROM = (5, 6)
_GPT_VERSION = re.compile(r"(?:^|/)gpt-([0-9]{1,4})(?:\.([0-9]{1,4}))?(?![0-9.])")


def built_in_ttl(model: str | None) -> str:
    """The lifetime assumed when nobody configured one: 30m from GPT 5.6 on, else 5m."""
    found = _GPT_VERSION.search(model or "")
    if found is None:
        return BUILT_IN_TTL
    version = (int(found[1]), int(found[2] or 0))
    return LONG_BUILT_IN_TTL if version >= LONG_TTL_FROM else BUILT_IN_TTL


def resolve_cache_ttl(setting: str | Mapping[str, str] | None, model: str | None) -> CacheTtl:
    """The cache lifetime for a model (section 10.2); `setting` is None when nobody wrote one down.

    A text that is no lifetime comes out as five minutes with `lifetime.valid` False, for the caller to log.
    """
    text: str | None
    if setting is None or isinstance(setting, str):
        text = setting
    else:
        found = match_or_default(setting, model)
        text = None if found is None else found.value
    if text is None:
        text = built_in_ttl(model)
        return CacheTtl(text, TtlSource.BUILT_IN, parse_ttl(text))
    return CacheTtl(text, TtlSource.CONFIG, parse_ttl(text))


def cache_ttl(config: Config, model: str | None) -> CacheTtl:
    """The cache lifetime for a model; a written `"5m"` is a decision, the same by default is not."""
    written = "cache_ttl" in config.model_fields_set
    return resolve_cache_ttl(config.cache_ttl if written else None, model)


class ThresholdMode(StrEnum):
    """In what the execute threshold was given."""

    PERCENTAGE = "percentage"
    TOKENS = "tokens"


@dataclass(frozen=True)
class ExecuteThreshold:
    """The execute threshold in percent of the usable window, and how it came about (section 10.3).

    `absolute_tokens` only in token mode. `configured_value` is what was asked for when it was clamped.
    """

    percentage: float
    mode: ThresholdMode
    absolute_tokens: float | None
    matched_key: str | None
    clamped: bool
    configured_value: float | None


def _usable(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0


def resolve_execute_threshold(
    percentage: float | Mapping[str, float],
    tokens: Mapping[str, float] | None,
    window: float | None,
    model: str | None,
    *,
    fallback: float = DEFAULT_THRESHOLD,
) -> ExecuteThreshold:
    """The execute threshold for a model; `window` is the usable window in tokens, None when unknown.

    A usable token entry applies when the window is known, and is capped at 90 % of it; else the percentage,
    where a senseless value counts as the default and 90 is the most.
    """
    entry = match_or_default(tokens, model, bare_model=True) if tokens else None
    if entry is not None and window is not None and _usable(window) and _usable(entry.value):
        most = TOKEN_CAP_SHARE * window
        clamped = entry.value > most
        absolute = min(entry.value, most)
        return ExecuteThreshold(
            percentage=absolute / window * 100,
            mode=ThresholdMode.TOKENS,
            absolute_tokens=absolute,
            matched_key=entry.key,
            clamped=clamped,
            configured_value=entry.value if clamped else None,
        )
    found = match_or_default(percentage, model, bare_model=True) if isinstance(percentage, Mapping) else None
    asked = found.value if found else fallback if isinstance(percentage, Mapping) else percentage
    effective = effective_threshold(asked)
    clamped = math.isfinite(asked) and asked > effective
    return ExecuteThreshold(
        percentage=effective,
        mode=ThresholdMode.PERCENTAGE,
        absolute_tokens=None,
        matched_key=found.key if found else None,
        clamped=clamped,
        configured_value=asked if clamped else None,
    )


def execute_threshold(config: Config, model: str | None, window: float | None) -> ExecuteThreshold:
    """The execute threshold for a model under these settings; `window` in tokens, None when unknown."""
    return resolve_execute_threshold(
        config.execute_threshold_percentage, config.execute_threshold_tokens, window, model
    )
