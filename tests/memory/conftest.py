"""An owner with projects, a workspace, and a session with messages, all as real rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from memory_app.models import Memory, MemoryMutation, Project, ProjectState, Workspace
from memory_app.services import memories, workspaces
from memory_app.services.effects import Actor
from sessions_app import models
from sessions_app.services.cache import states

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def later(minutes: int) -> datetime:
    return NOW + timedelta(minutes=minutes)


def epoch(project: Project) -> int:
    return ProjectState.objects.filter(project=project).values_list("memory_epoch", flat=True).first() or 0


def logged(project: Project | None = None) -> list[tuple[str, int]]:
    """(type, target) of the mutation log, oldest first."""
    rows = MemoryMutation.objects.order_by("pk")
    if project is not None:
        rows = rows.filter(project=project)
    return list(rows.values_list("type", "target_id"))


@pytest.fixture(autouse=True)
def _no_cached_state() -> None:
    states.clear()


@pytest.fixture
def owner(db: None) -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def make_project(owner: User) -> Callable[..., Project]:
    def make(identity: str = "git:" + "a" * 40, **fields: Any) -> Project:
        return Project.objects.create(**{"owner": owner, "identity": identity, **fields})

    return make


@pytest.fixture
def project(make_project: Callable[..., Project]) -> Project:
    return make_project()


@pytest.fixture
def fact(project: Project) -> Callable[..., Memory]:
    """A stored memory; fields that no service sets are set on the row."""

    def make(content: str = "tabs, not spaces", category: str = "CONSTRAINTS", **fields: Any) -> Memory:
        within = fields.pop("project", project)
        memory = memories.add(within, category, content, actor=Actor.AGENT, now=NOW).memory
        for name, value in fields.items():
            setattr(memory, name, value)
        memory.save()
        return memory

    return make


@pytest.fixture
def make_workspace(owner: User) -> Callable[..., Workspace]:
    def make(*members: Project, name: str = "shop", shared: tuple[str, ...] = ("CONSTRAINTS",)) -> Workspace:
        draft = workspaces.Draft(
            name, shared, [workspaces.Membership(member.pk, f"p{member.pk}") for member in members]
        )
        return workspaces.save(owner.pk, draft)

    return make


@pytest.fixture
def session(owner: User, project: Project) -> models.Session:
    """Ten messages; 4 calls a tool and 5 holds its result."""
    session = models.Session.objects.create(
        owner=owner, harness="custom", sid="s1", format="anthropic", project=project
    )
    models.Lineage.objects.create(session=session, number=1)
    for ordinal in range(1, 11):
        add_message(session, ordinal)
    return session


def add_message(
    session: models.Session, ordinal: int, *, lineage: int = 1, mid: str = "", **fields: Any
) -> models.RawMessage:
    mid = mid or f"m{ordinal}"
    links: list[list[Any]] = {4: [[1, "c1", 0, "m4"]], 5: [[0, "c1", 0, "m4"]]}.get(ordinal, [])
    return models.RawMessage.objects.create(
        **{
            "session": session,
            "lineage": lineage,
            "ordinal": ordinal,
            "mid": mid,
            "role": "user",
            "digest": mid.encode(),
            "raw": b"{}",
            "links": links,
            "created": later(ordinal),
            **fields,
        }
    )
