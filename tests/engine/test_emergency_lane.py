from dataclasses import replace
from typing import Any

import pytest

from magiccontext.engine.lanes.emergency import (
    LATCH,
    REFUSALS,
    T1,
    T2,
    T3,
    Candidate,
    LatchFacts,
    Outcome,
    Pressure,
    Tier,
    When,
    ceiling_tokens,
    next_latch,
    select,
    tier_of,
)


@pytest.mark.parametrize(
    ("name", "tier"),
    [
        ("read", T1),
        ("Read", T1),
        ("mcp_todowrite", T1),
        ("task", T1),
        ("aft_outline", T1),
        ("aft_zoom", T1),
        ("edit", T2),
        ("write", T2),
        ("apply_patch", T2),
        ("grep", T2),
        ("glob", T2),
        ("aft_search", T2),
        ("bash", T3),
        (None, T3),
    ],
)
def test_tier(name: str | None, tier: Tier) -> None:
    assert tier_of(name) is tier


@pytest.mark.parametrize(
    ("limit", "threshold", "tokens"), [(200_000, 65, 130_000), (1_001, 65, 650), (0, 65, 0)]
)
def test_ceiling(limit: int, threshold: float, tokens: int) -> None:
    assert ceiling_tokens(limit, threshold) == tokens


def tools(names: str, tokens: int = 10_000) -> list[Candidate]:
    return [Candidate(number, name, tokens) for number, name in enumerate(names.split(), 1)]


def pressure(
    current: float = 180_000, ceiling: float = 130_000, tail: int = 150_000, **more: Any
) -> Pressure:
    return Pressure(current=current, ceiling=ceiling, tail=tail, **more)


# fixed 30k, target 30k + 0.3 × 100k = 60k, reclaim 120k
def test_target_and_reclaim() -> None:
    assert pressure().target == 60_000
    assert pressure().reclaim == 120_000
    assert pressure(ceiling=10_000).target == 30_000, "a ceiling below the fixed part leaves only that"
    assert pressure(tail=500_000).target == 39_000, "more tail than usage leaves nothing fixed"


OUTCOMES = [
    (Outcome.BELOW_BAND, {"in_force_band": False}),
    (Outcome.LATCHED, {"latch": 170_000}),
    (Outcome.UNKNOWN_CEILING, {"ceiling": 0}),
    (Outcome.UNKNOWN_USAGE, {"current": 0}),
    (Outcome.UNKNOWN_USAGE, {"current": float("nan")}),
    (Outcome.SMALL_RECLAIM, {"current": 32_000, "tail": 2_000, "ceiling": 29_000}),
    (Outcome.DROP, {"paid": True, "latch": 170_000}),
    (Outcome.DROP, {"emergency": True, "latch": 170_000}),
    (Outcome.DROP, {}),
]


@pytest.mark.parametrize(("outcome", "given"), OUTCOMES)
def test_outcome(outcome: Outcome, given: dict[str, Any]) -> None:
    plan = select(tools("bash bash bash"), pressure(**given))
    assert plan.outcome is outcome
    assert bool(plan.numbers) is (outcome is Outcome.DROP)


def test_every_refusal_is_laid_down() -> None:
    assert {outcome for outcome, _ in REFUSALS} <= {outcome for outcome, _ in OUTCOMES}


@pytest.mark.parametrize(("reclaim", "outcome"), [(2_000, Outcome.SMALL_RECLAIM), (2_001, Outcome.DROP)])
def test_reclaim_of_two_thousand_is_not_worth_a_bust(reclaim: int, outcome: Outcome) -> None:
    given = pressure(current=100_000 + reclaim, ceiling=100_000, tail=reclaim)
    assert given.reclaim == reclaim
    assert select(tools("bash"), given).outcome is outcome


def test_tiers_oldest_first_until_the_reclaim_is_met() -> None:
    names = "read grep bash read grep bash read read read grep grep grep"
    plan = select(tools(names), pressure())
    # T3: 3 6; T2 without its newest: 2 5 10 11; T1 without its newest: 1 4 7 8
    assert plan.numbers == (3, 6, 2, 5, 10, 11, 1, 4, 7, 8)
    assert (plan.reclaim, plan.selected) == (120_000, 100_000)
    assert select(tools(names, 30_000), pressure()).numbers == (3, 6, 2, 5)


@pytest.mark.parametrize(("count", "taken"), [(1, 0), (2, 1), (5, 4), (6, 4), (10, 8), (11, 8)])
def test_reserve_is_a_fifth_rounded_up(count: int, taken: int) -> None:
    plan = select(tools(" ".join(["read"] * count)), pressure())
    assert plan.numbers == tuple(range(1, taken + 1))


