"""Age, pressure, guard and fold loop (history-render section 8; worked examples 1 to 32 and 50)."""

from collections import Counter
from dataclasses import replace

import pytest

from magiccontext.engine.head import decay, history
from magiccontext.engine.head.history import EMPTY_HISTORY, History
from tests.engine.head.building import compartment, count, tokens

# example, position, importance, pressure → half life, age, tier
TIERS = [
    (1, 1, 50, 1, 24, 0, 1),
    (2, 5, 50, 1, 24, 0.16667, 1),
    (3, 6, 50, 1, 24, 0.20833, 2),
    (4, 18, 50, 1, 24, 0.70833, 2),
    (5, 19, 50, 1, 24, 0.75, 3),
    (6, 33, 50, 1, 24, 1.33333, 4),
    (7, 63, 50, 1, 24, 2.58333, 4),
    (8, 64, 50, 1, 24, 2.625, 5),
    (9, 11, 75, 1, 48, 0.20833, 2),
    (10, 250, 100, 1, 96, 2.59375, 5),
    (11, 4, 25, 1, 12, 0.25, 2),
    (12, 10, 0, 1, 6.1687, 1.45898, 4),
    (13, 10, 50, 2, 12, 0.75, 3),
    (14, 10, 50, 0.5, 48, 0.1875, 1),
    (15, 50, 50, 0.05, 240, 0.20417, 2),
    (16, 30, 60, 1.7, 18.6283, 1.55677, 4),
]


@pytest.mark.parametrize(("number", "index", "importance", "pressure", "life", "z", "tier"), TIERS)
def test_tier(
    number: int, index: int, importance: int, pressure: float, life: float, z: float, tier: int
) -> None:
    assert decay.half_life(importance, pressure) == pytest.approx(life, abs=5e-5)
    assert decay.age(index, importance, pressure) == pytest.approx(z, abs=5e-6)
    assert decay.tier_at(index, importance, pressure) == tier


# example, rows, importance, budget → natural cost, pressure, rows per tier, cost of the outcome
PRESSURES = [
    (17, 5, 50, 19_500, 1_610, 0.10, (5, 0, 0, 0, 0), 1_610),
    (18, 63, 50, 4_137, 4_137, 1, (5, 13, 14, 31, 0), 4_137),
    (19, 63, 50, 19_500, 4_137, 0.212154, (23, 40, 0, 0, 0), 11_766),
    (20, 200, 50, 19_500, 4_137, 0.212154, (23, 60, 67, 50, 0), 17_291),
    (21, 63, 50, 2_000, 4_137, 2.0685, (3, 6, 7, 15, 32), 2_165),
    (22, 63, 50, 60_000, 4_137, 0.10, (49, 14, 0, 0, 0), 17_304),
    (23, 100, 75, 5_000, 7_680, 1.536, (7, 16, 19, 39, 19), 5_443),
    (24, 300, 100, 12_480, 16_325, 1.308093, (15, 39, 44, 92, 110), 12_461),
]


@pytest.mark.parametrize(
    ("number", "rows", "importance", "budget", "natural", "pressure", "final", "cost"), PRESSURES
)
def test_pressure(
    number: int,
    rows: int,
    importance: int,
    budget: int,
    natural: int,
    pressure: float,
    final: tuple[int, ...],
    cost: int,
) -> None:
    importances = [importance] * rows
    assert decay.nominal_cost(decay.curve(importances, 1)) == natural
    found = decay.budget_pressure(importances, budget)
    assert found == pytest.approx(pressure, abs=5e-7)
    tiers = decay.curve(importances, found)
    per_tier = Counter(tiers)
    assert tuple(per_tier[tier] for tier in range(1, 6)) == final
    assert decay.nominal_cost(tiers) == cost


def test_without_a_budget_pressure_is_one_and_nothing_is_guarded() -> None:
    assert decay.budget_pressure([50] * 100, 0) == 1
    assert decay.demoted([1, 1], 0, lambda row, tier: 1_000, lambda tiers: 1_000) == [1, 1]


FOUR = [
    compartment(row, title=f"T{row}", importance=50, p1="a" * 350, p2="b" * 140, p3="c" * 70, p4="d" * 14)
    for row in range(4)
]

