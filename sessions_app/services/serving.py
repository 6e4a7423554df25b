"""From forms to the array that goes out (design section 4: decorations belong to the request)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from magiccontext.engine.state import CUT, Msg
from magiccontext.engine.view import Edit, Form
from magiccontext.engine.wire.base import Codec


def serve(
    codec: Codec, messages: Sequence[Msg], slices: Sequence[bytes], plain: Sequence[bytes]
) -> list[bytes]:
    """The bytes to send for the messages of a request, removed ones left out.

    ``slices`` are the request's own bytes, ``plain`` the same without decorations (the same object where
    there are none).  A message served raw leaves as the slice that came in; an edited one leaves as its
    stored bytes, with the request's own markers put back where they were.
    """
    out: list[bytes] = []
    for message, raw, bare in zip(messages, slices, plain, strict=True):
        form = message.form
        if form is None:
            out.append(raw)
            continue
        body = form.body
        if body is None:
            continue
        if raw is bare:
            out.append(body)
        else:
            out.append(_decorated(codec, raw, bare, form.edits, body))
    return out


def _decorated(codec: Codec, raw: bytes, bare: bytes, edits: tuple[Edit, ...], body: bytes) -> bytes:
    if not edits:
        return raw if body == bare else body
    decorated = codec.encode(raw, edits)
    # Markers never cost a byte of the message itself: if the splice and the stored bytes differ (the host
    # edited the message since), the stored bytes go out, without the marker.
    return decorated if decorated is not None and codec.undecorate(decorated) == body else body


def serve_plain(messages: Iterable[Msg]) -> list[bytes]:
    """The stored bytes of messages that did not travel with the request."""
    return [body for message in messages if (body := message.body) is not None]


def with_head(codec: Codec, head: Sequence[bytes], served: list[bytes]) -> list[bytes]:
    """``served`` with the head before it; system messages of the host stay first (design section 12)."""
    if not head:
        return served
    first = 0
    while first < len(served) and codec.is_leading_system(codec.parse(served[first])):
        first += 1
    return [*served[:first], *head, *served[first:]]


def with_forms(messages: Iterable[Msg], forms: Mapping[str, Form]) -> list[Msg]:
    """``messages`` as another view served them; messages it does not know are raw."""
    out: list[Msg] = []
    for message in messages:
        form = forms.get(message.mid)
        if form is not None and form.body == b"" and not form.edits:
            form = Form((), message.raw)
        out.append(
            Msg(message.mid, message.lineage, message.ordinal, message.role, message.digest, message.raw,
                message.parent, form=form)
        )  # fmt: skip
    return out


def view_json(
    version: int,
    lineage: int,
    level: str,
    path: Sequence[Msg],
    changed: Sequence[tuple[str, tuple[Edit, ...]]] | None,
    extends: int | None,
    head: Sequence[bytes] = (),
) -> dict[str, Any]:
    """A view as hosts section 10.3 writes it: complete, or with ``extends`` the edits added since.

    ``changed`` lists (identity, edits) of a delta; None takes every edit of ``path``.
    """
    pairs = (
        changed
        if changed is not None
        else [(m.mid, m.form.edits) for m in path if m.form is not None and m.form.edits and m.form != CUT]
    )
    view: dict[str, Any] = {
        "version": version,
        "lineage_id": f"L{lineage}",
        "base": {"ordinal": path[-1].ordinal, "mid": path[-1].mid} if path else None,
        "level": level,
        "head": [{"id": f"m{index}", "message": json.loads(body)} for index, body in enumerate(head)],
        "cut": _cut_json(path),
        "edits": [edit for mid, edits in pairs for edit in edits_json(mid, edits)],
        "inserts": [],
    }
    if extends is not None:
        view["extends"] = extends
    return view


def _cut_json(path: Sequence[Msg]) -> dict[str, Any] | None:
    """Where the messages begin that are still sent, when the head stands for the ones before."""
    if not any(m.form == CUT for m in path[:1]):
        return None
    kept = next((m for m in path if m.form != CUT), None)
    return None if kept is None else {"before_ordinal": kept.ordinal, "before_mid": kept.mid}


def edits_json(mid: str, edits: Iterable[Edit]) -> list[dict[str, Any]]:
    """Edits of one message: ``{mid, part?, op, text?, attachments?}``."""
    out: list[dict[str, Any]] = []
    for edit in edits:
        item: dict[str, Any] = {"mid": mid, "op": str(edit.op)}
        if edit.part is not None:
            item["part"] = f"{mid}#{edit.part}"
        if edit.text:
            item["text"] = edit.text
        if edit.drop_attachments:
            item["attachments"] = "remove"
        out.append(item)
    return out
