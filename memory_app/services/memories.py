"""Writing memories (memory-search.md sections 1.2 to 1.6 and 3; dashboard-cli.md section 2.3).

Every function is one transaction that takes the owner's turn.  What a change tells running sessions is
decided by the tables of :mod:`memory_app.services.effects`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet

from memory_app.models import Memory, MemoryMutation, Project
from memory_app.models.memory import CATEGORIES, normal_importance, normalized_hash
from memory_app.models.mutation import VISIBILITY_CATEGORY
from memory_app.services.effects import SOURCES, Actor, Difference, Edit, Effect, effect
from memory_app.services.projects import bump_epochs, family_ids, present, reached, writing
from memory_app.services.refusals import Code, MemoryRefused, storable

Status = Memory.Status
Type = MemoryMutation.Type

LONGEST_CONTENT = 64 * 1024
"""Characters; a line of the rendered block is capped there."""

MOST_IDS = 1_000


@dataclass(frozen=True, slots=True)
class Reach:
    """Which rows a caller may touch: all of an owner, or only those owned by one project (section 2).

    A row outside is not found, whether it exists or not.
    """

    owner_id: int
    project: Project | None = None

    @classmethod
    def of(cls, project: Project) -> Reach:
        return cls(project.owner_id, project)

    def rows(self) -> QuerySet[Memory]:
        rows = Memory.objects.filter(project__owner=self.owner_id)
        return rows if self.project is None else rows.filter(project__in=family_ids(self.project))

    def locked(self, ids: Iterable[int]) -> list[Memory]:
        """The rows, locked, in first-seen order, each once.  Raises ``bad_ids`` and ``not_found``."""
        wanted = list(dict.fromkeys(ids))
        if not 0 < len(wanted) <= MOST_IDS:
            raise MemoryRefused(Code.BAD_IDS, f"needs 1 to {MOST_IDS} ids", field="ids")
        found = {row.pk: row for row in self.rows().select_for_update(of=("self",)).filter(pk__in=wanted)}
        missing = tuple(number for number in wanted if number not in found)
        if missing:
            named = ", ".join(map(str, missing))
            raise MemoryRefused(Code.NOT_FOUND, f"no memory {named}", field="ids", ids=missing)
        return [found[number] for number in wanted]


@dataclass(frozen=True, slots=True)
class Added:
    """``created`` False: the text was there already, and was seen once more."""

    memory: Memory
    created: bool


def checked_content(content: str) -> str:
    """The trimmed text.  Raises ``missing_content`` or ``bad_content``."""
    text = storable(content.strip(), "content", LONGEST_CONTENT)
    if not text:
        raise MemoryRefused(Code.MISSING_CONTENT, "content is required", field="content")
    return text


def checked_category(category: str) -> str:
    """One of the five.  Raises ``missing_category`` or ``unknown_category``."""
    if not category:
        raise MemoryRefused(Code.MISSING_CATEGORY, "category is required", field="category")
    if category not in CATEGORIES:
        raise MemoryRefused(
            Code.UNKNOWN_CATEGORY, f"must be one of {', '.join(CATEGORIES)}", field="category"
        )
    return category


def add(
    project: Project,
    category: str,
    content: str,
    *,
    actor: Actor,
    now: datetime,
    importance: float | None = None,
    source_session: str = "",
    source_message: str = "",
) -> Added:
    """Write a memory, or see it once more when the project has that text in that category (section 1.2).

    Raises MemoryRefused for blank or unstorable text and for a category that is not one of the five.
    """
    text, category = checked_content(content), checked_category(category)
    with writing(project.owner_id):
        target = present(project)
        found = (
            Memory.objects.filter(
                project__in=family_ids(target), category=category, normalized_hash=normalized_hash(text)
            )
            .order_by("pk")
            .first()
        )
        if found is not None:
            Memory.objects.filter(pk=found.pk).update(seen_count=F("seen_count") + 1, last_seen_at=now)
            found.refresh_from_db()
            return Added(found, created=False)
        memory = Memory(
            project=target,
            category=category,
            importance=normal_importance(importance),
            source_type=SOURCES[actor],
            source_session=source_session,
            source_message=source_message,
            first_seen_at=now,
            created_at=now,
            updated_at=now,
            last_seen_at=now,
        )
        memory.set_content(text)
        memory.save()
        return Added(memory, created=True)


def promote(
    project: Project, facts: Iterable[tuple[str, str]], *, now: datetime, source_session: str = ""
) -> list[Added]:
    """The historian's facts, (category, text) each.  What is blank, unstorable or of no known category is
    left out, not refused; a storage error leaves as it is and takes the publication with it (section 1.2).
    """
    added = []
    for category, content in facts:
        try:
            added.append(
                add(project, category, content, actor=Actor.HISTORIAN, now=now, source_session=source_session)
            )
        except MemoryRefused:
            continue
    return added


def update(reach: Reach, memory_id: int, edit: Edit, *, actor: Actor, now: datetime) -> Memory:
    """Change one memory; the row as it is then.

    Raises ``not_found``, ``inactive`` (an agent and an archived row), ``duplicate`` naming the other row,
    and what is wrong with the new values.
    """
    return bulk(reach, [memory_id], edit, actor=actor, now=now).memories[0]


@dataclass(frozen=True, slots=True)
class Bulk:
    """The rows asked for, and the ids of those that really changed."""

    memories: list[Memory]
    changed: list[int]


def bulk(
    reach: Reach,
    ids: Iterable[int],
    edit: Edit,
    *,
    actor: Actor,
    now: datetime,
    only: frozenset[str] | None = None,
    reason: str = "",
) -> Bulk:
    """Apply one edit to many rows: all or none (dashboard-cli 2.3).

    ``only`` limits it to rows of these statuses; the others stay as they are.  ``reason`` is kept with rows
    that become archived.  One mutation per changed row at most, one epoch step per project at most.
    """
    edit = _checked(edit)
    with writing(reach.owner_id):
        memories = reach.locked(ids)
        if actor is Actor.AGENT:
            _refuse_inactive(memories)
        changed: list[int] = []
        folding: set[int] = set()
        for memory in memories:
            if only is not None and memory.status not in only:
                continue
            difference = _difference(memory, edit)
            if not difference.any():
                continue
            _apply(memory, edit, difference, now, reason)
            changed.append(memory.pk)
            told = effect(difference, actor)
            if told is Effect.EPOCH:
                folding.add(memory.project_id)
            else:
                _log(memory, told, difference, now)
        bump_epochs(reached(folding))
        return Bulk(memories, changed)


def archive(reach: Reach, ids: Iterable[int], *, actor: Actor, now: datetime, reason: str = "") -> Bulk:
    """Take rows out of use.  Nothing is archived unless every id may be (section 3)."""
    reason = storable(reason.strip(), "reason", 2_000)
    return bulk(reach, ids, Edit(status=Status.ARCHIVED), actor=actor, now=now, reason=reason)


def restore(reach: Reach, ids: Iterable[int], *, actor: Actor, now: datetime) -> Bulk:
    """Bring archived rows back as active ones."""
    return bulk(
        reach, ids, Edit(status=Status.ACTIVE), actor=actor, now=now, only=frozenset({Status.ARCHIVED})
    )


def pin(reach: Reach, ids: Iterable[int], *, actor: Actor, now: datetime) -> Bulk:
    """Make rows permanent, archived ones too."""
    return bulk(reach, ids, Edit(status=Status.PERMANENT), actor=actor, now=now)


def unpin(reach: Reach, ids: Iterable[int], *, actor: Actor, now: datetime) -> Bulk:
    """Make permanent rows active again."""
    return bulk(
        reach, ids, Edit(status=Status.ACTIVE), actor=actor, now=now, only=frozenset({Status.PERMANENT})
    )


def set_category(reach: Reach, ids: Iterable[int], category: str, *, actor: Actor, now: datetime) -> Bulk:
    """Move rows to one of the five categories."""
    return bulk(reach, ids, Edit(category=category), actor=actor, now=now)


def delete(reach: Reach, ids: Iterable[int], *, now: datetime) -> list[int]:
    """Remove rows for good, their log rows first; returns their ids.  Raises as :func:`bulk` does."""
    with writing(reach.owner_id):
        memories = reach.locked(ids)
        for memory in memories:
            log(memory, Type.DELETE, now)
        Memory.objects.filter(pk__in=[memory.pk for memory in memories]).delete()
    return [memory.pk for memory in memories]


def log(
    memory: Memory,
    type: str,
    now: datetime,
    *,
    superseded_by: int | None = None,
    category: str = "",
    new_content: str | None = None,
) -> MemoryMutation:
    """Append a row about ``memory`` under the project it is stored in.  Call with the owner's turn held."""
    return MemoryMutation.objects.create(
        project_id=memory.project_id,
        type=type,
        target_id=memory.pk,
        superseded_by=superseded_by,
        category=category,
        new_content=new_content,
        queued_at=now,
    )


