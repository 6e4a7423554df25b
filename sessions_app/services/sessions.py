"""Finding and making sessions (hosts section 1)."""

from __future__ import annotations

import hashlib
import os.path
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Subquery

from memory_app.models import Project, ProjectState
from sessions_app import models
from sessions_app.models.session import HARNESS_ALIASES, HARNESSES

# An address whose percent-escapes are no UTF-8 is decoded with U+FFFD: different ids would become one.
_SID = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff\ufffd]{1,255}")


class BadRequest(ValueError):
    """A member of the request does not fit.  ``field`` is its path."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field}: {detail}")
        self.field = field
        self.detail = detail


@dataclass(frozen=True, slots=True)
class SessionKey:
    """(owner, harness, host's session id): the whole identity of a session."""

    owner: Any
    harness: str
    sid: str

    @classmethod
    def of(cls, owner: Any, harness: str, sid: str) -> SessionKey:
        """Raises BadRequest for an unknown harness or an id that cannot be stored."""
        harness = HARNESS_ALIASES.get(harness, harness)
        if harness not in HARNESSES:
            raise BadRequest("harness", f"unknown harness; known are {', '.join(HARNESSES)}")
        if not _SID.fullmatch(sid):
            raise BadRequest(
                "session", "a session id is UTF-8 of 1 to 255 characters, no control characters and no U+FFFD"
            )
        return cls(owner, harness, sid)

    @property
    def turn(self) -> tuple[int, str, str]:
        """What :meth:`StateCache.turn` takes."""
        return self.owner.pk, self.harness, self.sid


def find(key: SessionKey) -> models.Session | None:
    """The stored session, without the ones that are being deleted.  One query.

    It brings ``knowledge_revision`` along, so that a pass need not ask whether its head's source moved.
    """
    revision = ProjectState.objects.filter(owner=key.owner, project=None).values("revision")[:1]
    return (
        models.Session.objects.filter(
            owner=key.owner, harness=key.harness, sid=key.sid, cleanup_pending=False
        )
        .select_related("project")
        .annotate(knowledge_revision=Subquery(revision))
        .first()
    )


def create(key: SessionKey, **fields: Any) -> models.Session:
    """A new session; when another request made it meanwhile, that one.

    A deleted session whose rows are still waiting to go is cleared first.
    """
    try:
        with transaction.atomic():
            models.Session.objects.filter(
                owner=key.owner, harness=key.harness, sid=key.sid, cleanup_pending=True
            ).delete()
            return models.Session.objects.create(owner=key.owner, harness=key.harness, sid=key.sid, **fields)
    except IntegrityError:
        found = find(key)
        if found is None:
            raise
        return found


def project_identity(member: dict[str, Any] | None) -> str:
    """The identity a request names: as given, else that of its directory (memory-search section 6)."""
    identity = str((member or {}).get("identity") or "")
    directory = str((member or {}).get("directory") or "")
    if identity or not directory:
        return identity
    digest = hashlib.md5(os.path.normpath(directory).encode(), usedforsecurity=False).hexdigest()
    return f"dir:{digest[:12]}"


def known_project(owner: Any, identity: str) -> Project | None:
    """The stored project of this identity, without making one."""
    return Project.objects.filter(owner=owner, identity=identity).first() if identity else None


def project_for(owner: Any, member: dict[str, Any] | None, now: datetime) -> Project | None:
    """The project a request names, made on first sight."""
    identity = project_identity(member)
    if not identity:
        return None
    directory = str((member or {}).get("directory") or "")
    project, _ = Project.objects.get_or_create(
        owner=owner, identity=identity, defaults={"directory": directory, "last_seen": now}
    )
    return project
