"""Merging memories (memory-search section 3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memory_app.models import IdentityAlias, Memory, MemoryMutation, Project
from memory_app.services.effects import Actor
from memory_app.services.memories import Reach
from memory_app.services.merging import Merged, merge
from memory_app.services.refusals import Code, MemoryRefused
from tests.memory.conftest import NOW, epoch, later, logged

pytestmark = pytest.mark.django_db


def merged(project: Project, *rows: Memory, content: str = "all of it", actor: Actor = Actor.AGENT) -> Merged:
    return merge(Reach.of(project), [row.pk for row in rows], content, actor=actor, now=later(1))


def test_it_works(project: Project, fact: Callable[..., Memory]) -> None:
    one, two = fact("one", seen_count=3, retrieval_count=1), fact("two", status="permanent", seen_count=2)
    done = merged(project, one, two)
    assert done.superseded == [one.pk, two.pk]
    canonical = Memory.objects.get(pk=done.canonical.pk)
    assert canonical.pk not in (one.pk, two.pk)
    assert (canonical.seen_count, canonical.retrieval_count, canonical.status) == (5, 1, "permanent")
    assert canonical.merged_from == [one.pk, two.pk]
    one.refresh_from_db()
    assert (one.status, one.superseded_by) == ("archived", canonical.pk)
    assert logged() == [("superseded", one.pk), ("superseded", two.pk)]
    assert set(MemoryMutation.objects.values_list("superseded_by", flat=True)) == {canonical.pk}
    assert epoch(project) == 0


def test_a_source_that_says_it_already_stays(project: Project, fact: Callable[..., Memory]) -> None:
    one, two = fact("one", merged_from=[9_999]), fact("two")
    done = merged(project, one, two, content="one")
    assert (done.canonical.pk, done.superseded) == (one.pk, [two.pk])
    assert done.canonical.merged_from == [two.pk, 9_999]
    assert logged() == [("superseded", two.pk)]


def test_a_source_that_stays_with_other_words_is_logged_as_changed(
    project: Project, fact: Callable[..., Memory]
) -> None:
    one, two = fact("one", shareable=True), fact("two")
    done = merged(project, one, two, content="ONE")
    assert logged() == [("superseded", two.pk), ("update", one.pk)]
    assert not done.canonical.shareable


def test_each_source_is_logged_under_its_own_project(
    project: Project, make_project: Callable[..., Project], fact: Callable[..., Memory]
) -> None:
    old = make_project("dir:0123456789ab")
    one, two = fact("one"), fact("two", project=old)
    IdentityAlias.objects.create(owner=project.owner, identity=old.identity, project=project)
    done = merged(project, two, one)
    assert done.canonical.project == project
    assert (logged(project), logged(old)) == ([("superseded", one.pk)], [("superseded", two.pk)])


def test_7_categories_are_not_mixed(project: Project, fact: Callable[..., Memory]) -> None:
    with pytest.raises(MemoryRefused) as refused:
        merged(project, fact("one"), fact("two", category="NAMING"))
    assert refused.value.code is Code.MIXED_CATEGORIES
    assert "CONSTRAINTS, NAMING" in refused.value.detail
    assert logged() == []


def test_a_text_that_stands_elsewhere_is_refused_with_its_id(
    project: Project, fact: Callable[..., Memory]
) -> None:
    one, two, third = fact("one"), fact("two"), fact("three")
    with pytest.raises(MemoryRefused) as refused:
        merged(project, one, two, content="Three")
    assert (refused.value.code, refused.value.other_id) == (Code.DUPLICATE, third.pk)
    assert not Memory.objects.filter(status="archived").exists()


def test_two_different_live_rows_are_needed(project: Project, fact: Callable[..., Memory]) -> None:
    one, gone = fact("one"), fact("two", status="archived")
    for rows, code in (((one, one), Code.BAD_IDS), ((one, gone), Code.INACTIVE)):
        with pytest.raises(MemoryRefused) as refused:
            merged(project, *rows)
        assert refused.value.code is code


def test_the_best_of_the_sources_goes_on(project: Project, fact: Callable[..., Memory]) -> None:
    one, two = (
        fact("one", importance=80, last_seen_at=later(9)),
        fact("two", importance=None, first_seen_at=NOW),
    )
    done = merged(project, one, two)
    assert (done.canonical.importance, done.canonical.last_seen_at) == (80, later(9))
