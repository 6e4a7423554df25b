"""Lists of typed content blocks, the shape Anthropic and OpenAI Chat share (hosts section 2.3).

Reading checks what the engine relies on and names the field that is missing; editing splices.  A cache
marker is a ``cache_control`` member directly on a block, never one inside arguments or text.  It is
known by the literal bytes of its key, the form every client writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from magiccontext.engine.transcript import InvalidMessage
from magiccontext.engine.view import Edit, Op
from magiccontext.engine.wire.spans import (
    Member,
    decode_string,
    encode_string,
    read_array,
    read_object,
    split_array,
    split_object,
)
from magiccontext.engine.wire.splice import (
    Patch,
    Plan,
    cut,
    cut_members,
    edit_literal,
    last_member,
    removed_parts,
    set_member,
    splice,
)

MARKER = b'"cache_control"'

Media = tuple[str, int]
"""(mime, bytes of inline data as it stands on the wire, which is base64)."""


@dataclass(frozen=True, slots=True)
class Block:
    """One content block, and where it stands: ``path`` is its place below the message."""

    type: str
    members: dict[str, bytes]
    path: str
    size: int

    def text(self, name: str) -> str:
        """The text of a member that must be a string.  Raises InvalidMessage."""
        return require_string(self.members, name, self.path)

    def identifier(self, name: str) -> str:
        """As :meth:`text`, for an id or a tool's name."""
        return require_identifier(self.members, name, self.path)

    def optional_text(self, name: str) -> str:
        """As :meth:`text`, but absent and null read as the empty string."""
        return optional_string(self.members, name, self.path)


@dataclass(frozen=True, slots=True)
class Output:
    """What a tool result carries; ``present`` is false without a string or a list."""

    text: str = ""
    present: bool = False
    attachments: int = 0
    data_size: int = 0


def require_string(members: dict[str, bytes], name: str, path: str = "") -> str:
    """The text of a member that must be a string.  Raises InvalidMessage naming it."""
    literal = members.get(name, b"")
    if literal[:1] != b'"':
        raise InvalidMessage(f"{path}.{name}" if path else name, "must be a string")
    return decode_string(literal)


MOST_IDENTIFIER_CHARACTERS = 255
# What a database cannot store as text: NUL, and half a surrogate pair.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def require_identifier(members: dict[str, bytes], name: str, path: str = "") -> str:
    """As :func:`require_string`, for what is kept and compared as an id or a tool's name."""
    return storable(require_string(members, name, path), f"{path}.{name}" if path else name)


def storable(value: str, field: str) -> str:
    """``value``, if it can be kept as an identifier.  Raises InvalidMessage naming ``field``."""
    if len(value) > MOST_IDENTIFIER_CHARACTERS or _UNSTORABLE.search(value):
        raise InvalidMessage(
            field, f"must have at most {MOST_IDENTIFIER_CHARACTERS} characters, no NUL and no half surrogate"
        )
    return value


def optional_string(members: dict[str, bytes], name: str, path: str = "") -> str:
    """As :func:`require_string`, but absent and null read as the empty string."""
    return "" if members.get(name, b"null") == b"null" else require_string(members, name, path)


def read_message(raw: bytes) -> dict[str, bytes]:
    """The members of a message.  Raises InvalidMessage when it is not an object."""
    if raw.lstrip(b" \t\n\r")[:1] != b"{":
        raise InvalidMessage("", "a message must be an object")
    return read_object(raw, above=2)


def read_block(raw: bytes, path: str) -> Block:
    """One block with its ``type``.  Raises InvalidMessage."""
    if raw[:1] != b"{":
        raise InvalidMessage(path, "must be an object")
    members = read_object(raw)
    return Block(require_string(members, "type", path), members, path, len(raw))


def read_blocks(raw: bytes, path: str) -> list[Block]:
    """The blocks of the list that stands at ``path``."""
    return [read_block(item, f"{path}[{index}]") for index, item in enumerate(read_array(raw))]


def read_output(value: bytes | None, path: str, media: Callable[[Block], Media]) -> Output:
    """What a tool result carries: a string, a list of blocks, or nothing (absent and null)."""
    if value is None or value == b"null":
        return Output()
    if value[:1] == b'"':
        return Output(decode_string(value), True)
    if value[:1] != b"[":
        raise InvalidMessage(path, "must be a string or an array")
    blocks = read_blocks(value, path)
    texts = [block.text("text") for block in blocks if block.type == "text"]
    others = [block for block in blocks if block.type != "text"]
    return Output("\n".join(texts), True, len(others), sum(media(block)[1] for block in others))


def text_block(text: str, marker: bytes | None = None) -> bytes:
    """A new text block; ``marker`` is the raw value of the cache marker it inherits."""
    tail = b"" if marker is None else b"," + MARKER + b":" + marker
    return b'{"type":"text","text":' + encode_string(text) + tail + b"}"


def edit_text(block: bytes, edits: Iterable[Edit]) -> bytes:
    """A text block with the edits applied to its text."""
    member = _text_of(block)
    if member is None:
        raise ValueError("not a text block")
    literal = edit_literal(block[member.value_start : member.value_end], edits)
    return splice(block, [(member.value_start, member.value_end, literal)])


def edit_output(block: bytes, edits: Iterable[Edit], key: str = "content") -> bytes:
    """A tool result (block or message) with the edits applied to the output in its member ``key``.

    A string stays a string, a list a list.  A result without output gets a string.
    """
    for edit in edits:
        members = split_object(block)
        member = last_member(members, key)
        value = b"null" if member is None else block[member.value_start : member.value_end]
        if value[:1] == b"[":
            new = _replace_in_list(value, edit) if edit.op is Op.REPLACE_OUTPUT else _edit_list(value, edit)
        else:
            new = edit_literal(value, [edit])
        block = set_member(block, members, key, new)
    return block


