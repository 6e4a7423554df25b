"""Bars, letters, hairlines and ticks of a lane (dashboard-cli section 3)."""

from datetime import UTC, datetime, timedelta

import pytest

from sessions_app.services.marks import in_words
from sessions_app.services.timeline import CEILING, HEIGHT, SLOTS, STEP, Moment, height_of, lane
from sessions_app.templatetags.reading import distance, short

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def moments(*levels: str, gap: timedelta = timedelta(minutes=1)) -> list[Moment]:
    return [Moment(level, NOON + gap * i, 50.0, i + 1) for i, level in enumerate(levels)]


def test_a_pass_is_a_bar_with_the_letter_of_its_level_below() -> None:
    drawing = lane(moments("defer", "soft_plus", "soft", "hard"), 65.0)
    assert drawing.letters == "·+SH"
    assert len(drawing.letters_x.split()) == 4
    assert [bar.mark.tone for bar in drawing.bars] == ["defer", "soft-plus", "soft", "hard"]
    assert drawing.summary == "1 defer, 1 SOFT+, 1 SOFT, 1 HARD"


def test_the_newest_bar_stands_at_the_right_edge_and_the_oldest_fall_off() -> None:
    few, many = lane(moments("defer"), 0), lane(moments(*["defer"] * (SLOTS + 5)), 0)
    assert few.bars[-1].x == many.bars[-1].x == (SLOTS - 1) * STEP + 1
    assert len(many.bars) == SLOTS
    assert many.bars[0].pass_id == 6
    assert many.first == NOON + timedelta(minutes=5)


@pytest.mark.parametrize(("percent", "pixels"), [(0, 1), (50, HEIGHT / 2), (100, HEIGHT), (3000, HEIGHT)])
def test_height_is_the_share_of_the_window(percent: float, pixels: float) -> None:
    assert height_of(percent) == pixels


def test_what_lies_over_the_window_is_marked() -> None:
    drawing = lane([Moment("defer", NOON, 104.0, 1)], 65.0)
    assert [tick.kind for tick in drawing.ticks] == ["over"]


def test_refusals_and_faults_fill_the_lane_and_lead_nowhere() -> None:
    drawing = lane([Moment("refusal", NOON, 100.0, detail="MC-H04: too large"), Moment("fault", NOON, 0)], 65)
    assert drawing.letters == "RF"
    assert [(bar.height, bar.pass_id) for bar in drawing.bars] == [(HEIGHT, None), (HEIGHT, None)]
    assert "MC-H04: too large" in drawing.bars[0].title


def test_threshold_and_force_band_are_hairlines() -> None:
    drawing = lane(moments("defer"), 65.0)
    assert [(line.name, line.percent) for line in drawing.hairlines] == [
        ("execute threshold", 65.0),
        ("force band", 85.0),
    ]
    assert drawing.hairlines[0].y == round(CEILING + HEIGHT * 0.35, 1)
    assert lane(moments("defer"), 0).hairlines == []


def test_idle_gaps_and_model_switches_are_ticks() -> None:
    rows = [
        Moment("defer", NOON, 10, 1, "a/one"),
        Moment("defer", NOON + timedelta(hours=2), 10, 2, "a/one"),
        Moment("defer", NOON + timedelta(hours=2, minutes=59), 10, 3, "a/two"),
    ]
    assert [(tick.kind, tick.title) for tick in lane(rows, 65).ticks] == [
        ("idle", "idle for 2.0 h"),
        ("model", "model: a/one → a/two"),
    ]


def test_a_chosen_level_dims_the_others() -> None:
    assert [bar.dim for bar in lane(moments("defer", "soft"), 65, "soft").bars] == [True, False]


def test_no_moment_is_an_empty_lane() -> None:
    drawing = lane([], 65.0)
    assert (drawing.bars, drawing.letters, drawing.first) == ([], "", None)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"), (999, "999"), (1000, "1k"), (1234, "1.2k"), (9950, "10k"), (164_231, "164k"),
        (999_499, "999k"), (999_500, "1M"), (2_500_000, "2.5M"), (-439, "-439"), (-1500, "-1.5k"),
    ],
)  # fmt: skip
def test_figures_are_short(number: int, text: str) -> None:
    assert short(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s ago"), (89, "89 s ago"), (180, "3 min ago"), (7200, "2 h ago"), (-7200, "in 2 h"),
        (3 * 86400, "3 days ago"), (90 * 86400, "2025-12-01"),
    ],
)  # fmt: skip
def test_times_are_distances(seconds: int, text: str) -> None:
    assert distance(NOON - timedelta(seconds=seconds), NOON) == text


def test_reasons_are_words_and_an_unknown_one_stays_as_it_is() -> None:
    assert in_words(["ttl_idle", "force_band", "pressure_refold", "project_change"]) == (
        "Idle cache refresh, Compaction pressure, project_change"
    )
