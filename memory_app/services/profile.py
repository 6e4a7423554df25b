"""The user profile: entries about the person, the same in every project (memory-search.md section 11).

A change raises the profile's version, kept on the owner's global row.  It shows in m[1] and folds nothing
(section 1.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memory_app.models import ProjectState, UserMemory
from memory_app.services.projects import writing
from memory_app.services.refusals import Code, MemoryRefused, storable

LONGEST_ENTRY = 8 * 1024
"""Characters."""

Status = UserMemory.Status


def add(owner_id: int, content: str, *, now: datetime, provenance: Sequence[Any] = ()) -> UserMemory:
    """Promote an entry; behind all others, since it is the newest.  Raises MemoryRefused for its text."""
    text = _checked(content)
    with writing(owner_id) as state:
        entry = UserMemory.objects.create(
            owner_id=owner_id,
            content=text,
            promoted_at=now,
            provenance=list(provenance),
            created_at=now,
            updated_at=now,
        )
        _raise_version(state)
    return entry


def edit(owner_id: int, entry_id: int, content: str, *, now: datetime) -> UserMemory:
    """Change the text of an entry; the same text changes nothing.  Raises ``not_found``."""
    text = _checked(content)
    with writing(owner_id) as state:
        entry = _locked(owner_id, entry_id)
        if entry.content != text:
            entry.content = text
            entry.updated_at = now
            entry.save()
            _raise_version(state)
    return entry


def set_status(owner_id: int, entry_id: int, status: str, *, now: datetime) -> UserMemory:
    """Dismiss an entry or take it back; the same status changes nothing.  Raises ``not_found``."""
    if status not in Status.values:
        raise MemoryRefused(Code.BAD_VALUE, f"must be one of {', '.join(Status.values)}", field="status")
    with writing(owner_id) as state:
        entry = _locked(owner_id, entry_id)
        if entry.status != status:
            entry.status = status
            entry.updated_at = now
            entry.save()
            _raise_version(state)
    return entry


def dismiss(owner_id: int, entry_id: int, *, now: datetime) -> UserMemory:
    """Take an entry out of the profile; it stays stored.  Raises ``not_found``."""
    return set_status(owner_id, entry_id, Status.DISMISSED, now=now)


def delete(owner_id: int, entry_id: int) -> None:
    """Remove an entry for good.  Raises ``not_found``."""
    with writing(owner_id) as state:
        _locked(owner_id, entry_id).delete()
        _raise_version(state)


def _checked(content: str) -> str:
    text = storable(content.strip(), "content", LONGEST_ENTRY)
    if not text:
        raise MemoryRefused(Code.MISSING_CONTENT, "content is required", field="content")
    return text


def _locked(owner_id: int, entry_id: int) -> UserMemory:
    entry = UserMemory.objects.select_for_update().filter(owner_id=owner_id, pk=entry_id).first()
    if entry is None:
        raise MemoryRefused(Code.NOT_FOUND, f"no profile entry {entry_id}", field="id", ids=(entry_id,))
    return entry


def _raise_version(state: ProjectState) -> None:
    state.profile_version += 1
    state.save(update_fields=["profile_version"])