def _replace_in_list(raw: bytes, edit: Edit) -> bytes:
    """A list with the one new text block, which inherits the last marker of what it replaces."""
    kept: list[bytes] = []
    marker: bytes | None = None
    for start, end in split_array(raw):
        item = raw[start:end]
        if edit.drop_attachments or _text_of(item) is not None:
            marker = _own_marker(item) or marker
        else:
            kept.append(item)
    return b"[" + b",".join([text_block(edit.text, marker), *kept]) + b"]"


def _edit_list(raw: bytes, edit: Edit) -> bytes:
    """Prefix on the first text block, suffix on the last; without one, a block of its own."""
    spans = split_array(raw)
    front = edit.op is Op.PREFIX
    for start, end in spans if front else reversed(spans):
        if _text_of(raw[start:end]) is not None:
            return splice(raw, [(start, end, edit_text(raw[start:end], [edit]))])
    block = text_block(edit.text)
    if not spans:
        return b"[" + block + b"]"
    if front:
        return splice(raw, [(spans[0][0], spans[0][0], block + b",")])
    return splice(raw, [(spans[-1][1], spans[-1][1], b"," + block)])


def _text_of(block: bytes) -> Member | None:
    """The ``text`` member of a text block; None for any other block."""
    if block[:1] != b"{":
        return None
    members = split_object(block)
    kind = last_member(members, "type")
    if kind is None or decode_string(block[kind.value_start : kind.value_end]) != "text":
        return None
    return last_member(members, "text")


def marker_of(block: bytes) -> bytes | None:
    """The raw value of a block's cache marker: its own, else the last one in a tool result's list."""
    own = _own_marker(block)
    if own is not None or MARKER not in block or block[:1] != b"{":
        return own
    members = split_object(block)
    content = last_member(members, "content")
    if content is None or not _is_tool_result(block, members):
        return None
    value = block[content.value_start : content.value_end]
    nested = map(_own_marker, reversed(read_array(value) if value[:1] == b"[" else []))
    return next((marker for marker in nested if marker is not None), None)


def _own_marker(block: bytes) -> bytes | None:
    if MARKER not in block or block[:1] != b"{":
        return None
    own = [member for member in split_object(block) if _is_marker(block, member)]
    return block[own[-1].value_start : own[-1].value_end] if own else None


def edit_blocks(
    value: bytes, plan: Plan, carriers: Collection[int], change: Callable[[int, bytes, list[Edit]], bytes]
) -> bytes:
    """A list of blocks with ``change`` applied to the edited ones, and without the removed ones.

    ``plan`` counts in this list.  The marker of a removed block moves to the last remaining one of
    ``carriers``, the blocks whose kind can have one.
    """
    spans = split_array(value)
    removed = removed_parts(plan)
    changed: dict[int, bytes] = {}
    marker: bytes | None = None
    for index in sorted(plan):
        start, end = spans[index]
        if index in removed:
            marker = marker_of(value[start:end]) or marker
        else:
            changed[index] = change(index, value[start:end], plan[index])
    if marker is not None:
        items = {index: value[slice(*spans[index])] for index in carriers if index not in removed} | changed
        changed.update(_move_marker(items, marker, carriers))
    patches: list[Patch] = [(*spans[index], new) for index, new in changed.items()]
    return splice(value, patches + cut(spans, removed))


def _move_marker(items: dict[int, bytes], marker: bytes, carriers: Collection[int]) -> dict[int, bytes]:
    """The last carrier with the marker added, by its index; empty when there is none, or it has its own.

    Providers refuse a marker on an empty text.
    """
    for index in sorted((index for index in carriers if index in items), reverse=True):
        block = items[index]
        text = _text_of(block)
        if text is not None and block[text.value_start : text.value_end] == b'""':
            continue
        if _own_marker(block) is not None:
            return {}
        end = split_object(block)[-1].value_end
        return {index: splice(block, [(end, end, b"," + MARKER + b":" + marker)])}
    return {}


def unmark_members(raw: bytes, members: Sequence[Member], offset: int = 0) -> list[Patch]:
    """Patches that take the marker off an object whose bytes start at ``offset``."""
    marked = [index for index, member in enumerate(members) if _is_marker(raw, member)]
    return [(start + offset, end + offset, new) for start, end, new in cut_members(members, marked)]


def unmark_blocks(raw: bytes, offset: int) -> list[Patch]:
    """Patches that take the markers off a list of blocks, and off the lists of its tool results."""
    patches: list[Patch] = []
    if raw[:1] != b"[":
        return patches
    for start, end in split_array(raw):
        block = raw[start:end]
        if MARKER not in block or block[:1] != b"{":
            continue
        members = split_object(block)
        patches += unmark_members(block, members, offset + start)
        content = last_member(members, "content")
        if content is not None and _is_tool_result(block, members):
            value = block[content.value_start : content.value_end]
            patches += unmark_blocks(value, offset + start + content.value_start)
    return patches


def _is_tool_result(block: bytes, members: Sequence[Member]) -> bool:
    kind = last_member(members, "type")
    return kind is not None and block[kind.value_start : kind.value_end] == b'"tool_result"'


def _is_marker(raw: bytes, member: Member) -> bool:
    return raw.startswith(MARKER, member.key_start)
