"""Edits laid upon spans: what fits where, and how the changed bytes are put together (hosts section 2.2).

Nothing here knows a wire format.  A codec says where its texts are; these functions change them without
decoding what stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from magiccontext.engine.transcript import Kind, Part
from magiccontext.engine.view import Edit, Op
from magiccontext.engine.wire.spans import Member, Span, encode_string

Patch = tuple[int, int, bytes]
"""(start, end, new bytes) on the bytes being spliced."""

_EDITABLE = frozenset(Kind) - {Kind.OPAQUE, Kind.META}

FITS: dict[Op, frozenset[Kind]] = {
    Op.REMOVE: _EDITABLE,
    Op.REPLACE_TEXT: frozenset({Kind.TEXT, Kind.MEDIA}),
    Op.REPLACE_OUTPUT: frozenset({Kind.TOOL_RESULT}),
    Op.PREFIX: frozenset({Kind.TEXT, Kind.TOOL_RESULT}),
    Op.APPEND: frozenset({Kind.TEXT, Kind.TOOL_RESULT}),
}
"""Which parts an operation can change.  A format may widen REPLACE_TEXT."""

_RANK = {op: rank for rank, op in enumerate(Op)}

Plan = dict[int, list[Edit]]
"""The edits of each changed part, in order of application."""


def arrange(
    edits: Sequence[Edit], parts: Sequence[Part], replaceable: frozenset[Kind] = FITS[Op.REPLACE_TEXT]
) -> Plan | None:
    """Sort edits by part and operation; None when the message is removed.

    ``replaceable``: the kinds REPLACE_TEXT fits in this format.  Raises ValueError for an edit that names
    a part the message does not have, or that does not fit the part.
    """
    known = {part.index: part for part in parts}
    plan: Plan = {}
    removed = False
    for edit in sorted(edits, key=lambda edit: _RANK[edit.op]):
        if edit.op is Op.REMOVE_MESSAGE:
            if edit.part is not None:
                raise ValueError(f"{edit.op} names a part")
            removed = True
            continue
        part = None if edit.part is None else known.get(edit.part)
        if part is None:
            raise ValueError(f"{edit.op} names part {edit.part}, which the message does not have")
        fits = replaceable if edit.op is Op.REPLACE_TEXT else FITS[edit.op]
        planned = plan.setdefault(part.index, [])
        if part.kind not in fits or not _has_place(edit, part, planned):
            raise ValueError(f"{edit.op} does not fit part {part.index}, which is {part.kind}")
        planned.append(edit)
    return None if removed else plan


def _has_place(edit: Edit, part: Part, planned: Sequence[Edit]) -> bool:
    """PREFIX and APPEND on a tool result need an output, its own or one that was just set."""
    if part.kind is not Kind.TOOL_RESULT or edit.op not in (Op.PREFIX, Op.APPEND):
        return True
    return part.has_output or any(before.op is Op.REPLACE_OUTPUT for before in planned)


def removed_parts(plan: Plan) -> set[int]:
    """Parts that go; whatever else the plan says about them has nothing left to act on."""
    return {index for index, edits in plan.items() if edits[0].op is Op.REMOVE}


def edit_literal(literal: bytes, edits: Iterable[Edit]) -> bytes:
    """A JSON string literal with replacement, prefix and suffix applied; the rest keeps its escapes."""
    for edit in edits:
        new = encode_string(edit.text)
        if edit.op is Op.PREFIX:
            literal = new[:-1] + literal[1:]
        elif edit.op is Op.APPEND:
            literal = literal[:-1] + new[1:]
        else:
            literal = new
    return literal


def splice(raw: bytes, patches: Iterable[Patch]) -> bytes:
    """``raw`` with the patches applied; they must not overlap."""
    pieces: list[bytes] = []
    position = 0
    for start, end, new in sorted(patches, key=lambda patch: patch[:2]):
        pieces += (raw[position:start], new)
        position = end
    pieces.append(raw[position:])
    return b"".join(pieces)


def cut(spans: Sequence[Span], dropped: Collection[int]) -> list[Patch]:
    """Patches that take list elements or members out, each with the comma that joined it to the rest.

    A dropped element takes everything since the one before it, a dropped front everything up to the
    first that stays: in JSON of one consistent style the result has the bytes it would have had without
    the element, wherever it stood.
    """
    kept = next((index for index in range(len(spans)) if index not in dropped), None)
    if kept is None:
        return [(spans[0][0], spans[-1][1], b"")] if spans else []
    patches: list[Patch] = [(spans[0][0], spans[kept][0], b"")] if kept else []
    patches += [(spans[i - 1][1], spans[i][1], b"") for i in sorted(dropped) if i > kept]
    return patches


def cut_members(members: Sequence[Member], dropped: Collection[int]) -> list[Patch]:
    """As :func:`cut`, for the members of an object."""
    return cut([(member.key_start, member.value_end) for member in members], dropped)


def last_member(members: Sequence[Member], key: str) -> Member | None:
    """The member that counts: of duplicates the last, as in JSON.parse."""
    return next((member for member in reversed(members) if member.key == key), None)


def set_member(raw: bytes, members: Sequence[Member], key: str, value: bytes) -> bytes:
    """The object ``raw`` with one member's value replaced, or the member added behind the last."""
    member = last_member(members, key)
    if member is not None:
        return splice(raw, [(member.value_start, member.value_end, value)])
    end = members[-1].value_end
    return splice(raw, [(end, end, b"," + encode_string(key) + b":" + value)])