def save_unique(memory: Memory) -> None:
    """Save a row whose category or text changed.  Raises ``duplicate`` naming the row it would repeat.

    Looked for in the stored project and the target category, in this transaction; what gets in between by
    another way is found when the database refuses (section 3).
    """
    other = _twin(memory)
    if other is None:
        try:
            with transaction.atomic():
                memory.save()
            return
        except IntegrityError:
            other = _twin(memory)
            if other is None:
                raise
    raise MemoryRefused(
        Code.DUPLICATE, f"memory {other} has that text in {memory.category}", field="content", other_id=other
    )


def _twin(memory: Memory) -> int | None:
    return (
        Memory.objects.filter(
            project=memory.project_id, category=memory.category, normalized_hash=memory.normalized_hash
        )
        .exclude(pk=memory.pk)
        .values_list("pk", flat=True)
        .first()
    )


def _checked(edit: Edit) -> Edit:
    if edit.status is not None and edit.status not in Status.values:
        raise MemoryRefused(Code.BAD_VALUE, f"must be one of {', '.join(Status.values)}", field="status")
    if edit.scope is not None and edit.scope not in Memory.Scope.values:
        raise MemoryRefused(Code.BAD_VALUE, f"must be one of {', '.join(Memory.Scope.values)}", field="scope")
    return Edit(
        content=None if edit.content is None else checked_content(edit.content),
        category=edit.category,
        status=edit.status,
        importance=None if edit.importance is None else normal_importance(edit.importance),
        shareable=edit.shareable,
        scope=edit.scope,
    )


