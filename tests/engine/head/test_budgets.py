"""Budgets, policy and allowances (history-render sections 4 and 5; worked examples 37, 38, 45 to 47)."""

import pytest

from magiccontext.engine.head import budgets
from magiccontext.engine.head.budgets import ThresholdKind
from magiccontext.engine.head.model import Budgets


@pytest.mark.parametrize(
    ("number", "limit", "budget"),
    [(37, 200_000, 19_500), (38, 1_000_000, 97_500), (38, 128_000, 12_480)],
)
def test_history_budget(number: int, limit: int, budget: int) -> None:
    assert budgets.history_budget(limit, 65, 0.15) == budgets.history_budget(limit, 65) == budget


@pytest.mark.parametrize(
    ("number", "recorded", "memory", "history", "shrunk"),
    [
        (45, "m4000-h12000", 4_000, 11_880, False),
        (45, "m4000-h12000", 4_000, 11_879, True),
        (46, "m4000-h100000", 4_000, 99_000, False),
        (46, "m4000-h100000", 4_000, 98_999, True),
        (47, "m4000-h12000", 3_936, 12_000, False),
        (47, "m4000-h12000", 3_935, 12_000, True),
    ],
)
def test_shrinking(number: int, recorded: str, memory: int, history: int, shrunk: bool) -> None:
    assert budgets.shrunk(recorded, Budgets(history, memory, 4_000)) == shrunk


def test_case_32_small_steps_add_up_and_growth_is_nothing() -> None:
    recorded = budgets.allowances(Budgets(19_500, 4_000, 4_000))
    steps = list(range(19_500, 19_000, -60))
    fired = [budgets.shrunk(recorded, Budgets(history, 4_000, 4_000)) for history in steps]
    assert fired == [19_500 - history > 195 for history in steps]
    assert any(fired)
    assert not budgets.shrunk(recorded, Budgets(1_000_000, 20_000, 4_000))


@pytest.mark.parametrize("recorded", [None, "", "m4000", "garbage"])
def test_an_allowance_never_recorded_is_not_compared(recorded: str | None) -> None:
    assert not budgets.shrunk(recorded, Budgets(1, 1, 1))


def test_case_31_the_first_pass_knows_its_window() -> None:
    assert budgets.history_limit(200_000, percentage=0.0) == 200_000
    assert budgets.history_limit(0, 128_000, percentage=0.0) == 128_000
    assert budgets.history_limit(0, input_tokens=50_000, percentage=25.0) == 200_000
    assert budgets.history_limit(0) is None
    assert budgets.history_budget(None, 65) == 60_000


@pytest.mark.parametrize(("share", "acts_as"), [(0.0, 0.05), (0.05, 0.05), (0.5, 0.5), (0.9, 0.5)])
def test_the_share_is_bounded(share: float, acts_as: float) -> None:
    assert budgets.history_budget(100_000, 100, share) == 100_000 * acts_as


@pytest.mark.parametrize(("given", "acts_as"), [(None, 4_000), (1, 500), (700, 700), (10**6, 20_000)])
def test_the_memory_budget_is_bounded(given: int | None, acts_as: int) -> None:
    assert budgets.memory_budget(given) == acts_as


def test_calibration_makes_local_tokens() -> None:
    assert budgets.local(Budgets(19_500, 4_000, 4_000, ratio=1.3)) == (15_000, 3_076, 3_076)
    assert budgets.local(Budgets(19_500, 4_000, 4_000)) == (19_500, 4_000, 4_000)


@pytest.mark.parametrize(("budget", "part"), [(4_000, 1_000), (7, 1), (1, 1), (0, 1)])
def test_what_the_delta_may_take(budget: int, part: int) -> None:
    assert budgets.delta(budget) == part


@pytest.mark.parametrize(
    ("share", "kind", "threshold", "identity"),
    [
        (0.15, ThresholdKind.PERCENTAGE, 65, "m4000-hp0.15:percentage:65"),
        (None, ThresholdKind.PERCENTAGE, 65.0, "m4000-hpdefault:percentage:65"),
        (0.2, ThresholdKind.TOKENS, 120_000, "m4000-hp0.2:tokens:120000"),
        (0.2, ThresholdKind.PERCENTAGE, 62.5, "m4000-hp0.2:percentage:62.5"),
    ],
)
def test_policy_identity(share: float | None, kind: ThresholdKind, threshold: float, identity: str) -> None:
    assert budgets.policy_identity(4_000, share, kind, threshold) == identity


@pytest.mark.parametrize(
    ("stored", "changed"),
    [
        (None, False),
        ("m4000-hp0.15:percentage:65", False),
        ("m4000-hp0.2:percentage:65", True),
        ("m5000-hp0.15:percentage:65", True),
        ("m4000-h12000", False),
        ("m5000-h12000", True),
        ("unreadable", True),
    ],
)
def test_an_older_policy_compares_only_its_memory_half(stored: str | None, changed: bool) -> None:
    assert budgets.policy_changed(stored, "m4000-hp0.15:percentage:65") == changed


def test_case_33_a_new_window_is_no_new_policy() -> None:
    small, large = (
        Budgets(
            budgets.history_budget(limit, 65),
            4_000,
            4_000,
            policy=budgets.policy_identity(4_000, None, ThresholdKind.PERCENTAGE, 65),
        )
        for limit in (200_000, 1_000_000)
    )
    assert small.history != large.history
    assert not budgets.policy_changed(small.policy, large.policy)
