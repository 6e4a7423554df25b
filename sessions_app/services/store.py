"""A session's rows and the engine's snapshot of them: two forms of one thing (design section 5).

``load`` reads the rows, ``save`` writes what a pass decided.  Both know every column; nothing else does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import Max

from magiccontext.engine.state import (
    HEAD_MIDS,
    Changes,
    DropMode,
    FormChange,
    Link,
    Msg,
    PendingDrop,
    SessionState,
    Tag,
    TagStatus,
    TagType,
    Why,
)
from magiccontext.engine.transcript import Role
from magiccontext.engine.view import Edit, Form, Op
from magiccontext.engine.wire.spans import decode_string, encode_string
from sessions_app import models
from sessions_app.services.clock import from_ms, to_ms

BATCH = 500


def load(session: models.Session) -> SessionState:
    """The snapshot of ``session``.  Five queries, however long it is."""
    vars = session.vars()
    forms = _load_forms(session, None)
    rows = list(
        models.RawMessage.objects.filter(session=session)
        .order_by("lineage", "ordinal", "revision")
        .values_list(
            "lineage", "ordinal", "mid", "revision", "role", "digest", "parent_mid", "raw", "tokens",
            "links", "in_path", "raw_sent", "removed",
        )
    )  # fmt: skip
    shares = {
        number: (parent, through)
        for number, parent, through in models.Lineage.objects.filter(session=session).values_list(
            "number", "parent", "through_ordinal"
        )
    }
    places: dict[tuple[int, int], Msg] = {}
    in_path: set[str] = set()
    messages: dict[str, Msg] = {}
    for row in rows:
        lineage, ordinal, mid, revision, role, digest, parent, raw, tokens, links, on_path, raw_sent, gone = (
            row
        )
        message = Msg(
            mid, lineage, ordinal, Role(role), bytes(digest), bytes(raw), parent, revision, tokens,
            tuple(Link(bool(k[0]), k[1], k[2], k[3]) for k in links), forms.get(mid), raw_sent, gone,
        )  # fmt: skip
        places[(lineage, ordinal)] = message
        messages[mid] = message
        if on_path:
            in_path.add(mid)
        else:
            in_path.discard(mid)
    line = _line(places, shares, vars.lineage)
    path = [message.mid for message in line if message.mid in in_path]
    for message in messages.values():
        if message.form is not None and message.form.body == b"" and not message.form.edits:
            message.form = Form((), message.raw)
    ids = [message.mid for message in line]
    head = models.HeadState.objects.filter(session=session).first()
    return SessionState(
        vars,
        messages.values(),
        path,
        None if ids == path else ids,
        (_tag(values) for values in models.Tag.objects.filter(session=session).order_by("number").values()),
        (
            PendingDrop(number, to_ms(queued_at))
            for number, queued_at in models.PendingDrop.objects.filter(session=session).values_list(
                "number", "queued_at"
            )
        ),
        head=None if head is None else head.pair(),
        head_bodies=tuple(body for mid in HEAD_MIDS if mid in forms and (body := forms[mid].body)),
        published=head is not None and head.published_pending,
        history=_history(session),
    )


def _history(session: models.Session) -> tuple[int, int]:
    """(newest compartment sequence, newest structural change): what a head's source depends on."""
    newest = models.Compartment.objects.filter(session=session).aggregate(most=Max("sequence"))["most"]
    structural = models.M0Mutation.objects.filter(session=session).aggregate(most=Max("pk"))["most"]
    return (-1 if newest is None else newest, structural or 0)


def _line(
    places: dict[tuple[int, int], Msg], shares: dict[int, tuple[int | None, int]], lineage: int
) -> list[Msg]:
    """The messages of a lineage in ordinal order, shared ones from its parents included."""
    by_ordinal: dict[int, Msg] = {}
    limit: int | None = None
    current: int | None = lineage
    while current is not None:
        for (number, ordinal), message in places.items():
            if number == current and (limit is None or ordinal <= limit):
                by_ordinal.setdefault(ordinal, message)
        parent, through = shares.get(current, (None, 0))
        limit = through if limit is None else min(limit, through)
        current = parent
    return [by_ordinal[ordinal] for ordinal in sorted(by_ordinal)]