@pytest.mark.parametrize(
    "change",
    [{"active": False}, {"droppable": False}, {"protected_tool": True}, {"reclaimable": 0}],
)
def test_what_is_no_candidate(change: dict[str, Any]) -> None:
    none = replace(Candidate(1, "bash", 50_000), **change)
    for emergency in (False, True):
        assert select([none], pressure(emergency=emergency)).outcome is Outcome.NO_CANDIDATES


def test_window_cutoff_bounds_the_candidates() -> None:
    assert select(tools("bash bash bash"), pressure(cutoff=3)).numbers == (1, 2)
    assert select(tools("bash bash bash"), pressure(cutoff=None)).numbers == (1, 2, 3)


def test_case_36_tens_of_tokens_are_not_reclaimed_again_and_again() -> None:
    small = tools("bash bash", 40)
    assert select(small, pressure()).outcome is Outcome.SMALL_SELECTION
    assert select(small, pressure(emergency=True)).outcome is Outcome.SMALL_SELECTION
    assert select(small, pressure(paid=True)).numbers == (1, 2)


def test_case_38_the_floor_counts_all_active_tags() -> None:
    # With the candidates alone as tail, the target is lower than what is fixed allows and more is evicted.
    all_tags = pressure(tail=150_000).reclaim
    candidates_only = pressure(tail=60_000).reclaim
    assert all_tags == 120_000
    assert candidates_only == 57_000
    assert pressure(tail=150_000).target < pressure(tail=60_000).target


def test_case_39_at_96_window_tags_drop_and_the_newest_todowrite_stays() -> None:
    tags = [
        Candidate(1, "read", 10_000),
        Candidate(2, "todowrite", 10_000, protected_tool=True),
        Candidate(3, "read", 10_000),
    ]
    assert select(tags, pressure(cutoff=1)).outcome is Outcome.NO_CANDIDATES
    assert select(tags, pressure(cutoff=1, emergency=True)).numbers == (1, 3), "window and reserves yield"


# Section 7, the latch: (moment, facts, before, after).
BAND = 85.0
MOVES: list[tuple[When, dict[str, Any], int, int]] = [
    (When.USAGE, {"percentage": 88, "model_changed": True}, 9, 0),
    (When.USAGE, {"percentage": 79.9}, 9, 0),
    (When.USAGE, {"percentage": 80}, 9, 9),
    (When.USAGE, {"percentage": 0}, 9, 9),
    (When.USAGE, {"percentage": 88}, 9, 9),
    (When.HEURISTICS, {"percentage": 88, "paid": True}, 9, 0),
    (When.HEURISTICS, {"percentage": 88}, 9, 9),
    (When.HEURISTICS, {"percentage": 84, "paid": True}, 9, 9),
    (When.END, {"percentage": 88, "changed": True}, 0, 170_000),
    (When.END, {"percentage": 88, "changed": False}, 0, 0),
    (When.END, {"percentage": 84, "changed": True}, 0, 0),
    (When.REFUSED, {"percentage": 97}, 9, 0),
]


@pytest.mark.parametrize(("when", "given", "before", "after"), MOVES)
def test_latch(when: When, given: dict[str, Any], before: int, after: int) -> None:
    assert next_latch(before, when, LatchFacts(force_band=BAND, input_tokens=170_000, **given)) == after


def test_every_latch_row_moves_in_some_test() -> None:
    assert {move.when for move in LATCH} == {when for when, _, before, after in MOVES if before != after}


def test_case_34_no_second_emergency_until_five_below_the_band() -> None:
    sample, fired = 0, []
    for percentage in (88.0, 84.0, 86.0, 81.0, 87.0, 79.0, 86.0):
        facts = LatchFacts(percentage=percentage, force_band=BAND, input_tokens=170_000)
        sample = next_latch(sample, When.USAGE, facts)
        plan = select(tools("bash bash"), pressure(in_force_band=facts.in_force_band, latch=sample))
        fired.append(plan.outcome is Outcome.DROP)
        sample = next_latch(sample, When.END, replace(facts, changed=fired[-1]))
    assert fired == [True, False, False, False, False, False, True]


def test_case_37_replay_of_old_drops_neither_clears_the_latch_nor_waives_the_minimum() -> None:
    replayed = LatchFacts(percentage=88, force_band=BAND, input_tokens=170_000, paid=False, changed=False)
    assert next_latch(9, When.HEURISTICS, replayed) == 9
    assert next_latch(9, When.END, replayed) == 9
    assert select(tools("bash", 40), pressure(paid=replayed.paid)).outcome is Outcome.SMALL_SELECTION


def test_a_paid_pass_in_the_band_sets_the_latch_again() -> None:
    facts = LatchFacts(percentage=88, force_band=BAND, input_tokens=170_000, paid=True, changed=True)
    sample = next_latch(150_000, When.HEURISTICS, facts)
    assert sample == 0
    assert next_latch(sample, When.END, facts) == 170_000