# example, budget → pressure, tiers by the curve, tiers served, tokens of the body
BLOCKS = [
    (25, 1_000, 1.288, [1, 1, 1, 1], [1, 1, 1, 1], 418),
    (26, 450, 2.8622, [2, 2, 1, 1], [2, 2, 1, 1], 298),
    (27, 250, 5.152, [2, 2, 2, 1], [2, 2, 2, 1], 238),
    (28, 200, 6.44, [3, 2, 2, 1], [5, 2, 2, 1], 194),
    (29, 150, 8.5867, [3, 2, 2, 1], [5, 5, 2, 1], 149),
    (30, 100, 12.88, [4, 3, 2, 1], [5, 5, 5, 2], 44),
    (31, 20, 64.4, [5, 5, 5, 1], [5, 5, 5, 4], 8),
    (32, 5, 257.6, [5, 5, 5, 1], [5, 5, 5, 5], 0),
]


@pytest.mark.parametrize(("number", "budget", "pressure", "by_age", "served", "body"), BLOCKS)
def test_block(
    number: int, budget: int, pressure: float, by_age: list[int], served: list[int], body: int
) -> None:
    rows = History(FOUR, count, dated=True)
    assert decay.budget_pressure([50] * 4, budget) == pytest.approx(pressure, abs=5e-5)
    assert history.start_tiers(rows.rows, budget) == by_age
    found = rows.served_tiers(budget)
    assert found == served
    assert rows.tokens(rows.body(found)) == body
    assert (rows.body(found) == "") == (number == 32)


def test_the_rows_of_the_block_examples_cost_what_the_examples_say() -> None:
    assert [tokens(history.row_text(row, tier)) for row in FOUR for tier in (1, 2, 3, 4)] == [
        104,
        44,
        24,
        8,
    ] * 4


def test_an_empty_body_becomes_the_placeholder() -> None:
    assert history.session_history(FOUR, 5, count) == EMPTY_HISTORY


@pytest.mark.parametrize(
    ("size", "budgets"), [(20_475, [19_500.0]), (20_476, [19_500, 16_956.5, 14_744.8, 12_821.6])]
)
def test_the_fold_loop_retries_with_smaller_budgets(size: int, budgets: list[float]) -> None:
    """Example 50."""
    asked: list[float] = []

    def render(budget: float) -> str:
        asked.append(budget)
        return "x" * size

    assert len(decay.fold_loop(render, len, 19_500)) == size
    assert asked == pytest.approx(budgets, abs=0.05)


def test_the_fold_loop_stops_as_soon_as_it_fits() -> None:
    sizes = iter((2_000, 1_051, 1_050, 1))
    assert len(decay.fold_loop(lambda budget: "x" * next(sizes), len, 1_000)) == 1_050


def test_the_fold_loop_needs_a_budget() -> None:
    asked: list[float] = []
    decay.fold_loop(lambda budget: asked.append(budget) or "x" * 99, len, 0)
    assert asked == [0]


def test_case_37_legacy_rows_neither_raise_pressure_nor_shift_age() -> None:
    tiered = [compartment(row + 50) for row in range(8)]
    legacy = [compartment(row, legacy=True, p1=None, content="text") for row in range(50)]
    between = [
        replace(row, start=row.start + 5_000, end=row.end + 5_000, sequence=500 + n)
        for n, row in enumerate(legacy)
    ]
    alone = history.start_tiers(tiered, 2_000)
    assert history.start_tiers([*legacy, *tiered, *between], 2_000)[50:58] == alone


def test_a_row_without_first_tier_does_count_in_age_and_pressure() -> None:
    plain = [compartment(row, p1=None, content="text") for row in range(8)]
    tiered = [compartment(row) for row in range(8)]
    assert history.start_tiers(plain, 2_000) == history.start_tiers(tiered, 2_000)


def test_case_38_archived_rows_are_not_charged_in_pressure() -> None:
    assert decay.budget_pressure([50] * 63, 4_137) == decay.budget_pressure([50] * 5_000, 4_137) == 1


def test_overlap_keeps_a_row_from_the_archive_but_not_from_decay() -> None:
    assert [decay.tier_at(64, 50, 1, overlap) for overlap in (0, 0.01, 1)] == [5, 5, 4]
    assert decay.tier_at(19, 50, 1, 1) == 3


def test_the_guard_measures_no_row_twice() -> None:
    measured: list[str] = []

    def counting(texts: list[str]) -> list[int]:
        measured.extend(texts)
        return count(texts)

    rows = History([compartment(row, p1="x" * 3_000) for row in range(30)], counting, dated=True)
    rows.block(2_000)
    assert len(measured) == len(set(measured))