def _load_forms(session: models.Session, version: int | None) -> dict[str, Form]:
    """Forms by message that were valid at view ``version`` (None: now).  Raw ones have an empty body."""
    rows = models.ServedForm.objects.filter(session=session)
    if version is None:
        rows = rows.filter(until_version=None)
    else:
        rows = rows.filter(since_version__lte=version).exclude(until_version__lte=version)
    return {
        mid: Form(_edits(edits), b"" if is_raw else None if body is None else bytes(body))
        for mid, edits, is_raw, body in rows.values_list("mid", "edits", "is_raw", "body")
    }


def forms_at(session: models.Session, version: int) -> dict[str, Form]:
    """Forms by message as view ``version`` served them; a form that serves raw bytes has ``body`` b""."""
    return _load_forms(session, version)


def _edits(rows: Iterable[list[Any]]) -> tuple[Edit, ...]:
    return tuple(
        Edit(Op(op), part, decode_string(text.encode()) if text else "", bool(drop))
        for op, part, text, drop in rows
    )


def edit_rows(edits: Iterable[Edit]) -> list[list[Any]]:
    """Edits as JSON: [op, part, text as a JSON literal, drop attachments].

    The literal keeps what PostgreSQL cannot store as text: NUL and lone surrogates stay escaped.
    """
    return [
        [
            str(edit.op),
            edit.part,
            json.dumps(edit.text) if edit.text else "",
            1 if edit.drop_attachments else 0,
        ]
        for edit in edits
    ]


def _tag(row: dict[str, Any]) -> Tag:
    source = row["source"]
    return Tag(
        number=row["number"],
        type=TagType(row["type"]),
        mid=row["mid"],
        part=row["part"],
        rank=row["rank"],
        call_id=row["call_id"],
        result_mid=row["result_mid"],
        result_part=row["result_part"],
        tool_name=row["tool_name"],
        status=TagStatus(row["status"]),
        drop_mode=DropMode(row["drop_mode"]),
        output_bytes=row["output_bytes"],
        input_bytes=row["input_bytes"],
        reasoning_bytes=row["reasoning_bytes"],
        token_count=row["token_count"],
        input_token_count=row["input_token_count"],
        reasoning_token_count=row["reasoning_token_count"],
        input_string_bytes=row["input_string_bytes"],
        attachments=row["attachments"],
        inert=row["inert"],
        source=None if source is None else decode_string(bytes(source)),
    )


def tag_row(session: models.Session, tag: Tag) -> models.Tag:
    return models.Tag(
        session=session,
        number=tag.number,
        type=tag.type,
        mid=tag.mid,
        part=tag.part,
        rank=tag.rank,
        call_id=tag.call_id,
        result_mid=tag.result_mid,
        result_part=tag.result_part,
        tool_name=tag.tool_name[:255],
        status=tag.status,
        drop_mode=tag.drop_mode,
        output_bytes=tag.output_bytes,
        input_bytes=tag.input_bytes,
        reasoning_bytes=tag.reasoning_bytes,
        token_count=tag.token_count,
        input_token_count=tag.input_token_count,
        reasoning_token_count=tag.reasoning_token_count,
        input_string_bytes=tag.input_string_bytes,
        attachments=tag.attachments,
        inert=tag.inert,
        source=None if tag.source is None else encode_string(tag.source),
    )


def save(session: models.Session, before: SessionState, changes: Changes, now: datetime) -> None:
    """Write what a pass decided, but for the session's own row.  Call inside the pass transaction.

    ``before`` is the snapshot the pass was computed from, not yet advanced.
    """
    _save_messages(session, before, changes, now)
    _save_forms(session, changes)
    models.Tag.objects.bulk_create((tag_row(session, tag) for tag in changes.new_tags), batch_size=BATCH)
    _save_tag_changes(session, before, changes)
    for start in range(0, len(changes.ops_removed), BATCH):
        models.PendingDrop.objects.filter(
            session=session, number__in=changes.ops_removed[start : start + BATCH]
        ).delete()


