"""Reading what a head is made from: rows to :class:`HeadSource` (history-render.md sections 7 and 13).

Who may see a memory, what a workspace shares and what fits are the engine's questions; here rows become
values, and nothing is filtered that it has to know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from json import dumps
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection, transaction
from django.db.models import Max

from magiccontext.engine.head import model
from memory_app.models import (
    IdentityAlias,
    Memory,
    MemoryMutation,
    Project,
    ProjectState,
    UserMemory,
    WorkspaceMember,
)
from memory_app.services.projects import present
from sessions_app import models
from sessions_app.services.clock import to_ms
from sessions_app.services.line import unresolved

MOST_HOPS = 8
"""How far a chain of superseded memories is followed (section 2)."""

NO_DOCS = model.ProjectDocs()


@dataclass(frozen=True, slots=True)
class Options:
    """What is not in the rows: configuration, the model's abilities, and the documents of this pass.

    ``time_zone`` dates compartments until the session's first pair has fixed one.
    """

    memory_enabled: bool = True
    inject_docs: bool = True
    mural_enabled: bool = False
    temporal_awareness: bool = True
    images_accepted: bool = False
    compaction_on: bool = True
    docs: model.ProjectDocs = NO_DOCS
    time_zone: str = "UTC"


@contextmanager
def snapshot() -> Iterator[None]:
    """One read transaction: every query in it sees the same moment.  It never waits for a writer.

    Inside of a transaction it adds nothing; there the versions compared at the commit decide.
    """
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        # A transaction of Django's takes the writer here, which a reader must not.
        with connection.cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")
    else:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield


Stamp = tuple[int, int, int, int, int]


def stamp(session: models.Session) -> Stamp:
    """Equal stamps, equal rows: a source read under the same one need not be read again.  Three queries.

    (project, revision of its owner's knowledge, newest sequence, newest structural change, lineage).  What
    a caller's options say is not part of it.
    """
    revision = (
        ProjectState.objects.filter(owner=session.owner_id, project=None)
        .values_list("revision", flat=True)
        .first()
    )
    newest = models.Compartment.objects.filter(session=session).aggregate(most=Max("sequence"))["most"]
    return (
        session.project_id or 0,
        revision or 0,
        -1 if newest is None else newest,
        _structural_head(session),
        session.lineage,
    )


def read(session: models.Session, options: Options, identity: str = "") -> model.HeadSource:
    """The snapshot of everything a render of this session reads.

    ``identity`` names the project of a session that is not stored yet, or whose project is not.

    At most fourteen queries plus one per hop of a superseded chain, however much there is.
    """
    with snapshot():
        return _read(session, options, identity)


def _read(session: models.Session, options: Options, identity: str) -> model.HeadSource:
    stored = session.pk is not None
    head = None
    if stored:
        head = (
            models.HeadState.objects.filter(session=session).only("memory_mutation_id", "time_zone").first()
        )
    zone = ZoneInfo(head.time_zone if head is not None and head.time_zone else options.time_zone)
    project = None if session.project is None else present(session.project)
    values: dict[str, Any] = {
        "compartments": _compartments(session, zone) if stored else (),
        "structural_mutation_id": _structural_head(session) if stored else 0,
        "docs": options.docs,
        "memory_enabled": options.memory_enabled,
        "inject_docs": options.inject_docs,
        "mural_enabled": options.mural_enabled,
        "temporal_awareness": options.temporal_awareness,
        "images_accepted": options.images_accepted,
        "compaction_on": options.compaction_on,
        "project": identity if project is None else project.identity,
    }
    if options.memory_enabled:
        values.update(_profile(session.owner_id))
        if project is not None:
            values.update(_knowledge(project, 0 if head is None else head.memory_mutation_id))
    return model.HeadSource(**values)


def _structural_head(session: models.Session) -> int:
    newest = models.M0Mutation.objects.filter(session=session).order_by("-pk")
    return newest.values_list("pk", flat=True).first() or 0


def _compartments(session: models.Session, zone: ZoneInfo) -> tuple[model.Compartment, ...]:
    rows = list(models.Compartment.objects.filter(session=session).order_by("sequence"))
    gone = unresolved(session, rows)
    return tuple(
        model.Compartment(
            sequence=row.sequence,
            start=row.start,
            end=row.end,
            start_mid=row.start_mid,
            end_mid=row.end_mid,
            end_block=row.end_block,
            title=row.title,
            content=row.content,
            p1=row.p1,
            p2=row.p2,
            p3=row.p3,
            p4=row.p4,
            importance=row.importance,
            legacy=row.legacy,
            first_day=_day(row.started_at, zone),
            last_day=_day(row.ended_at, zone),
            episode_type=row.episode_type,
            resolves=row.sequence not in gone,
        )
        for row in rows
    )


def _day(moment: datetime | None, zone: ZoneInfo) -> str | None:
    return None if moment is None else moment.astimezone(zone).date().isoformat()


def _profile(owner_id: int) -> dict[str, Any]:
    entries = UserMemory.objects.filter(owner=owner_id, status=UserMemory.Status.ACTIVE)
    version = ProjectState.objects.filter(owner=owner_id, project=None).values_list(
        "profile_version", flat=True
    )
    return {
        "profile": tuple(
            model.ProfileEntry(pk, content, to_ms(promoted))
            for pk, content, promoted in entries.order_by("promoted_at", "pk").values_list(
                "pk", "content", "promoted_at"
            )
        ),
        "profile_version": version.first() or 0,
    }


def _knowledge(project: Project, since: int) -> dict[str, Any]:
    """Workspace, memories and their changes; ``since``: the newest change the stored pair knows."""
    members = list(
        WorkspaceMember.objects.filter(workspace__members__project=project)
        .select_related("project", "workspace")
        .order_by("pk")
    )
    around = {project.pk: project.identity, **{row.project_id: row.project.identity for row in members}}
    epochs = dict(ProjectState.objects.filter(project__in=around).values_list("project_id", "memory_epoch"))
    workspace = None
    if members:
        workspace = model.Workspace(
            members=tuple(
                model.Member(
                    identity=row.project.identity,
                    display_name=row.display_name,
                    path=row.display_path,
                    epoch=epochs.get(row.project_id, 0),
                )
                for row in members
            ),
            share_categories=_stored_list(members[0].workspace.share_categories),
        )
    around.update(_older_rows(project.owner_id, around))
    mutations = tuple(_mutations(around, since))
    newest = MemoryMutation.objects.filter(project__in=around).aggregate(most=Max("pk"))["most"]
    return {
        "workspace": workspace,
        "memory_epoch": epochs.get(project.pk, 0),
        "mutations": mutations,
        "mutation_head": newest or 0,
        "memories": tuple(_memories(project.owner_id, around, mutations)),
    }


def _stored_list(value: Any) -> str | None:
    return None if value is None else dumps(value)


def _older_rows(owner_id: int, around: dict[int, str]) -> dict[int, str]:
    """Rows stored under an alias of these projects → the identity that counts for them now."""
    targets = dict(
        IdentityAlias.objects.filter(owner=owner_id, project__in=around).values_list("identity", "project_id")
    )
    if not targets:
        return {}
    older = Project.objects.filter(owner=owner_id, identity__in=targets).values_list("pk", "identity")
    return {pk: around[targets[identity]] for pk, identity in older if pk not in around}


def _mutations(around: dict[int, str], since: int) -> Iterator[model.MutationRow]:
    rows = MemoryMutation.objects.filter(project__in=around, pk__gt=since).order_by("pk")
    for row in rows:
        yield model.MutationRow(
            id=row.pk,
            type=row.type,
            target_id=row.target_id,
            project=around[row.project_id],
            superseded_by=row.superseded_by,
            category=row.category or None,
            new_content=row.new_content,
        )


_COLUMNS = (
    "pk", "category", "content", "project_id", "project__identity", "status", "importance", "last_seen_at",
    "verified_at", "expires_at", "shareable", "scope", "superseded_by",
)  # fmt: skip


def _memories(
    owner_id: int, around: dict[int, str], mutations: tuple[model.MutationRow, ...]
) -> list[model.Memory]:
    """Every live row of these projects, and whatever the changes or a superseded row name.

    A chain may lead through a project that cannot be seen from here; the rows on the way are read as well.
    """
    live = Memory.objects.filter(project__in=around, status__in=Memory.LIVE)
    found = {values[0]: _memory(values, around) for values in live.values_list(*_COLUMNS)}
    named = {row.target_id for row in mutations} | {row.superseded_by for row in mutations}
    named |= {memory.superseded_by for memory in found.values()}
    for _ in range(MOST_HOPS + 1):
        wanted = {number for number in named if number is not None} - found.keys()
        if not wanted:
            break
        rows = Memory.objects.filter(project__owner=owner_id, pk__in=wanted)
        hop = {values[0]: _memory(values, around) for values in rows.values_list(*_COLUMNS)}
        found.update(hop)
        named = {memory.superseded_by for memory in hop.values()}
    return [found[number] for number in sorted(found)]


def _memory(values: tuple[Any, ...], around: dict[int, str]) -> model.Memory:
    (
        pk, category, content, project_id, identity, status, importance, seen, verified, expires, shareable,
        scope, superseded_by,
    ) = values  # fmt: skip
    return model.Memory(
        id=pk,
        category=category,
        content=content,
        project=around.get(project_id, identity),
        status=status,
        importance=importance,
        last_seen_ms=_ms(seen),
        verified_ms=_ms(verified),
        expires_ms=_ms(expires),
        shareable=shareable,
        scope=scope,
        superseded_by=superseded_by,
    )


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else to_ms(moment)
