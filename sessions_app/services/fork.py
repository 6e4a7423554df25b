"""A fork: another session that begins as a copy of this one's front (reclaim-core section 1.5).

Messages keep their identities, tags their numbers and statuses, and every message the form it was served
in, so that the copy's first request is the parent's to the byte and the provider's cache serves both.  What
the parent went through (passes, usage, costs) stays the parent's.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from django.db import transaction

from magiccontext.engine.draft import Draft, Route
from magiccontext.engine.measure import totals
from magiccontext.engine.state import (
    CUT,
    HEAD_MIDS,
    Arrival,
    Changes,
    FormChange,
    Msg,
    SessionState,
    Tag,
    Vars,
    Why,
)
from magiccontext.engine.view import Form
from magiccontext.engine.wire import codec_for
from sessions_app import models
from sessions_app.services import heading, store
from sessions_app.services.cache import states
from sessions_app.services.clock import from_ms, to_ms
from sessions_app.services.lifecycle import clamped
from sessions_app.services.sessions import BadRequest, SessionKey, create, find
from sessions_app.services.writing import wait_for_locks

NOT_EMPTY = "destination-not-empty: this session has tags or summaries of its own; fork into a new one"

COPIED_COLUMNS = (
    "role", "project", "model", "context_limit", "usable_limit", "threshold", "capabilities",
    "host_compacted",
)  # fmt: skip


def fork(key: SessionKey, parent_sid: str, through: int | str | None, now: datetime) -> models.Session:
    """Fill the session ``key`` with the parent's messages up to ``through``, and return it.

    ``through`` is the ordinal or the identity of the last message to take, None for all.  One transaction;
    hold the turn of ``key``.  Raises BadRequest, naming the member: an unknown parent or message, another
    format, or a session that has tags already.
    """
    with transaction.atomic():
        wait_for_locks()
        parent = _parent(key, parent_sid)
        target = _target(key, parent)
        source = store.load(parent)
        line = _front(source, through)
        copy = _snapshot(source, line, target.vars(), codec_format=parent.format)
        _write(target, parent, copy, now)
    states.forget(target.pk)
    return target


def _parent(key: SessionKey, sid: str) -> models.Session:
    if sid == key.sid:
        raise BadRequest("parent", "a session cannot be forked into itself")
    found = (
        models.Session.objects.select_for_update()
        .filter(owner=key.owner, harness=key.harness, sid=sid, cleanup_pending=False)
        .first()
    )
    if found is None:
        raise BadRequest("parent", "no such session")
    return found


def _target(key: SessionKey, parent: models.Session) -> models.Session:
    """The session to fill, locked: a new one, or one that a request without tags has made already."""
    found = find(key)
    target = (
        create(key, format=parent.format)
        if found is None
        else models.Session.objects.select_for_update().get(pk=found.pk)
    )
    tagged = models.Tag.objects.filter(session=target).exists()
    if tagged or models.Compartment.objects.filter(session=target).exists():
        raise BadRequest("", NOT_EMPTY)
    if target.format != parent.format:
        raise BadRequest("parent", f"speaks {parent.format}; a session keeps its format")
    for rows in (
        models.RawMessage, models.ServedForm, models.Lineage, models.PendingDrop, models.HeadState,
    ):  # fmt: skip
        rows.objects.filter(session=target).delete()
    return target


def _front(source: SessionState, through: int | str | None) -> list[Msg]:
    """The messages of the parent's lineage up to ``through``."""
    if through is None:
        return list(source.line)
    for index, message in enumerate(source.line):
        if through in (message.ordinal, message.mid):
            return source.line[: index + 1]
    raise BadRequest("through", "no message of the parent's present conversation")


