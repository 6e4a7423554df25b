"""Workspaces: who is in, what is shared, whose baseline is made anew (memory-search 2; dashboard-cli 2.3)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from memory_app.models import Project, Workspace, WorkspaceMember
from memory_app.services import workspaces
from memory_app.services.refusals import Code, MemoryRefused
from memory_app.services.workspaces import Draft, Membership
from tests.memory.conftest import epoch

pytestmark = pytest.mark.django_db


@pytest.fixture
def three(make_project: Callable[..., Project]) -> list[Project]:
    return [make_project("git:" + letter * 40) for letter in "bcd"]


def epochs(projects: list[Project]) -> list[int]:
    return [epoch(project) for project in projects]


def members(*projects: Project) -> list[Membership]:
    return [Membership(project.pk, f"p{project.pk}") for project in projects]


def test_it_works(owner: User, three: list[Project]) -> None:
    workspace = workspaces.save(owner.pk, Draft(" shop ", ["NAMING", "CONSTRAINTS"], members(*three[:2])))
    assert (workspace.name, workspace.share_categories) == ("shop", ["CONSTRAINTS", "NAMING"])
    assert workspace.members.count() == 2
    assert epochs(three) == [1, 1, 0]


def test_old_and_new_members_take_one_step_each(owner: User, three: list[Project]) -> None:
    a, b, c = three
    workspace = workspaces.save(owner.pk, Draft("shop", members=members(a, b)))
    workspaces.save(owner.pk, Draft("shop", members=members(b, c)), workspace.pk)
    assert epochs(three) == [2, 2, 1]


def test_what_everybody_renders_raises_the_epoch_and_nothing_else_does(
    owner: User, three: list[Project]
) -> None:
    a, b = three[:2]
    workspace = workspaces.save(owner.pk, Draft("shop", members=members(a, b)))
    steps = [
        (Draft("shop", members=members(b, a)), 0),  # as it was
        (Draft("store", members=members(a, b)), 0),  # its own name
        (Draft("store", members=[Membership(a.pk, f"p{a.pk}", "/a"), *members(b)]), 0),  # where it is shown
        (Draft("store", members=[Membership(a.pk, "api"), *members(b)]), 1),  # a member's name
        (Draft("store", [], [Membership(a.pk, "api"), *members(b)]), 1),  # what is shared
        (Draft("store", [], [Membership(a.pk, "api")]), 1),  # who is in
    ]
    for draft, step in steps:
        before = epoch(a)
        workspaces.save(owner.pk, draft, workspace.pk)
        assert epoch(a) - before == step, draft


def test_two_members_may_swap_their_names(owner: User, three: list[Project]) -> None:
    a, b = three[:2]
    workspace = workspaces.save(
        owner.pk, Draft("shop", members=[Membership(a.pk, "x"), Membership(b.pk, "y")])
    )
    workspaces.save(
        owner.pk, Draft("shop", members=[Membership(a.pk, "y"), Membership(b.pk, "x")]), workspace.pk
    )
    names = dict(workspace.members.values_list("project", "display_name"))
    assert names == {a.pk: "y", b.pk: "x"}


def test_several_members_may_have_no_name(owner: User, three: list[Project]) -> None:
    workspace = workspaces.save(owner.pk, Draft("shop", members=[Membership(p.pk) for p in three]))
    assert workspace.members.count() == 3


def test_dissolving_tells_those_who_were_in(owner: User, three: list[Project]) -> None:
    workspace = workspaces.save(owner.pk, Draft("shop", members=members(*three[:2])))
    workspaces.delete(owner.pk, workspace.pk)
    assert epochs(three) == [2, 2, 0]
    assert not Workspace.objects.exists()
    assert Project.objects.filter(pk__in=[p.pk for p in three]).count() == 3


def test_a_project_is_in_one_workspace_at_most(
    owner: User, three: list[Project], make_workspace: Callable[..., Workspace]
) -> None:
    make_workspace(three[0])
    with pytest.raises(MemoryRefused) as refused:
        workspaces.save(owner.pk, Draft("other", members=members(three[1], three[0])))
    assert refused.value.field == "members.1.project"
    assert "shop" in refused.value.detail
    other = Workspace.objects.create(owner=owner, name="another")
    with pytest.raises(IntegrityError), transaction.atomic():
        WorkspaceMember.objects.create(workspace=other, project=three[0], display_name="again")


@pytest.mark.parametrize(
    ("draft", "field"),
    [
        (Draft(""), "name"),
        (Draft("x" * 201), "name"),
        (Draft("taken"), "name"),
        (Draft("new", ["CONSTRAINTS", "SECRETS"]), "share_categories"),
        (Draft("new", members=[Membership(10**9)]), "members.0.project"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(owner: User, draft: Draft, field: str) -> None:
    workspaces.save(owner.pk, Draft("taken"))
    with pytest.raises(MemoryRefused) as refused:
        workspaces.save(owner.pk, draft)
    assert refused.value.field == field
    assert Workspace.objects.count() == 1


def test_names_and_projects_are_not_repeated(owner: User, three: list[Project]) -> None:
    a, b = three[:2]
    twice = [Membership(a.pk, "x"), Membership(a.pk, "y")]
    same = [Membership(a.pk, "x"), Membership(b.pk, "x")]
    for listed, field in ((twice, "members"), (same, "members.1.display_name")):
        with pytest.raises(MemoryRefused) as refused:
            workspaces.save(owner.pk, Draft("shop", members=listed))
        assert refused.value.field == field


def test_another_owner_s_project_and_workspace_are_not_there(owner: User, project: Project) -> None:
    bob = User.objects.create_user("bob")
    foreign = workspaces.save(bob.pk, Draft("shop"))
    with pytest.raises(MemoryRefused) as refused:
        workspaces.save(bob.pk, Draft("other", members=members(project)))
    assert refused.value.code is Code.NOT_FOUND
    for write in (
        lambda: workspaces.delete(owner.pk, foreign.pk),
        lambda: workspaces.save(owner.pk, Draft("mine"), foreign.pk),
    ):
        with pytest.raises(MemoryRefused) as refused:
            write()
        assert refused.value.code is Code.NOT_FOUND
    assert workspaces.save(owner.pk, Draft("shop")).owner == owner


def test_33_the_home_directory_joins_nothing(owner: User, make_project: Callable[..., Project]) -> None:
    home = str(Path.home())
    digest = hashlib.md5(home.encode(), usedforsecurity=False).hexdigest()[:12]
    by_path = make_project("git:" + "b" * 40, directory=home + "/")
    by_identity = make_project(f"dir:{digest}")
    for project in (by_path, by_identity):
        with pytest.raises(MemoryRefused) as refused:
            workspaces.save(owner.pk, Draft("shop", members=members(project)))
        assert refused.value.field == "members.0.project"
