"""The lanes of the overview as coordinates: one lane a session, one bar a pass (dashboard-cli section 3).

Pure: rows in, numbers out.  Units are pixels of the drawing; heights stand for percent of the usable window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from magiccontext.engine.schedule import force_band
from sessions_app.services.marks import MARKS, Mark, in_words

SLOTS = 100
"""Bars in a lane; the newest stands at the right edge."""

STEP = 10
BAR = 8
CEILING = 8
"""Room above 100 % for the marks of overflow, idle gaps and model switches."""

HEIGHT = 48
LETTERS = 13
LEAST = 1.0
IDLE = timedelta(hours=1)
"""A longer gap outlives every common cache lifetime, so it gets a tick."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A pass; or an incident: ``level`` is then ``refusal`` or ``fault``, and no pass is linked."""

    level: str
    time: datetime
    percent: float
    pass_id: int | None = None
    model: str = ""
    reasons: Sequence[str] = ()
    dropped_tokens: int = 0
    detail: str = ""


class Bar(NamedTuple):
    x: int
    y: float
    height: float
    mark: Mark
    title: str
    pass_id: int | None
    dim: bool


class Tick(NamedTuple):
    x: float
    kind: str
    title: str


class Hairline(NamedTuple):
    y: float
    name: str
    percent: float


@dataclass(frozen=True, slots=True)
class Lane:
    """Everything the drawing of one session needs."""

    bars: list[Bar]
    ticks: list[Tick]
    hairlines: list[Hairline]
    letters: str
    letters_x: str
    summary: str
    first: datetime | None
    last: datetime | None
    width: int = SLOTS * STEP
    floor: int = CEILING + HEIGHT
    height: int = CEILING + HEIGHT + LETTERS
    letters_y: int = CEILING + HEIGHT + LETTERS - 3
    bar_width: int = BAR


def height_of(percent: float) -> float:
    """Pixels of a bar; what lies over the window is capped and marked instead."""
    return round(max(LEAST, min(percent, 100.0) / 100.0 * HEIGHT), 1)


def lane(moments: Sequence[Moment], threshold: float, level: str = "") -> Lane:
    """The newest 100 of ``moments`` (oldest first).  Bars of another level than ``level`` are dimmed."""
    shown = moments[-SLOTS:]
    start = SLOTS - len(shown)
    bars, ticks = [], []
    before: Moment | None = None
    for slot, moment in enumerate(shown, start):
        x = slot * STEP + (STEP - BAR) // 2
        tall = HEIGHT if moment.pass_id is None else height_of(moment.percent)
        bars.append(
            Bar(
                x,
                CEILING + HEIGHT - tall,
                tall,
                MARKS[moment.level],
                title_of(moment),
                moment.pass_id,
                bool(level) and moment.level != level,
            )
        )
        if moment.percent > 100:
            ticks.append(Tick(x + BAR / 2, "over", f"over the window: {moment.percent:.1f} %"))
        if before is not None:
            ticks += _between(before, moment, slot * STEP)
        before = moment
    counts = Counter(moment.level for moment in shown)
    return Lane(
        bars=bars,
        ticks=ticks,
        hairlines=_hairlines(threshold),
        letters="".join(bar.mark.letter for bar in bars),
        letters_x=" ".join(str(bar.x + BAR // 2) for bar in bars),
        summary=", ".join(f"{counts[name]} {mark.word}" for name, mark in MARKS.items() if counts[name]),
        first=shown[0].time if shown else None,
        last=shown[-1].time if shown else None,
    )


def title_of(moment: Moment) -> str:
    """Numbers and cause of a bar in one sentence."""
    mark = MARKS[moment.level]
    when = moment.time.strftime("%Y-%m-%d %H:%M:%S UTC")
    if moment.pass_id is None:
        return f"{mark.word}: {moment.detail} ({when})"
    causes = in_words(moment.reasons)
    dropped = f", {moment.dropped_tokens:,} tokens dropped" if moment.dropped_tokens else ""
    return f"{mark.word}: {causes or mark.meaning}{dropped}; {moment.percent:.1f} % of the window ({when})"


def _between(before: Moment, moment: Moment, x: float) -> list[Tick]:
    ticks = []
    gap = moment.time - before.time
    if gap > IDLE:
        ticks.append(Tick(x, "idle", f"idle for {gap.total_seconds() / 3600:.1f} h"))
    if moment.model and before.model and moment.model != before.model:
        ticks.append(Tick(x, "model", f"model: {before.model} → {moment.model}"))
    return ticks


def _hairlines(threshold: float) -> list[Hairline]:
    """The threshold and the force band it implies; none for a session that has no threshold yet."""
    if threshold <= 0:
        return []
    marks = (("execute threshold", threshold), ("force band", force_band(threshold)))
    return [
        Hairline(round(CEILING + HEIGHT * (1 - min(percent, 100) / 100), 1), name, round(percent, 1))
        for name, percent in marks
    ]
