"""Writing workspaces (memory-search.md section 2; dashboard-cli.md sections 2.3 and 2.5).

Who is in a workspace, under which name, and what it shares decide what other projects render.  A change of
these raises the memory epoch of everybody who was in it or is now, once; a new name of the workspace, or a
save that changes nothing, raises none.
"""

from __future__ import annotations

import hashlib
import os.path
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memory_app.models import Project, Workspace, WorkspaceMember
from memory_app.models.memory import CATEGORIES
from memory_app.services.projects import bump_epochs, writing
from memory_app.services.refusals import Code, MemoryRefused, storable

LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Membership:
    """A project as it is to be in the workspace; the display name labels its memories elsewhere."""

    project_id: int
    display_name: str = ""
    display_path: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """A workspace as it is to be; None leaves what is stored, or the default of a new one.

    ``share_categories``: names of the five; an empty list shares nothing.
    """

    name: str | None = None
    share_categories: Sequence[str] | None = None
    members: Sequence[Membership] | None = None


def save(owner_id: int, draft: Draft, workspace_id: int | None = None) -> Workspace:
    """Make a workspace, or give an existing one this name, these members and this share list.

    Raises MemoryRefused naming the member of the draft: an unknown category or project, a repeated name, a
    project that is in another workspace, one that is somebody's home directory.
    """
    with writing(owner_id):
        workspace = Workspace(owner_id=owner_id)
        if workspace_id is not None:
            workspace = _locked(owner_id, workspace_id)
        old = {member.project_id: member for member in _members(workspace)}
        shared_before = None if workspace.pk is None else [workspace.share_categories]
        if draft.name is not None or workspace.pk is None:
            workspace.name = _checked_name(owner_id, workspace, draft.name or "")
        if draft.share_categories is not None:
            workspace.share_categories = _checked_categories(draft.share_categories)
        wanted = old if draft.members is None else _checked_members(owner_id, workspace, draft.members)
        workspace.save()
        if old != wanted:
            _replace_members(workspace, wanted)
        policy = shared_before != [workspace.share_categories]
        if policy or _names(old) != _names(wanted):
            bump_epochs({*old, *wanted})
    return workspace


def delete(owner_id: int, workspace_id: int) -> None:
    """Dissolve a workspace; its projects stay.  Raises ``not_found``."""
    with writing(owner_id):
        workspace = _locked(owner_id, workspace_id)
        bump_epochs(member.project_id for member in _members(workspace))
        workspace.delete()


def is_home(project: Project) -> bool:
    """Whether the project is the home directory of whoever runs the server, under its path or its identity.

    Everything of a machine would be in it; such a project never joins (dashboard-cli 2.5).
    """
    home = str(Path.home())
    digest = hashlib.md5(home.encode(), usedforsecurity=False).hexdigest()[:12]
    same_path = bool(project.directory) and os.path.normpath(project.directory) == os.path.normpath(home)
    return same_path or project.identity == f"dir:{digest}"


def _checked_name(owner_id: int, workspace: Workspace, name: str) -> str:
    name = storable(name.strip(), "name", LONGEST_NAME)
    if not name:
        raise _bad("name", "is required")
    if Workspace.objects.filter(owner_id=owner_id, name=name).exclude(pk=workspace.pk).exists():
        raise _bad("name", "is the name of another workspace")
    return name


def _names(members: dict[int, Membership]) -> dict[int, str]:
    """Who is in, and under which name: what others render."""
    return {project_id: member.display_name for project_id, member in members.items()}


def _checked_categories(names: Sequence[str]) -> list[str]:
    unknown = sorted({name for name in names if name not in CATEGORIES})
    if unknown:
        raise _bad("share_categories", f"must be among {', '.join(CATEGORIES)}")
    return sorted(set(names))


def _checked_members(
    owner_id: int, workspace: Workspace, members: Sequence[Membership]
) -> dict[int, Membership]:
    wanted = {member.project_id: member for member in members}
    if len(wanted) != len(members):
        raise _bad("members", "names a project twice")
    projects = {p.pk: p for p in Project.objects.filter(owner_id=owner_id, pk__in=wanted)}
    elsewhere = {
        row.project_id: row.workspace.name
        for row in WorkspaceMember.objects.filter(project__in=wanted)
        .exclude(workspace=workspace.pk)
        .select_related("workspace")
    }
    names: set[str] = set()
    for index, member in enumerate(members):
        field = f"members.{index}"
        if member.project_id not in projects:
            raise MemoryRefused(
                Code.NOT_FOUND, "no such project", field=f"{field}.project", ids=(member.project_id,)
            )
        if member.project_id in elsewhere:
            raise _bad(f"{field}.project", f"is in the workspace {elsewhere[member.project_id]!r}")
        if is_home(projects[member.project_id]):
            raise _bad(f"{field}.project", "is the home directory, which joins no workspace")
        storable(member.display_name, f"{field}.display_name", LONGEST_NAME)
        storable(member.display_path, f"{field}.display_path", 4_096)
        if member.display_name and member.display_name in names:
            raise _bad(f"{field}.display_name", "is the name of another member")
        names.add(member.display_name)
    return wanted


def _locked(owner_id: int, workspace_id: int) -> Workspace:
    workspace = Workspace.objects.select_for_update().filter(owner_id=owner_id, pk=workspace_id).first()
    if workspace is None:
        raise MemoryRefused(Code.NOT_FOUND, f"no workspace {workspace_id}", field="id", ids=(workspace_id,))
    return workspace


def _members(workspace: Workspace) -> list[Membership]:
    if workspace.pk is None:
        return []
    rows = workspace.members.order_by("project").values_list("project", "display_name", "display_path")
    return [Membership(*row) for row in rows]


def _replace_members(workspace: Workspace, wanted: dict[int, Membership]) -> None:
    # All at once: two members that swap their names never stand beside each other.
    workspace.members.all().delete()
    WorkspaceMember.objects.bulk_create(
        WorkspaceMember(
            workspace=workspace,
            project_id=member.project_id,
            display_name=member.display_name,
            display_path=member.display_path,
        )
        for member in wanted.values()
    )


def _bad(field: str, detail: str) -> MemoryRefused:
    return MemoryRefused(Code.BAD_VALUE, detail, field=field)
