"""Promises the head keeps for every history (history-render sections 2, 4, 7 and 8)."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from magiccontext.engine.head import decay, m0, m1, selection
from magiccontext.engine.head.cut import Row, Status, cut
from magiccontext.engine.head.history import History
from magiccontext.engine.head.materialize import due
from magiccontext.engine.head.model import (
    Boundary,
    Budgets,
    Compartment,
    HeadSource,
    Member,
    Memory,
    MutationRow,
    ProfileEntry,
    Workspace,
)
from magiccontext.engine.head.render import render_fold, render_refresh
from magiccontext.engine.state import Link
from tests.engine.head.building import NOW, PROJECT, compartment, count, memory, mutation, signals, tokens

PROJECTS = (PROJECT, "git:other", "git:third")
WORKSPACE = Workspace(tuple(Member(name, name[-5:]) for name in PROJECTS), '["CONSTRAINTS","NAMING"]')

texts = st.text("ab <&>\n#U:·😀\u2028", max_size=60) | st.integers(0, 900).map(lambda size: "w " * size)
tiers = st.none() | texts
ids = st.integers(1, 12)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Compartment, ...]:
    rows = draw(st.lists(st.tuples(texts, texts, tiers, tiers, tiers, tiers), max_size=12))
    return tuple(
        Compartment(
            number,
            10 * number + 1,
            10 * number + 10,
            end_mid=f"m{10 * number + 10}",
            title=row[0],
            content=row[1],
            p1=row[2],
            p2=row[3],
            p3=row[4],
            p4=row[5],
            importance=draw(st.none() | st.integers(-5, 130)),
            legacy=draw(st.booleans()),
        )
        for number, row in enumerate(rows)
    )


@st.composite
def pools(draw: st.DrawFn) -> tuple[Memory, ...]:
    return tuple(
        memory(
            number,
            draw(texts),
            draw(st.sampled_from(("CONSTRAINTS", "NAMING", "ODD"))),
            project=draw(st.sampled_from(PROJECTS)),
            status=draw(st.sampled_from(("active", "permanent", "archived"))),
            importance=draw(st.none() | st.integers(1, 100)),
            last_seen_ms=draw(st.none() | st.integers(0, 3)),
            expires_ms=draw(st.none() | st.sampled_from((NOW - 1, NOW, NOW + 1))),
            shareable=draw(st.booleans()),
            superseded_by=draw(st.none() | ids),
        )
        for number in draw(st.sets(ids))
    )


@st.composite
def logs(draw: st.DrawFn) -> tuple[MutationRow, ...]:
    return tuple(
        mutation(
            number,
            draw(st.sampled_from(("archive", "delete", "update", "superseded"))),
            draw(ids),
            project=draw(st.sampled_from(PROJECTS)),
            superseded_by=draw(st.none() | ids),
            category=draw(st.sampled_from((None, "NAMING", "__mc_visibility__"))),
            new_content=draw(st.none() | texts),
        )
        for number in range(1, draw(st.integers(0, 8)) + 1)
    )


def sources(rows: st.SearchStrategy[tuple[MutationRow, ...]]) -> st.SearchStrategy[HeadSource]:
    return st.builds(
        HeadSource,
        project=st.just(PROJECT),
        compartments=histories(),
        memories=pools(),
        mutations=rows,
        mutation_head=st.just(0),
        profile=st.lists(st.builds(ProfileEntry, ids, texts, st.integers(0, 3)), max_size=5).map(tuple),
        profile_version=st.integers(0, 1),
        workspace=st.sampled_from((None, WORKSPACE)),
        memory_enabled=st.booleans(),
    )


budgets = st.builds(Budgets, st.integers(0, 2_000), st.integers(0, 600), st.integers(0, 300))


@given(pools(), st.integers(-5, 600), st.sampled_from((None, WORKSPACE)))
def test_a_selection_never_exceeds_its_budget(
    pool: tuple[Memory, ...], budget: int, workspace: Workspace | None
) -> None:
    around = HeadSource(project=PROJECT, workspace=workspace)
    chosen = selection.select_memories(around, pool, budget, count)
    text = m0.memories(chosen, m0.source_names(PROJECT, workspace))
    assert not chosen or tokens(text) <= budget
    assert len({m.id for m in chosen}) == len(chosen)


@given(st.lists(st.builds(ProfileEntry, ids, texts, st.integers(0, 3)), max_size=8), st.integers(-5, 300))
def test_a_profile_never_exceeds_its_budget(entries: list[ProfileEntry], budget: int) -> None:
    chosen = selection.trim_profile(entries, budget, count)
    assert not chosen or sum(tokens(f"- {entry.content}") + 4 for entry in chosen) <= budget


@given(sources(logs()), sources(logs()), budgets)
def test_rendering_again_gives_the_same_bytes(before: HeadSource, after: HeadSource, given_: Budgets) -> None:
    pair = render_fold(before, given_, count, signals())
    assert pair == render_fold(before, given_, count, signals())
    once = render_refresh(pair, after, given_, count)
    assert render_refresh(once, after, given_, count) == once
    assert (once.m0, once.markers) == (pair.m0, pair.markers)


@given(sources(st.just(())), budgets)
def test_a_fold_leaves_nothing_new_and_nothing_due(given_source: HeadSource, given_: Budgets) -> None:
    pair = render_fold(given_source, given_, count, signals())
    assert pair.complete
    assert due(pair, given_source, given_, signals()) is None
    assert set(pair.m0_memory_ids) <= set(pair.visible_memory_ids)
    assert pair.m1 == m1.PLACEHOLDER


@given(sources(logs()), sources(logs()), budgets)
def test_nothing_is_shown_that_may_not_be_seen(
    before: HeadSource, after: HeadSource, given_: Budgets
) -> None:
    pair = render_fold(before, given_, count, signals())
    seen = {m.id for m in selection.eligible(before, NOW)}
    assert set(pair.m0_memory_ids) <= seen
    news = set(render_refresh(pair, after, given_, count).visible_memory_ids) - set(pair.m0_memory_ids)
    assert news <= {m.id for m in selection.eligible(after, NOW)}


@given(histories(), st.integers(0, 500))
def test_the_guard_ends_within_its_budget_or_with_nothing(rows: tuple[Compartment, ...], budget: int) -> None:
    history = History(rows, count, dated=True)
    served = history.served_tiers(budget)
    body = history.body(served)
    assert budget <= 0 or tokens(body) <= budget or set(served) <= {decay.ARCHIVED}


@given(st.lists(st.integers(0, 5_000), min_size=4, max_size=4), st.integers(-10, 1_000))
def test_the_fold_loop_is_bounded(sizes: list[int], budget: int) -> None:
    asked: list[float] = []

    def render(allowed: float) -> str:
        asked.append(allowed)
        return "x" * sizes[len(asked) - 1]

    block = decay.fold_loop(render, len, budget)
    assert 1 <= len(asked) <= 4
    assert len(block) == sizes[len(asked) - 1]
    assert asked == sorted(asked, reverse=budget > 0)


@given(histories(), st.integers(1, 2_000), st.lists(st.integers(0, 10_000), min_size=12, max_size=12))
def test_demotion_ends_whatever_the_counter_says(
    rows: tuple[Compartment, ...], budget: int, noise: list[int]
) -> None:
    def erratic(given_texts: Sequence[str]) -> list[int]:
        return [noise[len(text) % len(noise)] for text in given_texts]

    History(rows, erratic, dated=True).block(budget)


@st.composite
def transcripts(draw: st.DrawFn) -> list[Row]:
    """Calls and results in any order and number; ids are used again, results answer an earlier call."""
    calls: list[Link] = []
    rows = []
    for number in range(1, draw(st.integers(1, 10)) + 1):
        mid = f"m{number}"
        links: list[Link] = []
        for part in range(draw(st.integers(0, 3))):
            if calls and draw(st.booleans()):
                call = draw(st.sampled_from(calls))
                links.append(Link(False, call.call_id, part, call.owner))
            elif not any(link.is_call for link in links):
                links.append(Link(True, draw(st.sampled_from(("a", "b"))), part, mid))
        calls += [link for link in links if link.is_call]
        rows.append(Row(mid, number, links=tuple(links)))
        if draw(st.integers(0, 4)) == 0:
            rows.append(Row())
    return rows


@given(transcripts(), st.integers(1, 10), st.none() | st.integers(0, 2))
def test_a_cut_never_separates_a_call_from_its_result(
    rows: list[Row], at: int, end_block: int | None
) -> None:
    found = cut(Boundary(f"m{at}", at, end_block), rows)
    if found.status is not Status.APPLIED:
        assert found.removed == () == found.severed
        assert at > sum(1 for row in rows if row.mid)
        return
    left: dict[tuple[str, str], int] = {}
    whole: dict[tuple[str, str], int] = {}
    for index, row in enumerate(rows):
        for link in row.links:
            key = link.owner, link.call_id
            whole[key] = whole.get(key, 0) + 1
            if index not in found.removed and (index, link.part) not in found.severed:
                left[key] = left.get(key, 0) + 1
    assert all(left[key] == whole[key] for key in left)
    # And no more is severed than the cut touched.
    touched = {(k.owner, k.call_id) for index in found.removed for k in rows[index].links}
    assert set(whole) - set(left) == touched


def _large() -> HeadSource:
    words = random.Random(7)

    def text(size: int) -> str:
        return " ".join(words.choice(("parser", "index", "budget", "ledger", "token")) for _ in range(size))

    return HeadSource(
        project=PROJECT,
        compartments=tuple(
            compartment(n, p1=text(250), p2=text(80), p3=text(25), p4=text(12), importance=n % 100 + 1)
            for n in range(300)
        ),
        memories=tuple(memory(n, text(30), importance=n % 100) for n in range(1, 501)),
    )


def test_order_of_rows_does_not_matter() -> None:
    given_source = _large()
    turned = replace(
        given_source, compartments=given_source.compartments[::-1], memories=given_source.memories[::-1]
    )
    budgets_ = Budgets(19_500, 4_000, 4_000)
    assert render_fold(given_source, budgets_, count, signals()) == render_fold(
        turned, budgets_, count, signals()
    )


def test_a_long_history_renders_fast() -> None:
    """300 compartments and 500 memories: 60 ms with a cheap counter; the best of five, as CI is noisy."""
    given_source = _large()
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        pair = render_fold(given_source, Budgets(19_500, 4_000, 4_000), count, signals())
        taken.append(time.perf_counter() - start)
    assert pair.m0.count("\n## ") > 20
    assert min(taken) < 0.06
