"""The profile: its version grows, nobody's epoch does (memory-search 1.5 and 11)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from memory_app.models import Project, ProjectState, UserMemory
from memory_app.services import profile
from memory_app.services.projects import profile_version
from memory_app.services.refusals import Code, MemoryRefused
from tests.memory.conftest import NOW, epoch, later

pytestmark = pytest.mark.django_db


def test_it_works(owner: User, project: Project) -> None:
    entry = profile.add(owner.pk, " prefers short answers ", now=NOW, provenance=[{"session": "pi/s1"}])
    assert (entry.content, entry.status, entry.promoted_at) == ("prefers short answers", "active", NOW)
    assert (profile_version(owner.pk), epoch(project)) == (1, 0)


def test_each_real_change_is_one_version(owner: User) -> None:
    entry = profile.add(owner.pk, "one", now=NOW)
    steps: list[tuple[Callable[[], object], int]] = [
        (lambda: profile.edit(owner.pk, entry.pk, "two", now=later(1)), 1),
        (lambda: profile.edit(owner.pk, entry.pk, "two", now=later(2)), 0),
        (lambda: profile.dismiss(owner.pk, entry.pk, now=later(3)), 1),
        (lambda: profile.dismiss(owner.pk, entry.pk, now=later(4)), 0),
        (lambda: profile.set_status(owner.pk, entry.pk, "active", now=later(5)), 1),
        (lambda: profile.delete(owner.pk, entry.pk), 1),
    ]
    for act, step in steps:
        before = profile_version(owner.pk)
        act()
        assert profile_version(owner.pk) - before == step
    assert not UserMemory.objects.exists()


def test_an_edit_keeps_the_place_in_the_profile(owner: User) -> None:
    entry = profile.add(owner.pk, "one", now=NOW)
    profile.edit(owner.pk, entry.pk, "two", now=later(1))
    entry.refresh_from_db()
    assert (entry.content, entry.promoted_at, entry.updated_at) == ("two", NOW, later(1))


def test_what_is_not_there_or_says_nothing_is_refused(owner: User) -> None:
    entry = profile.add(User.objects.create_user("bob").pk, "bob's", now=NOW)
    for act, code in (
        (lambda: profile.edit(owner.pk, entry.pk, "mine", now=NOW), Code.NOT_FOUND),
        (lambda: profile.delete(owner.pk, entry.pk), Code.NOT_FOUND),
        (lambda: profile.add(owner.pk, " \n", now=NOW), Code.MISSING_CONTENT),
        (lambda: profile.set_status(entry.owner_id, entry.pk, "gone", now=NOW), Code.BAD_VALUE),
    ):
        with pytest.raises(MemoryRefused) as refused:
            act()
        assert refused.value.code is code
    assert profile_version(owner.pk) == 0


def test_the_global_row_is_no_project_and_there_is_one(
    owner: User, make_project: Callable[..., Project]
) -> None:
    """A host may call its project as it likes, the reserved key included."""
    project = make_project("__global__")
    profile.add(owner.pk, "one", now=NOW)
    assert ProjectState.objects.get(owner=owner, project=None).profile_version == 1
    assert epoch(project) == 0
    with pytest.raises(IntegrityError), transaction.atomic():
        ProjectState.objects.create(owner=owner, project=None)
    with pytest.raises(IntegrityError), transaction.atomic():
        ProjectState.objects.create(owner=owner, project=project, profile_version=1)
