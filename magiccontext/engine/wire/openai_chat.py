"""OpenAI Chat Completions: entries of ``messages[]`` (hosts section 2.3; public API).

A message keeps its parts in several members, so the part index is a rule of this file:

1. ``content``: a string is the one part 0; the items of a list count from 0 in order; null and absent
   have no part.  In a ``tool`` message the whole content is one tool result, part 0.
2. then ``reasoning_content``, then ``reasoning``: each one part if it is a string;
   then ``reasoning_details``, a redacted reasoning part, if present and not null;
3. then every entry of ``tool_calls``;
4. then ``function_call``, ``audio``, ``refusal``, opaque, each if present and not null.

The order is this one however the members are ordered in the message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from magiccontext.engine.transcript import InvalidMessage, Kind, Parsed, Part, Role
from magiccontext.engine.view import Edit
from magiccontext.engine.wire import blocks
from magiccontext.engine.wire.blocks import Block, Media
from magiccontext.engine.wire.spans import (
    check_depth,
    decode_string,
    encode_string,
    encode_text,
    read_array,
    read_object,
    split_object,
)
from magiccontext.engine.wire.splice import (
    Patch,
    Plan,
    arrange,
    cut_members,
    edit_literal,
    last_member,
    removed_parts,
    splice,
)

_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
}
_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
_OPAQUE = ("function_call", "audio", "refusal")

# Type of a tool call, which is also the member that holds it -> the member of that with the arguments.
_CALLS = {"function": "arguments", "custom": "input"}

# Type of a media item -> (member that holds it, member of that with the inline data).
_MEDIA = {
    "image_url": ("image_url", "url"),
    "input_audio": ("input_audio", "data"),
    "file": ("file", "file_data"),
}

_CARRIERS = frozenset({Kind.TEXT, Kind.MEDIA, Kind.TOOL_CALL})


class OpenAIChatCodec:
    """``openai-chat``.  Messages have no id.

    OpenAI itself has no cache markers; routes to other models put ``cache_control`` on content parts, on
    tool calls, or on the message.
    """

    format = "openai-chat"
    has_ids = False

    def undecorate(self, raw: bytes) -> bytes:
        """``raw`` without cache markers, the same object when it has none.  Raises InvalidJson.

        The result has the bytes of the unmarked message under the same condition as for Anthropic.
        """
        if blocks.MARKER not in raw or raw.lstrip(b" \t\n\r")[:1] != b"{":
            return raw
        members = split_object(raw, above=2)
        patches = blocks.unmark_members(raw, members)
        for key in ("content", "tool_calls"):
            member = last_member(members, key)
            if member is not None:
                value = raw[member.value_start : member.value_end]
                patches += blocks.unmark_blocks(value, member.value_start)
        return splice(raw, patches) if patches else raw

    def parse(self, raw: bytes) -> Parsed:
        """Describe one message.  Raises InvalidMessage, or InvalidJson for bytes no reader can take."""
        check_depth(raw, above=2)
        members = blocks.read_message(raw)
        role = _role(members)
        return Parsed(role, tuple(chain.from_iterable(_read(members, role).values())))

    def encode(self, raw: bytes, edits: Sequence[Edit]) -> bytes | None:
        """``raw`` with the edits spliced in; None when nothing is left that a message may consist of.

        An assistant whose content was removed says ``null`` beside its tool calls; without any call it
        would have to have content, so reasoning alone is nothing.  Raises ValueError for an edit that
        does not fit.
        """
        if not edits:
            return raw
        check_depth(raw, above=2)
        values = blocks.read_message(raw)
        role = _role(values)
        groups = _read(values, role)
        plan = arrange(edits, list(chain.from_iterable(groups.values())))
        if plan is None:
            return None
        removed = removed_parts(plan)
        if role is Role.TOOL:
            return None if removed else blocks.edit_output(raw, plan[0])
        new = {key: _edit_member(values[key], group, plan) for key, group in groups.items()}
        if removed and not any(_may_stand_alone(key, value) for key, value in new.items()):
            return None
        return _write(raw, {key: value for key, value in new.items() if value != values[key]})

    def user_message(self, text: str, image: str = "") -> bytes:
        """See :class:`Codec`."""
        content = encode_string(text)
        if image:
            url = b'{"type":"image_url","image_url":{"url":' + encode_string(image) + b"}}"
            content = b'[{"type":"text","text":' + content + b"}," + url + b"]"
        return b'{"role":"user","content":' + content + b"}"

    def is_leading_system(self, parsed: Parsed) -> bool:
        """System and developer messages stay first and are never cut (design section 12 item 6)."""
        return parsed.role is Role.SYSTEM


def _role(members: dict[str, bytes]) -> Role:
    return _ROLES.get(blocks.require_string(members, "role"), Role.OTHER)


def _edit_member(value: bytes, group: Sequence[Part], plan: Plan) -> bytes | None:
    """The value of a member whose parts are ``group``; None when none of them is left."""
    first = group[0].index
    own = {part.index - first: plan[part.index] for part in group if part.index in plan}
    if not own:
        return value
    if len(removed_parts(own)) == len(group):
        return None
    if value[:1] == b'"':
        return edit_literal(value, own[0])

    def change(index: int, block: bytes, edits: list[Edit]) -> bytes:
        if group[index].kind is Kind.TEXT:
            return blocks.edit_text(block, edits)
        return blocks.text_block(edits[-1].text, blocks.marker_of(block))

    carriers = [part.index - first for part in group if part.kind in _CARRIERS]
    return blocks.edit_blocks(value, own, carriers, change)


def _may_stand_alone(key: str, value: bytes | None) -> bool:
    """Whether a message may consist of this member only: not of reasoning, nor of an empty string."""
    return value not in (None, b'""') and key not in _REASONING


def _write(raw: bytes, changed: dict[str, bytes | None]) -> bytes:
    """The message with changed members; one that lost its parts goes, in all its duplicates, but
    content becomes null."""
    members = split_object(raw, above=2)
    gone = {key for key, value in changed.items() if value is None and key != "content"}
    dropped = {index for index, member in enumerate(members) if member.key in gone}
    patches: list[Patch] = []
    for key, value in changed.items():
        member = last_member(members, key)
        if member is not None and key not in gone:
            patches.append((member.value_start, member.value_end, b"null" if value is None else value))
    return splice(raw, patches + cut_members(members, dropped))


def _read(members: dict[str, bytes], role: Role) -> dict[str, list[Part]]:
    """The parts that each member holds, in the order of the index rule; members without parts are
    left out.  Raises InvalidMessage."""
    if role is Role.TOOL:
        return {"content": [_read_result(members)]}
    groups = {"content": _read_content(members.get("content", b"null"), role)}
    count = len(groups["content"])
    for key, reader in _MEMBERS.items():
        value = members.get(key, b"null")
        if value != b"null" and (role is Role.ASSISTANT or key in _OPAQUE):
            groups[key] = reader(value, count)
            count += len(groups[key])
    return {key: parts for key, parts in groups.items() if parts}


def _read_result(members: dict[str, bytes]) -> Part:
    content = members.get("content", b"")
    call_id = blocks.require_identifier(members, "tool_call_id")
    output = blocks.read_output(content or None, "content", _media)
    return Part(
        0,
        Kind.TOOL_RESULT,
        text=output.text,
        call_id=call_id,
        name=blocks.storable(blocks.optional_string(members, "name"), "name"),
        has_output=output.present,
        attachments=output.attachments,
        data_size=output.data_size,
        size=len(content),
    )


def _read_content(content: bytes, role: Role) -> list[Part]:
    if content == b"null" and role in (Role.ASSISTANT, Role.OTHER):
        return []
    if role is Role.OTHER:
        items = read_array(content) if content[:1] == b"[" else [content]
        return [Part(index, Kind.OPAQUE, size=len(item)) for index, item in enumerate(items)]
    if content[:1] == b'"':
        return [Part(0, Kind.TEXT, text=decode_string(content), size=len(content))]
    if content[:1] != b"[":
        raise InvalidMessage("content", "must be a string or an array")
    return [_read_item(index, block) for index, block in enumerate(blocks.read_blocks(content, "content"))]


def _read_item(index: int, block: Block) -> Part:
    if block.type == "text":
        return Part(index, Kind.TEXT, text=block.text("text"), size=block.size)
    if block.type in _MEDIA:
        mime, data_size = _media(block)
        return Part(index, Kind.MEDIA, mime=mime, data_size=data_size, size=block.size)
    return Part(index, Kind.OPAQUE, size=block.size)


def _media(block: Block) -> Media:
    """Mime and inline bytes of a content item; of items that are not media nothing is known.

    A data URL says its mime; audio names only its coding.
    """
    if block.type not in _MEDIA:
        return "", 0
    holder, key = _MEDIA[block.type]
    value = block.members.get(holder, b"")
    path = f"{block.path}.{holder}"
    if value[:1] == b'"':  # some routes take the URL itself
        data, coding = value, ""
    elif value[:1] == b"{":
        inner = read_object(value)
        data, coding = inner.get(key, b""), blocks.optional_string(inner, "format", path)
    else:
        raise InvalidMessage(path, "must be an object")
    if data.startswith(b'"data:'):
        head, _, payload = data[6:-1].partition(b",")
        return head.partition(b";")[0].decode(errors="replace"), len(payload)
    if block.type == "input_audio":
        return f"audio/{coding}" if coding else "", max(len(data) - 2, 0)
    return "", 0


def _read_reasoning(value: bytes, index: int) -> list[Part]:
    if value[:1] != b'"':
        return []
    return [Part(index, Kind.REASONING, text=decode_string(value), size=len(value))]


def _read_redacted(value: bytes, index: int) -> list[Part]:
    return [Part(index, Kind.REDACTED, signature=value.decode(errors="replace"), size=len(value))]


def _read_opaque(value: bytes, index: int) -> list[Part]:
    return [Part(index, Kind.OPAQUE, size=len(value))]


def _read_calls(value: bytes, index: int) -> list[Part]:
    if value[:1] != b"[":
        raise InvalidMessage("tool_calls", "must be an array")
    return [_read_call(item, index, place) for place, item in enumerate(read_array(value))]


def _read_call(raw: bytes, first: int, place: int) -> Part:
    """One entry of ``tool_calls``.  A function's arguments are the JSON text inside their string; a
    custom tool's input is free text, so its string literal is the JSON."""
    path = f"tool_calls[{place}]"
    if raw[:1] != b"{":
        raise InvalidMessage(path, "must be an object")
    members = read_object(raw)
    kind = blocks.optional_string(members, "type", path) or "function"
    if kind not in _CALLS:
        return Part(first + place, Kind.OPAQUE, size=len(raw))
    value = members.get(kind, b"")
    if value[:1] != b"{":
        raise InvalidMessage(f"{path}.{kind}", "must be an object")
    inner = read_object(value)
    key = _CALLS[kind]
    text = blocks.require_string(inner, key, f"{path}.{kind}")
    return Part(
        first + place,
        Kind.TOOL_CALL,
        call_id=blocks.require_identifier(members, "id", path),
        name=blocks.require_identifier(inner, "name", f"{path}.{kind}"),
        arguments=encode_text(text) if kind == "function" else inner[key],
        size=len(raw),
    )


_MEMBERS: dict[str, Callable[[bytes, int], list[Part]]] = {
    "reasoning_content": _read_reasoning,
    "reasoning": _read_reasoning,
    "reasoning_details": _read_redacted,
    "tool_calls": _read_calls,
    "function_call": _read_opaque,
    "audio": _read_opaque,
    "refusal": _read_opaque,
}
"""The members beside content, in the order in which their parts are counted."""
