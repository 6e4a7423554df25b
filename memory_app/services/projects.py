"""What all writes to one owner's knowledge share: the turn, the identities, the epochs.

A session's head remembers the highest memory id and the highest mutation id it has rendered and asks later
only for what lies behind.  Two writers whose ids become visible in the other order would hide one of them
for good, so all writers of one owner take turns on the owner's global row.  Who also writes a session takes
that session's lock first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import F

from memory_app.models import IdentityAlias, Project, ProjectState, WorkspaceMember

LOCK_TIMEOUT = "5s"


@contextmanager
def writing(owner_id: int) -> Iterator[ProjectState]:
    """One transaction that holds the owner's turn; gives the global row, locked, its revision raised.

    Raises OperationalError when the database is busy.  SQLite takes the writer when the outermost
    transaction begins; PostgreSQL waits for the row for at most five seconds.
    """
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        state = _locked_global(owner_id)
        ProjectState.objects.filter(pk=state.pk).update(revision=F("revision") + 1)
        yield state


def _locked_global(owner_id: int) -> ProjectState:
    rows = ProjectState.objects.select_for_update().filter(owner_id=owner_id, project=None)
    found = rows.first()
    if found is not None:
        return found
    try:
        with transaction.atomic():
            ProjectState.objects.create(owner_id=owner_id, project=None)
    except IntegrityError:
        # Another process made it first; the row is there now.
        pass
    return rows.get()


def family_ids(project: Project) -> list[int]:
    """The rows that are this project: itself, and projects stored under an identity that is its alias.

    One query.  Only rows of the family are *owned* (section 2).
    """
    aliases = IdentityAlias.objects.filter(owner_id=project.owner_id, project=project).values("identity")
    older = Project.objects.filter(owner_id=project.owner_id, identity__in=aliases)
    return sorted({project.pk, *older.values_list("pk", flat=True)})


def present(project: Project) -> Project:
    """The project that an old identity's row stands for now; the row itself when it is no alias."""
    alias = (
        IdentityAlias.objects.filter(owner_id=project.owner_id, identity=project.identity)
        .select_related("project")
        .first()
    )
    return project if alias is None else alias.project


def reached(project_ids: Iterable[int]) -> set[int]:
    """These projects and every member of their workspaces, as they are in this transaction.

    Two queries.  It is asked inside the writing transaction: a project that has just joined is reached too.
    """
    direct = set(project_ids)
    current = set(
        IdentityAlias.objects.filter(
            identity__in=Project.objects.filter(pk__in=direct).values("identity"),
            owner__in=Project.objects.filter(pk__in=direct).values("owner"),
        ).values_list("project", flat=True)
    )
    workspaces = WorkspaceMember.objects.filter(project__in=direct | current).values("workspace")
    members = WorkspaceMember.objects.filter(workspace__in=workspaces).values_list("project", flat=True)
    return direct | current | set(members)


def bump_epochs(project_ids: Iterable[int]) -> None:
    """Raise the memory epoch of each of these projects by one.  Call with the owner's turn held."""
    wanted = set(project_ids)
    missing = wanted - set(
        ProjectState.objects.filter(project__in=wanted).values_list("project_id", flat=True)
    )
    owners: dict[int, Any] = dict(Project.objects.filter(pk__in=missing).values_list("pk", "owner_id"))
    ProjectState.objects.bulk_create(
        ProjectState(owner_id=owner_id, project_id=project_id) for project_id, owner_id in owners.items()
    )
    ProjectState.objects.filter(project__in=wanted).update(memory_epoch=F("memory_epoch") + 1)


def delete(project: Project) -> None:
    """Remove a project with everything that is known of it; its neighbours in a workspace are told.

    Its sessions stay, without a project.
    """
    with writing(project.owner_id):
        bump_epochs(reached({project.pk}) - {project.pk})
        project.delete()


def memory_epoch(project: Project) -> int:
    """The project's memory epoch; 0 before the first step.  One query."""
    return ProjectState.objects.filter(project=project).values_list("memory_epoch", flat=True).first() or 0


def profile_version(owner_id: int) -> int:
    """The version of the owner's profile; 0 before the first change.  One query."""
    rows = ProjectState.objects.filter(owner_id=owner_id, project=None)
    return rows.values_list("profile_version", flat=True).first() or 0
