"""Decay against the reference: curve (01), pressure (01b), and whole bodies (01c).

Bodies of tight budgets depend on the tokenizer.  Of those the shape is compared, and every row the
reference shows is compared byte for byte at the tier it shows it in.
"""

from collections.abc import Callable
from typing import Any

import pytest

from magiccontext.engine.head import decay
from magiccontext.engine.head.history import History, is_flat, start_tiers
from magiccontext.engine.head.model import Compartment
from magiccontext.tokenizer import count_many

Golden = Callable[[str], list[dict[str, Any]]]

# The reference's record names a tier by looking for its text in the body; where a row's first tier does not
# look like the others it guessed wrong.  The bodies agree.
UNTIERED = ("flat", "title_only")
MISNAMED = {("escaping and forged headings", 0): 1}


def test_curve(golden: Golden) -> None:
    for case in golden("01"):
        given, expected = case["input"], case["expected"]
        index, importance, pressure = (given[k] for k in ("index_from_newest", "importance", "pressure"))
        overlap = given.get("anchor_overlap", 0)
        assert decay.tier_at(index, importance, pressure, overlap) == expected["rendered_tier"], given
        if "tier" in expected:
            assert decay.tier_at(index, importance, pressure) == expected["tier"], given
        if "archived" in expected:
            served = decay.tier_at(index, importance, pressure, overlap)
            assert (served == decay.ARCHIVED) == expected["archived"], given
        if "half_life" in expected:
            life = decay.half_life(importance, pressure)
            assert float(f"{life:.12g}") == expected["half_life"], given


def test_pressure(golden: Golden) -> None:
    """The two-pass refinement of the reference is not used by rendering and not built (section 8)."""
    for case in golden("01b"):
        given, expected = case["input"], case["expected"]
        importances = given["importances_oldest_first"]
        pressure = decay.budget_pressure(importances, given["history_budget_tokens"])
        assert pressure == pytest.approx(expected["pressure"], rel=1e-9), given["list"]
        assert decay.curve(importances, pressure) == expected["rendered_tiers_oldest_first"], given["list"]


def _history(rows: list[dict[str, Any]]) -> History:
    return History(
        [
            Compartment(
                sequence,
                row["startMessage"],
                row["endMessage"],
                title=row["title"],
                content=row["content"],
                importance=row["importance"],
                legacy=bool(row["legacy"]),
                **{tier: row[tier] for tier in ("p1", "p2", "p3", "p4")},
            )
            for sequence, row in enumerate(rows)
        ],
        count_many,
        dated=True,
    )


def _assert_oldest_demoted_first(served: list[int], start: list[int]) -> None:
    touched = [row for row, tier in enumerate(served) if tier != start[row]]
    newest = touched[-1] if touched else 0
    assert all(tier == decay.ARCHIVED for tier in served[:newest])


def test_bodies(golden: Golden) -> None:
    for case in golden("01c"):
        given, expected = case["input"], case["expected"]
        budget = given["history_budget_tokens"]
        history = _history(given["compartments"])
        start = start_tiers(history.rows, budget)
        named = expected["tiers_oldest_first"]
        assert all(is_flat(row) for row, tier in zip(history.rows, named, strict=True) if tier in UNTIERED)
        reference = [
            MISNAMED.get((given["note"], row), start[row] if tier in UNTIERED else tier)
            for row, tier in enumerate(named)
        ]
        assert history.body(reference) == expected["body"], given["note"]

        served = history.served_tiers(budget)
        if history.tokens(history.body(start)) < 0.9 * budget:
            assert served == start, given["note"]
        for tiers in (served, reference):
            _assert_oldest_demoted_first(tiers, start)
        assert history.tokens(history.body(served)) <= budget, given["note"]


def test_misnamed_cases_exist(golden: Golden) -> None:
    notes = {case["input"]["note"]: case["expected"]["tiers_oldest_first"] for case in golden("01c")}
    assert all(notes[note][row] != tier for (note, row), tier in MISNAMED.items())