def _refuse_inactive(memories: list[Memory]) -> None:
    inactive = tuple(memory.pk for memory in memories if not memory.is_live())
    if inactive:
        named = ", ".join(map(str, inactive))
        raise MemoryRefused(Code.INACTIVE, f"not active: {named}", field="ids", ids=inactive)


def _difference(memory: Memory, edit: Edit) -> Difference:
    status = memory.status if edit.status is None else edit.status
    reworded = edit.content is not None and edit.content != memory.content
    shareable = False if reworded else memory.shareable if edit.shareable is None else edit.shareable
    recategorised = edit.category is not None and edit.category != memory.category
    if recategorised:
        assert edit.category is not None
        checked_category(edit.category)
    return Difference(
        archived=status == Status.ARCHIVED and memory.is_live(),
        revived=status != Status.ARCHIVED and not memory.is_live(),
        repinned=status != memory.status and status != Status.ARCHIVED and memory.is_live(),
        recategorised=recategorised,
        reworded=reworded,
        reshared=shareable != memory.shareable or (edit.scope is not None and edit.scope != memory.scope),
        rescored=edit.importance is not None and edit.importance != memory.importance,
    )


def _apply(memory: Memory, edit: Edit, difference: Difference, now: datetime, reason: str) -> None:
    if edit.scope is not None:
        memory.scope = edit.scope
    if edit.shareable is not None:
        memory.shareable = edit.shareable
    if edit.importance is not None:
        memory.importance = edit.importance
    if edit.status is not None:
        memory.status = edit.status
    if difference.reworded:
        assert edit.content is not None
        memory.set_content(edit.content)
        memory.forget_judgements()
    if difference.recategorised:
        assert edit.category is not None
        memory.category = edit.category
    metadata = dict(memory.metadata) if isinstance(memory.metadata, dict) else {}
    if difference.archived and reason:
        memory.metadata = {**metadata, "archive_reason": reason}
    if difference.revived:
        metadata.pop("archive_reason", None)
        memory.metadata = metadata
        memory.superseded_by = None
    memory.updated_at = now
    if difference.reworded or difference.recategorised:
        save_unique(memory)
    else:
        memory.save()


def _log(memory: Memory, told: Effect, difference: Difference, now: datetime) -> None:
    if told is Effect.ARCHIVE:
        log(memory, Type.ARCHIVE, now)
    elif told is Effect.UPDATE:
        category = memory.category if difference.recategorised else ""
        log(memory, Type.UPDATE, now, category=category, new_content=memory.content)
    elif told is Effect.VISIBILITY:
        log(memory, Type.UPDATE, now, category=VISIBILITY_CATEGORY)
