"""Local tokens and provider tokens (reclaim-core section 10.2).

The local tokenizer is not the provider's.  Per model, three measured ratios say how many provider tokens
one local token makes, by what the text is: the system prompt, tool traffic, prose.  Ratios are measured,
never guessed: a model without a seed is looked up by its relatives, and a model without relatives counts
as neutral.  Only when the question is whether something *fits* is an unmeasured model taken to be worse
than every measured one.

A session keeps a copy of its ratios with their revision and source and takes new ones only on a permitted
pass; nothing here reads that copy.  Mass is summed as fractions and rounded up once; a budget goes the
other way and is rounded down.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

# Raised whenever SEEDS changes, so that a session can tell its copy from the current one.
REVISION = 1

FIT_RATIO = 2.0
# Sums of fractional products carry noise in the last digits; it must not cost a whole token.
NOISE = 1e-9


@dataclass(frozen=True, slots=True)
class Ratios:
    """Provider tokens per local token."""

    system: float = 1.0
    tools: float = 1.0
    prose: float = 1.0

    @property
    def largest(self) -> float:
        return max(self.system, self.tools, self.prose)


NEUTRAL = Ratios()


@dataclass(frozen=True, slots=True)
class Seed:
    """Measured ratios of every model of ``provider`` whose id starts with ``prefix``."""

    provider: str
    prefix: str
    ratios: Ratios


# Only measurements belong here; until one is made, every model counts as neutral.
SEEDS: tuple[Seed, ...] = ()

# The provider a model family is at home with, by the start of the model id.
HOMES: dict[str, str] = {"claude": "anthropic", "gpt": "openai", "gemini": "google"}


class Source(StrEnum):
    """Which step of the lookup answered."""

    PREFIX = "prefix"
    OLDER = "older_version"
    NEWER = "newer_version"
    SIBLING = "sibling"
    OTHER_PROVIDER = "other_provider"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a session keeps: the ratios, where they come from and as of which revision."""

    ratios: Ratios
    source: Source
    seed: str = ""  # "provider/prefix" of the seed that answered
    revision: int = REVISION

    @property
    def seeded(self) -> bool:
        return self.source is not Source.NEUTRAL


@dataclass(frozen=True, slots=True)
class _Name:
    """A model id taken apart: ``claude-sonnet-4-5-20250929`` is claude, sonnet, (4, 5)."""

    family: str
    variant: tuple[str, ...]
    version: tuple[float, ...]


_LETTERS_THEN_DIGITS = re.compile(r"([a-z]+)([0-9]+(?:\.[0-9]+)*)")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_DATE_DIGITS = 6
# An id without a version is an alias of the newest model.
_NEWEST = (math.inf,)


def _segments(model: str) -> Iterator[str]:
    for segment in re.split(r"[-_ ]+", model):
        glued = _LETTERS_THEN_DIGITS.fullmatch(segment)
        yield from glued.groups() if glued else (segment,)


def _name(model: str) -> _Name:
    words: list[str] = []
    version: list[float] = []
    closed = False
    for segment in _segments(re.split(r"[:@]", model)[0]):
        if _NUMBER.fullmatch(segment):
            # Later numbers are dates and builds, not versions.
            if not closed and len(segment) < _DATE_DIGITS:
                version.extend(int(number) for number in segment.split("."))
            continue
        closed = bool(version)
        if segment and segment != "latest":
            words.append(segment)
    return _Name(words[0] if words else "", tuple(sorted(words[1:])), tuple(version) or _NEWEST)


def _by_prefix(seeds: Iterable[Seed], model: str) -> list[Seed]:
    """The seeds whose prefix the model id starts with, longest prefix first."""
    found = [seed for seed in seeds if model.startswith(seed.prefix.lower())]
    return sorted(found, key=lambda seed: (-len(seed.prefix), seed.provider, seed.prefix))


def _by_kin(seeds: Sequence[Seed], model: str) -> tuple[Seed, Source] | None:
    wanted = _name(model)
    named = sorted(
        ((_name(seed.prefix.lower()), seed) for seed in seeds),
        # Of equal versions the plainest id comes last.
        key=lambda item: (item[0].version, -len(item[1].prefix), item[1].prefix),
    )
    family = [item for item in named if wanted.family and item[0].family == wanted.family]
    same = [item for item in family if item[0].variant == wanted.variant]
    if older := [seed for name, seed in same if name.version <= wanted.version]:
        return older[-1], Source.OLDER
    if newer := [seed for name, seed in same if name.version > wanted.version]:
        return newer[0], Source.NEWER
    major = [item for item in family if item[0].version[0] == wanted.version[0]]
    if major:
        before = [seed for name, seed in major if name.version <= wanted.version]
        return (before[-1] if before else major[0][1]), Source.SIBLING
    return None


def _elsewhere(seeds: Iterable[Seed], model: str) -> Seed | None:
    found = _by_prefix(seeds, model)
    ties = [seed for seed in found if len(seed.prefix) == len(found[0].prefix)]
    home = next((provider for family, provider in HOMES.items() if model.startswith(family)), "")
    return next((seed for seed in ties if seed.provider.lower() == home), ties[0] if ties else None)


def lookup(provider: str, model: str, seeds: Sequence[Seed] = SEEDS) -> Calibration:
    """The ratios of a model (section 10.2); ``model`` is the id without its provider.  Case does not matter.

    In this order: the provider's longest prefix; same family and variant, nearest older version, then
    nearest newer; a measured sibling of the same major version; the same id under another provider, only
    if this one has no seeds at all; neutral.
    """
    provider, model = provider.lower(), model.lower()
    own = [seed for seed in seeds if seed.provider.lower() == provider]
    answer: tuple[Seed, Source] | None
    if exact := _by_prefix(own, model):
        answer = exact[0], Source.PREFIX
    elif own:
        answer = _by_kin(own, model)
    else:
        # Routers nest the maker's name in the id: vendor/model.
        other = _elsewhere(seeds, model.rsplit("/", 1)[-1])
        answer = (other, Source.OTHER_PROVIDER) if other else None
    if answer is None:
        return Calibration(NEUTRAL, Source.NEUTRAL)
    seed, source = answer
    return Calibration(seed.ratios, source, f"{seed.provider}/{seed.prefix}")


def fit_ratios(calibration: Calibration, seeds: Iterable[Seed] = SEEDS) -> Ratios:
    """The ratios for deciding whether something fits: an unmeasured model takes ``max(2, largest known)``."""
    if calibration.seeded:
        return calibration.ratios
    worst = max([FIT_RATIO, *(seed.ratios.largest for seed in seeds)])
    return Ratios(worst, worst, worst)


def provider_tokens(parts: Iterable[tuple[float, float]]) -> int:
    """Provider tokens of (local tokens, ratio) pairs: products are summed, then rounded up once."""
    return math.ceil(math.fsum(tokens * ratio for tokens, ratio in parts) - NOISE)


def local_budget(tokens: float, ratio: float) -> int:
    """How many local tokens fit into a budget of provider tokens, rounded down."""
    return math.floor(tokens / ratio + NOISE)
