"""The admin of knowledge: edits go through the services, logs are only looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client

from memory_app.models import (
    IdentityAlias,
    Memory,
    MemoryMutation,
    Project,
    ProjectState,
    UserMemory,
    Workspace,
    WorkspaceMember,
)
from memory_app.services import memories, profile
from memory_app.services.effects import Actor
from memory_app.services.memories import Reach
from memory_app.services.projects import profile_version
from tests.memory.conftest import NOW, epoch, logged

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root", password="x"))
    return client


def address(model: type[Model], page: str = "") -> str:
    return f"/admin/memory_app/{model._meta.model_name}/{page}"


def errors(page: Any) -> list[str]:
    return [str(message) for message in page.context["messages"]]


def form_of(memory: Memory, **changes: Any) -> dict[str, Any]:
    fields = {
        "category": memory.category, "content": memory.content, "status": memory.status,
        "importance": memory.importance, "scope": memory.scope,
    }  # fmt: skip
    return {**fields, **({"shareable": "on"} if memory.shareable else {}), **changes}


@pytest.mark.parametrize(
    "model", [Project, Memory, MemoryMutation, ProjectState, IdentityAlias, UserMemory, Workspace]
)
def test_everything_is_listed_searched_and_looked_at(
    root: Client,
    owner: User,
    project: Project,
    fact: Callable[..., Memory],
    make_workspace: Callable[..., Workspace],
    model: type[Model],
) -> None:
    memory = fact()
    memories.archive(Reach.of(project), [memory.pk], actor=Actor.AGENT, now=NOW)
    make_workspace(project)
    profile.add(owner.pk, "likes tables", now=NOW)
    IdentityAlias.objects.create(owner=owner, identity="dir:0123456789ab", project=project)
    for query in ({}, {"q": "a"}, {"q": "7"}):
        assert root.get(address(model), query).status_code == 200
    row = model._default_manager.first()
    assert row is not None
    assert root.get(address(model, f"{row.pk}/change/")).status_code == 200


@pytest.mark.parametrize("model", [MemoryMutation, ProjectState, IdentityAlias])
def test_logs_and_epochs_are_not_written_by_hand(
    root: Client, owner: User, project: Project, model: type[Model]
) -> None:
    IdentityAlias.objects.create(owner=owner, identity="dir:0123456789ab", project=project)
    ProjectState.objects.create(owner=owner, project=project)
    MemoryMutation.objects.create(project=project, type="delete", target_id=1)
    row = model._default_manager.get()
    assert root.get(address(model, "add/")).status_code == 403
    assert root.post(address(model, f"{row.pk}/change/"), {"memory_epoch": 9}).status_code == 403
    assert root.post(address(model, f"{row.pk}/delete/"), {"post": "yes"}).status_code == 403


def test_an_edit_is_a_person_s(root: Client, project: Project, fact: Callable[..., Memory]) -> None:
    memory = fact(shareable=True)
    page = address(Memory, f"{memory.pk}/change/")
    for changes, epochs, rows in (
        ({}, 0, []),
        ({"content": "spaces"}, 0, ["update"]),
        ({"status": "permanent"}, 1, ["update"]),
        ({"status": "archived"}, 1, ["update", "archive"]),
    ):
        memory.refresh_from_db()
        assert root.post(page, form_of(memory, **changes)).status_code == 302
        assert (epoch(project), [kind for kind, _ in logged()]) == (epochs, rows), changes
    memory.refresh_from_db()
    assert (memory.content, memory.shareable) == ("spaces", False)


def test_52_two_are_not_made_equal_and_the_page_says_which(root: Client, fact: Callable[..., Memory]) -> None:
    one, two = fact("one"), fact("two")
    page = root.post(address(Memory, f"{two.pk}/change/"), form_of(two, content="ONE"), follow=True)
    assert errors(page) == [f"content: memory {one.pk} has that text in CONSTRAINTS"]
    two.refresh_from_db()
    assert two.content == "two"


def test_an_imported_category_stays_and_cannot_be_chosen(root: Client, fact: Callable[..., Memory]) -> None:
    old, new = fact("one"), fact("two")
    Memory.objects.filter(pk=old.pk).update(category="KNOWN_ISSUES")
    old.refresh_from_db()
    assert root.post(address(Memory, f"{old.pk}/change/"), form_of(old, content="x")).status_code == 302
    refused = root.post(address(Memory, f"{new.pk}/change/"), form_of(new, category="KNOWN_ISSUES"))
    assert refused.status_code == 200
    assert set(Memory.objects.values_list("category", "content")) == {
        ("KNOWN_ISSUES", "x"), ("CONSTRAINTS", "two")
    }  # fmt: skip


def test_a_memory_is_written_down_once(root: Client, project: Project) -> None:
    form = {"project": project.pk, "category": "NAMING", "content": " a name ", "importance": 70}
    for _ in range(2):
        page = root.post(address(Memory, "add/"), form, follow=True)
        assert page.status_code == 200
    memory = Memory.objects.get()
    assert (memory.content, memory.importance, memory.seen_count) == ("a name", 70, 2)
    assert memory.source_type == "user"
    assert any("says that already" in text for text in errors(page))


def test_26_actions_archive_restore_pin_and_delete(
    root: Client, project: Project, fact: Callable[..., Memory]
) -> None:
    bob = User.objects.create_user("bob")
    foreign = Project.objects.create(owner=bob, identity=project.identity)
    ids = [fact("one").pk, fact("two").pk, fact("three", project=foreign).pk]
    for action, status, epochs in (
        ("archive", "archived", 0),
        ("restore", "active", 1),
        ("pin", "permanent", 2),
        ("unpin", "active", 3),
    ):
        root.post(address(Memory), {"action": action, "_selected_action": ids})
        assert set(Memory.objects.values_list("status", flat=True)) == {status}
        assert (epoch(project), epoch(foreign)) == (epochs, epochs)
    root.post(address(Memory), {"action": "delete_selected", "_selected_action": ids[1:], "post": "yes"})
    root.post(address(Memory, f"{ids[0]}/delete/"), {"post": "yes"})
    assert not Memory.objects.exists()
    assert [kind for kind, _ in logged()] == ["archive"] * 3 + ["delete"] * 3


def test_the_profile_is_edited_with_its_version(root: Client, owner: User) -> None:
    root.post(address(UserMemory, "add/"), {"owner": owner.pk, "content": "likes tables"})
    entry = UserMemory.objects.get()
    page = address(UserMemory, f"{entry.pk}/change/")
    versions = [profile_version(owner.pk)]
    for form in (
        {"content": "likes tables", "status": "active"},
        {"content": "likes lists", "status": "active"},
        {"content": "likes lists", "status": "dismissed"},
    ):
        assert root.post(page, form).status_code == 302
        versions.append(profile_version(owner.pk))
    root.post(address(UserMemory, f"{entry.pk}/delete/"), {"post": "yes"})
    assert [*versions, profile_version(owner.pk)] == [1, 1, 2, 3, 4]


def inline(*members: tuple[int | str, int, str], initial: int = 0) -> dict[str, Any]:
    form: dict[str, Any] = {"members-TOTAL_FORMS": len(members), "members-INITIAL_FORMS": initial}
    for index, (pk, project, name) in enumerate(members):
        form |= {f"members-{index}-id": pk, f"members-{index}-project": project}
        form |= {f"members-{index}-display_name": name, f"members-{index}-display_path": ""}
    return form


def test_a_workspace_is_edited_with_its_members(
    root: Client, owner: User, project: Project, make_project: Callable[..., Project]
) -> None:
    other = make_project("git:" + "b" * 40)
    form = {"owner": owner.pk, "name": "shop", "share_categories": ["NAMING"]}
    made = root.post(
        address(Workspace, "add/"), {**form, **inline(("", project.pk, "a"), ("", other.pk, "b"))}
    )
    assert made.status_code == 302
    workspace = Workspace.objects.get()
    assert (workspace.share_categories, workspace.members.count()) == (["NAMING"], 2)
    assert (epoch(project), epoch(other)) == (1, 1)
    rows = {member.project_id: member.pk for member in WorkspaceMember.objects.all()}
    listed = inline((rows[project.pk], project.pk, "a"), (rows[other.pk], other.pk, "c"), initial=2)
    page = address(Workspace, f"{workspace.pk}/change/")
    assert root.post(page, {**form, **listed}).status_code == 302
    assert (epoch(project), workspace.members.get(project=other).display_name) == (2, "c")
    rows = {member.project_id: member.pk for member in WorkspaceMember.objects.all()}
    listed = inline((rows[project.pk], project.pk, "a"), (rows[other.pk], other.pk, "c"), initial=2)
    assert root.post(page, {**form, **listed, "members-1-DELETE": "on", "name": "store"}).status_code == 302
    workspace.refresh_from_db()
    assert (workspace.name, workspace.members.get().project) == ("store", project)
    root.post(address(Workspace, f"{workspace.pk}/delete/"), {"post": "yes"})
    assert (epoch(project), epoch(other)) == (4, 3)


def test_what_a_workspace_is_refused_for_is_said_on_the_page(
    root: Client, owner: User, project: Project
) -> None:
    foreign = Project.objects.create(owner=User.objects.create_user("bob"), identity="git:" + "b" * 40)
    form = {"owner": owner.pk, "name": "shop", "share_categories": [], **inline(("", foreign.pk, "b"))}
    page = root.post(address(Workspace, "add/"), form, follow=True)
    assert errors(page) == ["members.0.project: no such project"]
    assert not Workspace.objects.exists()


def test_a_deleted_project_takes_its_memories_and_tells_its_neighbours(
    root: Client,
    project: Project,
    make_project: Callable[..., Project],
    make_workspace: Callable[..., Workspace],
    fact: Callable[..., Memory],
) -> None:
    other = make_project("git:" + "b" * 40)
    make_workspace(project, other)
    fact()
    root.post(address(Project, f"{project.pk}/delete/"), {"post": "yes"})
    assert not Memory.objects.exists()
    assert epoch(other) == 2