def _save_messages(session: models.Session, before: SessionState, changes: Changes, now: datetime) -> None:
    arrival = changes.arrival
    if before.vars.version == 0 and not models.Lineage.objects.filter(session=session, number=1).exists():
        models.Lineage.objects.create(session=session, number=1)
    if arrival.new_lineage is not None:
        number, parent, through = arrival.new_lineage
        models.Lineage.objects.create(session=session, number=number, parent=parent, through_ordinal=through)
    for revised in arrival.revised:
        _keep_served_bytes(session, before.messages[revised.mid])
    told = {change.mid: change.raw_sent for change in changes.forms}
    rows = [*arrival.new, *arrival.revised, *arrival.moved]
    if rows:
        models.RawMessage.objects.bulk_create(
            (
                models.RawMessage(
                    session=session,
                    lineage=m.lineage,
                    ordinal=m.ordinal,
                    mid=m.mid,
                    revision=m.revision,
                    role=m.role,
                    digest=m.digest,
                    parent_mid=m.parent,
                    raw=m.raw,
                    tokens=m.tokens,
                    links=[[1 if k.is_call else 0, k.call_id, k.part, k.owner] for k in m.links],
                    in_path=True,
                    raw_sent=told.get(m.mid, m.raw_sent),
                    removed=m.removed,
                    created=from_ms(m.created_ms) if m.created_ms else now,
                )
                for m in rows
            ),
            batch_size=BATCH,
        )
    if arrival.path is not None:
        _save_path(session, before, arrival.path, {m.mid for m in rows})
    was_raw = [change.mid for change in changes.forms if not change.raw_sent and change.why is not Why.FIRST]
    is_raw = [change.mid for change in changes.forms if change.raw_sent and change.why is not Why.FIRST]
    for mids, value in ((was_raw, False), (is_raw, True)):
        for start in range(0, len(mids), BATCH):
            models.RawMessage.objects.filter(session=session, mid__in=mids[start : start + BATCH]).exclude(
                raw_sent=value
            ).update(raw_sent=value)


def _keep_served_bytes(session: models.Session, old: Msg) -> None:
    """A message that is served raw gets new content: what was served stays what it was until a rebuild."""
    if old.form is not None and not old.form.edits:
        models.ServedForm.objects.filter(
            session=session, mid=old.mid, until_version=None, is_raw=True
        ).update(is_raw=False, body=old.form.body)


def _save_path(session: models.Session, before: SessionState, path: list[Msg], written: set[str]) -> None:
    """Mark which messages the array of this pass holds.  Only where that changed."""
    now_in = {m.mid for m in path}
    were_in = {m.mid for m in before.path}
    for mids, value in ((sorted(were_in - now_in), False), (sorted(now_in - were_in - written), True)):
        for start in range(0, len(mids), BATCH):
            models.RawMessage.objects.filter(session=session, mid__in=mids[start : start + BATCH]).update(
                in_path=value
            )


def _save_forms(session: models.Session, changes: Changes) -> None:
    version = changes.vars.view_version
    replaced = [change.mid for change in changes.forms if change.why is not Why.FIRST]
    for start in range(0, len(replaced), BATCH):
        models.ServedForm.objects.filter(
            session=session, mid__in=replaced[start : start + BATCH], until_version=None
        ).update(until_version=version)
    models.ServedForm.objects.bulk_create(
        (_form_row(session, version, change) for change in changes.forms), batch_size=BATCH
    )


def _form_row(session: models.Session, version: int, change: FormChange) -> models.ServedForm:
    raw = not change.form.edits and change.mid not in HEAD_MIDS
    return models.ServedForm(
        session=session,
        mid=change.mid,
        since_version=version,
        edits=edit_rows(change.form.edits),
        is_raw=raw,
        body=None if raw else change.form.body,
    )


TAG_CHANGES = ("status", "drop_mode", "part", "source", "inert", "mid", "result_mid", "result_part")
"""What may change about a tag."""


def _save_tag_changes(session: models.Session, before: SessionState, changes: Changes) -> None:
    """Write changed tags, those that change alike together: a cut compacts thousands in the same way."""
    alike: dict[tuple[tuple[str, Any], ...], list[int]] = {}
    for tag in sorted(changes.changed_tags, key=lambda tag: tag.number):
        old = before.tags[tag.number]
        change = tuple(
            (name, value) for name in TAG_CHANGES if (value := getattr(tag, name)) != getattr(old, name)
        )
        if change:
            alike.setdefault(change, []).append(tag.number)
    for change, numbers in alike.items():
        columns = dict(change)
        if columns.get("source") is not None:
            columns["source"] = encode_string(columns["source"])
        for start in range(0, len(numbers), BATCH):
            models.Tag.objects.filter(session=session, number__in=numbers[start : start + BATCH]).update(
                **columns
            )
