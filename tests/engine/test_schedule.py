import math

import pytest

from magiccontext.engine.schedule import (
    EMERGENCY,
    EPISODE,
    SCHEDULER,
    Decision,
    Episode,
    Moment,
    deciding_rule,
    effective_threshold,
    expired,
    force_band,
    next_episode,
    parse_ttl,
    scheduler,
)

NOW = 1_000_000_000.0
TTL = 300_000.0


@pytest.mark.parametrize(
    ("text", "ms", "valid"),
    [
        ("30s", 30_000, True),
        ("5m", 300_000, True),
        ("1h", 3_600_000, True),
        ("1500", 1_500, True),
        ("0", 0, True),
        ("never", math.inf, True),
        ("Never", math.inf, True),
        ("", TTL, False),
        ("5 m", TTL, False),
        ("5M", TTL, False),
        ("-5m", TTL, False),
        ("1.5h", TTL, False),
        ("５m", TTL, False),
        ("5m\n", TTL, False),
        ("9" * 5_000, TTL, False),
    ],
)
def test_cache_lifetime(text: str, ms: float, valid: bool) -> None:
    assert parse_ttl(text) == (ms, valid)


def test_case_54_unreadable_lifetime_is_five_minutes_and_never_leaves_only_usage() -> None:
    assert parse_ttl("soon") == (TTL, False)
    never = parse_ttl("never").ms
    ages_ago = Moment(percentage=10, threshold=65, last_response_ms=1, now_ms=NOW * 1_000, ttl_ms=never)
    assert scheduler(ages_ago) is Decision.DEFER
    assert scheduler(Moment(65, 65, 1, NOW, never)) is Decision.EXECUTE


@pytest.mark.parametrize(
    ("threshold", "acts_as", "band"),
    [
        (65, 65, 85),
        (83, 83, 85),
        (84, 84, 86),
        (90, 90, 92),
        (100, 90, 92),
        (math.nan, 65, 85),
        (-1, 65, 85),
    ],
)
def test_force_band(threshold: float, acts_as: float, band: float) -> None:
    assert effective_threshold(threshold) == acts_as
    assert force_band(threshold) == band < EMERGENCY


# Section 4.4: (row, moment).
ROWS = [
    ("compaction_off", Moment(99, 65, 1, NOW, TTL, compaction_off=True), Decision.DEFER),
    ("nothing_yet", Moment(0, 65, 0, NOW, TTL), Decision.DEFER),
    ("threshold", Moment(65, 65, NOW, NOW, TTL), Decision.EXECUTE),
    ("threshold", Moment(70, 65, 0, NOW, TTL), Decision.EXECUTE),
    ("idle", Moment(10, 65, NOW - TTL - 1, NOW, TTL), Decision.EXECUTE),
    ("idle", Moment(0, 65, NOW - TTL - 1, NOW, TTL), Decision.EXECUTE),
    ("otherwise", Moment(64.9, 65, NOW - TTL, NOW, TTL), Decision.DEFER),
    ("otherwise", Moment(math.nan, 65, NOW, NOW, TTL), Decision.DEFER),
]


@pytest.mark.parametrize(("row", "moment", "decision"), ROWS)
def test_scheduler_row(row: str, moment: Moment, decision: Decision) -> None:
    assert deciding_rule(moment).name == row
    assert scheduler(moment) is decision


def test_every_scheduler_row_is_laid_down() -> None:
    assert {rule.name for rule in SCHEDULER} == {row for row, _, _ in ROWS}


def test_idle_expiry_is_strict_and_needs_a_response() -> None:
    assert not expired(NOW, NOW - TTL, TTL)
    assert expired(NOW, NOW - TTL - 1, TTL)
    assert not expired(NOW, 0, TTL)
    assert not expired(NOW, 1, math.inf)


def test_episode_opens_at_the_threshold_and_closes_below() -> None:
    episode = next_episode(Episode(), percentage=65, threshold=65)
    assert episode == (True, False)
    episode = next_episode(episode, percentage=66, threshold=65, routine_ran=True)
    assert episode == (True, True)
    episode = next_episode(episode, percentage=70, threshold=65)
    assert episode == (True, True), "the flag stays for the rest of the episode"
    assert next_episode(episode, percentage=64.9, threshold=65) == (False, False)


def test_idle_execute_below_the_threshold_opens_no_episode() -> None:
    assert next_episode(Episode(), percentage=20, threshold=65, routine_ran=True) == (False, False)


def test_episode_table_is_complete() -> None:
    assert len(EPISODE) == 8
