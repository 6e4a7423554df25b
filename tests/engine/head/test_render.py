"""The pair as a whole (history-render sections 5 to 7, and cases of section 11)."""

from dataclasses import replace

import pytest

from magiccontext.engine.head import m1
from magiccontext.engine.head.history import OverlappingRanges
from magiccontext.engine.head.model import Boundary, Budgets, Markers, ProjectDocs, UpgradeState
from tests.engine.head.building import (
    BUDGETS,
    MODEL,
    NOW,
    PROJECT,
    compartment,
    fold,
    memory,
    refresh,
    source,
)


def test_every_marker_is_written() -> None:
    given = source(
        compartments=(compartment(0), compartment(4)),
        memories=(memory(3), memory(8, expires_ms=NOW), memory(9, status="archived")),
        mutation_head=12,
        structural_mutation_id=5,
        memory_epoch=7,
        profile_version=2,
        mural_enabled=True,
    )
    pair = fold(given, tool_fingerprint="t1")
    assert pair.markers == Markers(
        materialized_ms=NOW,
        model_key=MODEL,
        system_hash="s1",
        tool_fingerprint="t1",
        project=PROJECT,
        memory_epoch=7,
        workspace_fingerprint=None,
        profile_version=2,
        max_compartment_seq=4,
        max_memory_id=3,
        memory_mutation_id=12,
        structural_mutation_id=5,
        docs_hash="",
        upgrade_state="ready",
        compartment_epoch="cre2",
        memory_render_epoch="mre1",
        mural_flag=True,
        policy="m4000-hp0.15:percentage:65",
        allowances="m4000-h19500",
    )
    assert (pair.boundary, pair.complete, pair.m1) == (Boundary("m50", 50), True, m1.PLACEHOLDER)


def test_a_refresh_touches_m1_boundary_and_manifest_only() -> None:
    pair = fold(source(compartments=(compartment(0),), memories=(memory(1),)))
    news = source(
        compartments=(compartment(0), compartment(1, end_block=2)),
        memories=(memory(1), memory(2)),
        docs=ProjectDocs((("STRUCTURE.md", "new"),)),
        memory_epoch=99,
    )
    after = refresh(pair, news)
    assert after == replace(pair, m1=after.m1, boundary=Boundary("m20", 20, 2), visible_memory_ids=(1, 2))
    assert after.m1 != pair.m1
    assert refresh(after, news) == after


def test_the_history_gets_its_budget_in_local_tokens() -> None:
    rows = tuple(compartment(number, p1="x" * 3_500) for number in range(40))
    full = fold(source(compartments=rows), Budgets(20_000, 4_000, 4_000))
    half = fold(source(compartments=rows), Budgets(20_000, 4_000, 4_000, ratio=2.0))
    assert half.m0 == fold(source(compartments=rows), Budgets(10_000, 4_000, 4_000)).m0
    assert len(half.m0) < len(full.m0)


def test_case_09_fallback_renders_across_an_expiry_are_identical() -> None:
    given = source(memories=(memory(1, expires_ms=NOW + 10), memory(2)))
    first = fold(given, now_ms=NOW, at_ms=500)
    second = fold(given, now_ms=NOW + 1_000, at_ms=500)
    assert first == second
    assert "fact 1" in first.m0


def test_case_10_one_time_is_the_cutoff_and_the_marker() -> None:
    given = source(memories=(memory(1, expires_ms=NOW), memory(2, expires_ms=NOW + 1)))
    pair = fold(given)
    assert (pair.m0_memory_ids, pair.markers.materialized_ms) == ((2,), NOW)
    assert pair.m1 == m1.PLACEHOLDER
    assert refresh(pair, given) == pair


def test_case_12_edited_documents_wait_for_a_fold() -> None:
    pair = fold(source())
    edited = source(docs=ProjectDocs((("STRUCTURE.md", "new"),)))
    assert refresh(pair, edited) == pair
    assert "new" in fold(edited).m0


def test_case_30_long_documents_take_nothing_from_the_history() -> None:
    rows = tuple(compartment(number, p1="x" * 3_500) for number in range(15))
    long = ProjectDocs((("STRUCTURE.md", "word " * 14_000),))
    without = fold(source(compartments=rows)).m0
    assert fold(source(compartments=rows, docs=long)).m0.endswith(without)


def test_case_48_an_overlap_stops_fold_and_refresh() -> None:
    bad = source(compartments=(compartment(0), compartment(1, start=5)))
    with pytest.raises(OverlappingRanges):
        fold(bad)
    with pytest.raises(OverlappingRanges):
        refresh(fold(source()), bad)


def test_the_boundary_is_null_without_compartments_or_without_compaction() -> None:
    rows = (compartment(0),)
    assert fold(source()).boundary is None
    assert fold(source(compartments=rows, compaction_on=False)).boundary is None
    assert fold(source(compartments=(compartment(0, end_mid=""),))).boundary is None


def test_the_upgrade_state_follows_the_rows() -> None:
    assert source().upgrade_state is UpgradeState.READY
    assert source(compartments=(compartment(0, p1=None),)).upgrade_state is UpgradeState.READY
    assert source(compartments=(compartment(0, legacy=True),)).upgrade_state is UpgradeState.LEGACY


def test_dates_follow_the_configuration_in_both_halves() -> None:
    rows = tuple(compartment(n, first_day="2026-06-08", last_day="2026-06-08") for n in range(2))
    for dated in (True, False):
        pair = fold(source(compartments=rows[:1], temporal_awareness=dated))
        after = refresh(pair, source(compartments=rows, temporal_awareness=dated))
        assert ("2026" in pair.m0) == ("2026" in after.m1) == dated


def test_memories_return_when_memory_is_switched_on() -> None:
    pair = fold(source(memories=(memory(1),), memory_enabled=False))
    after = refresh(pair, source(memories=(memory(1),)), BUDGETS)
    assert after.visible_memory_ids == (1,)