def _snapshot(source: SessionState, line: list[Msg], target: Vars, *, codec_format: str) -> SessionState:
    taken = {message.mid for message in line}
    keeps_head = _head_holds(source, taken)
    if not keeps_head:  # what the head stood for is part of the conversation again
        line = [replace(m, form=None) if m.form == CUT else m for m in line]
    tags = [tag for tag in source.tags.values() if _within(tag, taken)]
    highest = max((tag.number for tag in tags), default=0)
    numbers = {tag.number for tag in tags}
    path = [message.mid for message in source.path if message.mid in taken]
    vars = clamped(_inherited(source.vars, path), highest)
    copy = SessionState(
        replace(
            vars,
            version=target.version + 1,
            view_version=target.view_version + 1,
            lineage=1,
            tag_counter=highest,
        ),
        (replace(message, lineage=1) for message in line),
        path,
        [message.mid for message in line],
        tags,
        (drop for drop in source.pending.values() if drop.number in numbers),
        head=source.head if keeps_head else None,
        head_bodies=source.head_bodies if keeps_head else (),
    )
    if not keeps_head:
        copy.vars = replace(copy.vars, head_tokens=0)
    draft = Draft(copy, Arrival(), codec_for(codec_format), Route.of(vars.model), 0)
    wire, raw, served = totals(draft, copy.path, {})
    served += sum(map(len, copy.head_bodies))
    copy.vars = replace(
        copy.vars, wire_tokens=wire + copy.vars.head_tokens, raw_bytes=raw, served_bytes=served
    )
    return copy


def _head_holds(source: SessionState, taken: set[str]) -> bool:
    """Whether the parent's head stands for copied messages only, so that it can be served on."""
    if source.head is None:
        return False
    return source.head.boundary is None or source.head.boundary.mid in taken


def _within(tag: Tag, taken: set[str]) -> bool:
    return tag.mid in taken and (not tag.result_mid or tag.result_mid in taken)


def _inherited(vars: Vars, path: list[str]) -> Vars:
    """The parent's scalars as far as they are about what was copied.

    Its usage still measures the copy when the measured array was copied whole; the passes that it names
    are the parent's in any case.
    """
    vars = replace(
        vars, usage_pass_id=0, last_pass_id=0, last_pass_mid="", last_pass_wire_tokens=0, flush="",
        last_error="",
    )  # fmt: skip
    if vars.usage_mid in path:
        return vars
    return replace(
        vars, usage_input_tokens=0, usage_limit=0, usage_mid="", usage_message_id="", usage_wire_tokens=0,
        emergency_sample=0, in_episode=False, episode=False, held_execute=0, recovery_armed=False,
        recovery_origin="", recovery_no_head=0,
    )  # fmt: skip


def _copy_compartments(target: models.Session, parent: models.Session, copy: SessionState) -> None:
    """The summaries that lie wholly in what was copied, under the same sequences."""
    places = {message.mid: message.ordinal for message in copy.line}
    rows = models.Compartment.objects.filter(session=parent).order_by("sequence")
    for row in rows:
        if places.get(row.start_mid) == row.start and places.get(row.end_mid) == row.end:
            row.pk, row._state.adding = None, True
            row.session, row.lineage = target, 1
            row.save()


def _write(target: models.Session, parent: models.Session, copy: SessionState, now: datetime) -> None:
    created = dict(models.RawMessage.objects.filter(session=parent).values_list("mid", "created"))
    for message in copy.line:
        message.created_ms = to_ms(created[message.mid])
    formed = [(message, message.form) for message in copy.line if message.form is not None]
    forms = [FormChange(m.mid, form, Why.FIRST, raw_sent=m.raw_sent) for m, form in formed]
    head = zip(HEAD_MIDS, copy.head_bodies, strict=False)
    changes = Changes(
        copy.vars,
        Arrival(new=copy.line),
        new_tags=list(copy.tags.values()),
        forms=[*forms, *(FormChange(mid, Form((), body), Why.FIRST) for mid, body in head)],
        head=copy.head,
    )
    store.save(target, SessionState(), changes, now)
    heading.store(target, changes)
    _copy_compartments(target, parent, copy)
    for message, form in formed:
        # Edited by the host since it was served: the served bytes are no longer the message's own.
        if not form.edits and form.body != message.raw:
            models.ServedForm.objects.filter(session=target, mid=message.mid).update(
                is_raw=False, body=form.body
            )
    left_out = [message.mid for message in copy.line if message.mid not in copy.position]
    for start in range(0, len(left_out), store.BATCH):
        models.RawMessage.objects.filter(
            session=target, mid__in=left_out[start : start + store.BATCH]
        ).update(in_path=False)
    models.PendingDrop.objects.bulk_create(
        models.PendingDrop(session=target, number=drop.number, queued_at=from_ms(drop.queued_ms))
        for drop in copy.pending.values()
    )
    for name in COPIED_COLUMNS:
        setattr(target, name, getattr(parent, name))
    target.last_seen = now
    target.store_vars(copy.vars)
    target.save()
