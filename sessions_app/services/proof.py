"""A stored pass as a proof: usage → scheduler → signals → veto and hold → permission → lanes → level.

The clauses were written by the engine when it decided; here they are only put in the order in which they
follow from each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sessions_app.models import Pass
from sessions_app.services.marks import MARKS, in_words


class Line(NamedTuple):
    """``holds`` is None where the value is not a yes or no."""

    name: str
    value: str
    section: str
    deciding: bool = False
    holds: bool | None = None


@dataclass(frozen=True, slots=True)
class Step:
    title: str
    lines: list[Line]


class Place(NamedTuple):
    title: str
    takes: Callable[[str], bool]


# Where a clause stands, by its name; the last row takes what no earlier one does.
PLACES: tuple[Place, ...] = (
    Place("Scheduler", lambda name: name in {"compaction off", "scheduler execute"}),
    Place("Signals", lambda name: name.startswith("signal ") or name in {"queue exception", "bust"}),
    Place("Veto and hold", lambda name: name in {"historian running", "bypass", "veto", "hold"}),
    Place("Permission", lambda name: True),
)


def proof(record: Pass) -> list[Step]:
    """The steps of a pass in order.  No query."""
    return [
        Step("Usage", _usage(record)),
        *(Step(place.title, lines) for place, lines in _clauses(record.clauses)),
        Step("Lanes", _lanes(record)),
        Step("Level", _level(record)),
    ]


def _usage(record: Pass) -> list[Line]:
    # Zero tokens are no measurement: nothing has been reported or estimated yet.
    known = record.input_tokens > 0
    percent = f"{record.usage_percentage:.1f} %"
    return [
        Line("prompt tokens", f"{record.input_tokens:,}" if known else "not known yet", "reclaim-core 4.1"),
        Line("usable window", f"{record.context_limit:,}", "reclaim-core 10.1"),
        Line("usage", percent if known else "not known yet", "reclaim-core 4.1"),
        Line("emergency", _word(record.emergency), "reclaim-core 7", holds=record.emergency),
    ]


def _clauses(stored: list[list[Any]]) -> list[tuple[Place, list[Line]]]:
    steps: list[tuple[Place, list[Line]]] = [(place, []) for place in PLACES]
    for name, value, section, deciding in stored:
        lines = next(lines for place, lines in steps if place.takes(name))
        # A clause with several possible causes says False for none of them.
        holds = value if isinstance(value, bool) else None
        lines.append(Line(name, _word(value), section, deciding, holds))
    return steps


def _lanes(record: Pass) -> list[Line]:
    ran = [
        Line(lane.replace("_", " "), f"{count:,} dropped", "reclaim-core 5.6", holds=True)
        for lane, count in sorted(record.lanes.items())
        if count
    ]
    if not ran:
        return [Line("dropped", "nothing", "reclaim-core 5.6")]
    return [*ran, Line("tokens dropped", f"{record.dropped_tokens:,}", "reclaim-core 5.6")]


def _level(record: Pass) -> list[Line]:
    if record.first_changed is None:
        changed = Line("first changed message", "none: every sent byte stayed", "reclaim-core 5.1")
    else:
        changed = Line("first changed message", f"no. {record.first_changed + 1}", "reclaim-core 5.1")
    mark = MARKS[record.level]
    level = Line("level", f"{mark.word}: {mark.meaning}", "reclaim-core 5.1")
    reasons = [Line("reasons", in_words(record.reasons), "reclaim-core 5.2")] if record.reasons else []
    return [changed, level, *reasons]


def _word(value: bool | str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return MARKS[value].word if value in MARKS else value
