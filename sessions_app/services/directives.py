"""What the host is asked to do on its own side; so far, to set its compaction marker (history-render
section 7, "Compaction marker"; hosts section 10.2).

A host that keeps the history itself loads it again from its marker on.  The marker may therefore not come
before the summary that stands for what it hides: publication only notes where it is to go, and a pass that
serves that summary, and whose cut took the messages away, turns the note into a directive.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from magiccontext.engine.head.model import Boundary
from magiccontext.engine.state import CUT, Changes, Msg, SessionState
from magiccontext.engine.transcript import Kind, Role
from magiccontext.engine.wire.base import Codec
from sessions_app import models
from sessions_app.services.calls import TransformCall
from sessions_app.services.sessions import SessionKey

MARKER_TEXT = "[Compacted by magic-context — session history is managed by the plugin]"

CAPABILITY = "compaction_marker"

Status = models.Directive.Status
Kinds = models.Directive.Kind


class Drained(StrEnum):
    """What became of the note.  Any of these but ``KEPT`` clears it."""

    APPLIED = "applied"
    ALREADY_CURRENT = "already-current"
    STALE = "stale-skip"
    KEPT = "kept"


def takes_markers(call: TransformCall) -> bool:
    """Whether this host has a marker to set; others are never asked to."""
    return bool(call.capabilities.get(CAPABILITY))


def drain(
    session: models.Session,
    before: SessionState,
    changes: Changes,
    call: TransformCall,
    codec: Codec,
    now: datetime,
) -> Drained | None:
    """Turn the note of a publication into a directive, where this pass consumed that publication.

    ``before`` is the snapshot ``changes`` were computed from.  Call inside the pass transaction: the session
    is locked, so no newer note can come between.  None when there is nothing to decide.
    """
    if not changes.published_taken or not takes_markers(call):
        return None
    row = models.HeadState.objects.filter(session=session).exclude(pending_marker=None).first()
    if row is None:
        return None
    path = _path(before, changes)
    pair = changes.head or before.head
    boundary = pair.boundary if pair is not None else None
    outcome = _drained(session, row.pending_marker, path, boundary, codec, now)
    if outcome is not Drained.KEPT:
        row.pending_marker = None
        row.save(update_fields=["pending_marker"])
    return outcome


def _drained(
    session: models.Session,
    note: dict[str, Any],
    path: Sequence[Msg],
    boundary: Boundary | None,
    codec: Codec,
    now: datetime,
) -> Drained:
    ends = models.Compartment.objects.filter(session=session, end_mid=note["mid"], end=note["ordinal"])
    if not ends.exists():
        return Drained.STALE
    if note["ordinal"] > _cut_through(path, boundary):
        return Drained.KEPT
    current = _current(session)
    directive_id = marker_id(session, note["mid"])
    if current is not None and current.directive_id == directive_id:
        return Drained.ALREADY_CURRENT
    target = _target(path, note["mid"], codec)
    if target is None or (current is not None and current.body["ordinal"] > note["ordinal"]):
        return Drained.STALE
    _supersede(session, now)
    models.Directive.objects.update_or_create(
        session=session,
        directive_id=directive_id,
        defaults={
            "kind": Kinds.COMPACTION_MARKER,
            "status": Status.OPEN,
            "created": now,
            "settled": None,
            "body": {
                "target_mid": target.mid,
                "target_ordinal": target.ordinal,
                "end_mid": note["mid"],
                "ordinal": note["ordinal"],
                "text": MARKER_TEXT,
            },
        },
    )
    return Drained.APPLIED


def marker_id(session: models.Session, end_mid: str) -> str:
    """The same for the same session and end, so that attempts repeated anywhere converge."""
    named = f"{session.harness}\0{session.sid}\0{end_mid}"
    return f"marker-{hashlib.sha256(named.encode()).hexdigest()[:24]}"


def _path(before: SessionState, changes: Changes) -> list[Msg]:
    """The array as this pass leaves it, in its new forms."""
    path = changes.arrival.path
    if path is None:
        path = [*before.path, *changes.arrival.new]
    forms = {change.mid: change.form for change in changes.forms}
    return [message if message.mid not in forms else _formed(message, forms[message.mid]) for message in path]


def _formed(message: Msg, form: Any) -> Msg:
    return Msg(
        message.mid, message.lineage, message.ordinal, message.role, message.digest, message.raw,
        message.parent, form=form,
    )  # fmt: skip


def _cut_through(path: Sequence[Msg], boundary: Boundary | None) -> int:
    """The last ordinal that the served summaries stand for and that really left; 0 when nothing did.

    The boundary's own message stays when it is covered in part only.
    """
    gone = max((message.ordinal for message in path if message.form == CUT), default=0)
    if boundary is None or boundary.end_block is None:
        return gone
    at = next((index for index, message in enumerate(path) if message.mid == boundary.mid), None)
    if at is None or (at > 0 and path[at - 1].form != CUT):
        return gone
    return boundary.ordinal


def _target(path: Sequence[Msg], end_mid: str, codec: Codec) -> Msg | None:
    """The nearest prompt of a person at or before the end; None when there is none."""
    at = next((index for index, message in enumerate(path) if message.mid == end_mid), -1)
    for message in reversed(path[: at + 1]):
        if message.role is Role.USER and message.raw and codec.parse(message.raw).has(Kind.TEXT, Kind.MEDIA):
            return message
    return None


def _current(session: models.Session) -> models.Directive | None:
    """The marker the host has, or is about to have."""
    rows = models.Directive.objects.filter(session=session, kind=Kinds.COMPACTION_MARKER)
    return rows.exclude(status=Status.SUPERSEDED).order_by("-created", "-pk").first()


def _supersede(session: models.Session, now: datetime) -> None:
    models.Directive.objects.filter(session=session, kind=Kinds.COMPACTION_MARKER).exclude(
        status=Status.SUPERSEDED
    ).update(status=Status.SUPERSEDED, settled=now)


def offered(key: SessionKey, call: TransformCall) -> list[dict[str, Any]]:
    """The open directives of a session, oldest first, for a host that can carry them out.  One query, none
    for other hosts."""
    if not takes_markers(call):
        return []
    rows = models.Directive.objects.filter(
        session__owner=key.owner,
        session__harness=key.harness,
        session__sid=key.sid,
        session__cleanup_pending=False,
        status=Status.OPEN,
    )
    return [{"directive_id": row.directive_id, "kind": row.kind, **row.body} for row in rows.order_by("pk")]


def done(session: models.Session, directive_id: str, now: datetime) -> str:
    """The host carried a directive out.  Returns why nothing was to be done, "" when it was open."""
    row = models.Directive.objects.filter(session=session, directive_id=directive_id).first()
    if row is None:
        return "unknown directive"
    if row.status != Status.OPEN:
        return "superseded by a newer one" if row.status == Status.SUPERSEDED else "already done"
    row.status, row.settled = Status.DONE, now
    row.save(update_fields=["status", "settled"])
    return ""


def forget_markers(session: models.Session, now: datetime) -> None:
    """The host compacted by itself: neither our marker nor the note of one is true any more; the next
    publication sets a new one (hosts section 3)."""
    models.HeadState.objects.filter(session=session).update(pending_marker=None)
    _supersede(session, now)
