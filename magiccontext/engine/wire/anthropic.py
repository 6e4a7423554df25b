"""Anthropic Messages: entries of ``messages[]`` (hosts section 2.3).

Part index = position in ``content``; a string is the one part 0.  Blocks this file does not name
(server tools, MCP, containers, whatever comes next) are opaque: described, never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from magiccontext.engine.transcript import InvalidMessage, Kind, Parsed, Part, Role
from magiccontext.engine.view import Edit, Op
from magiccontext.engine.wire import blocks
from magiccontext.engine.wire.blocks import Block, Media
from magiccontext.engine.wire.spans import (
    check_depth,
    decode_string,
    encode_string,
    read_array,
    read_object,
    split_object,
)
from magiccontext.engine.wire.splice import (
    FITS,
    Plan,
    arrange,
    edit_literal,
    last_member,
    removed_parts,
    splice,
)

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}

# A part sentinel is an empty text block in the stripped part's place (replay-lanes section 1.2).
_REPLACEABLE = FITS[Op.REPLACE_TEXT] | {Kind.REASONING, Kind.REDACTED}

# Thinking cannot carry a marker, and an opaque block is never touched.
_CARRIERS = frozenset({Kind.TEXT, Kind.MEDIA, Kind.TOOL_CALL, Kind.TOOL_RESULT})


class AnthropicCodec:
    """``anthropic``.  Messages have no id; markers are ``cache_control`` on blocks."""

    format = "anthropic"
    has_ids = False

    def undecorate(self, raw: bytes) -> bytes:
        """``raw`` without cache markers, the same object when it has none.  Raises InvalidJson.

        Compact JSON, and any JSON whose separators are written in one style, gets the bytes it would
        have had unmarked, wherever in the block the marker stood.  Where spaces are irregular, those
        around the marker's comma go with it.
        """
        if blocks.MARKER not in raw or not _is_object(raw):
            return raw
        content = last_member(split_object(raw, above=2), "content")
        if content is None:
            return raw
        patches = blocks.unmark_blocks(raw[content.value_start : content.value_end], content.value_start)
        return splice(raw, patches) if patches else raw

    def parse(self, raw: bytes) -> Parsed:
        """Describe one message.  Raises InvalidMessage, or InvalidJson for bytes no reader can take."""
        check_depth(raw, above=2)
        members = blocks.read_message(raw)
        role = _ROLES.get(blocks.require_string(members, "role"), Role.OTHER)
        content = members.get("content", b"")
        if role is Role.OTHER:
            return Parsed(role, _opaque(content))
        if content[:1] == b'"':
            return Parsed(role, (Part(0, Kind.TEXT, text=decode_string(content), size=len(content)),))
        if content[:1] != b"[":
            raise InvalidMessage("content", "must be a string or an array")
        listed = blocks.read_blocks(content, "content")
        parts = (_READERS.get(block.type, _read_opaque)(index, block) for index, block in enumerate(listed))
        return Parsed(role, tuple(parts))

    def encode(self, raw: bytes, edits: Sequence[Edit]) -> bytes | None:
        """``raw`` with the edits spliced in; None when nothing of it is left.  Raises ValueError for an
        edit that does not fit."""
        if not edits:
            return raw
        parts = self.parse(raw).parts
        plan = arrange(edits, parts, _REPLACEABLE)
        if plan is None:
            return None
        if len(removed_parts(plan)) == len(parts):
            return None
        content = last_member(split_object(raw, above=2), "content")
        if content is None:
            raise ValueError("a message with parts has content")
        start, end = content.value_start, content.value_end
        return splice(raw, [(start, end, _edit_content(raw[start:end], parts, plan))])

    def user_message(self, text: str, image: str = "") -> bytes:
        """See :class:`Codec`."""
        block = b'{"type":"text","text":' + encode_string(text) + b"}"
        if image:
            mime, _, data = image.removeprefix("data:").partition(";base64,")
            source = (
                b'{"type":"base64","media_type":' + encode_string(mime) + b',"data":' + encode_string(data)
            )
            block += b',{"type":"image","source":' + source + b"}}"
        return b'{"role":"user","content":[' + block + b"]}"

    def is_leading_system(self, parsed: Parsed) -> bool:
        """Never: the system prompt is outside ``messages``, an entry inside it stands where it stands."""
        return False


def _edit_content(value: bytes, parts: Sequence[Part], plan: Plan) -> bytes:
    if value[:1] == b'"':
        return edit_literal(value, plan[0])

    def change(index: int, block: bytes, edits: list[Edit]) -> bytes:
        kind = parts[index].kind
        if kind is Kind.TEXT:
            return blocks.edit_text(block, edits)
        if kind is Kind.TOOL_RESULT:
            return blocks.edit_output(block, edits)
        return blocks.text_block(edits[-1].text, blocks.marker_of(block))

    carriers = [part.index for part in parts if part.kind in _CARRIERS]
    return blocks.edit_blocks(value, plan, carriers, change)


def _is_object(raw: bytes) -> bool:
    return raw.lstrip(b" \t\n\r")[:1] == b"{"


def _opaque(content: bytes) -> tuple[Part, ...]:
    """The parts of a role this format does not know."""
    items = read_array(content) if content[:1] == b"[" else [content] if content else []
    return tuple(Part(index, Kind.OPAQUE, size=len(item)) for index, item in enumerate(items))


def _media(block: Block) -> Media:
    """Mime and inline bytes of an image or document; of other blocks nothing is known."""
    if block.type not in ("image", "document"):
        return "", 0
    source = block.members.get("source", b"")
    if source[:1] != b"{":
        raise InvalidMessage(f"{block.path}.source", "must be an object")
    members = read_object(source)
    data = members.get("data", b"")
    mime = blocks.optional_string(members, "media_type", f"{block.path}.source")
    return mime, len(data) - 2 if data[:1] == b'"' else 0


def _read_text(index: int, block: Block) -> Part:
    return Part(index, Kind.TEXT, text=block.text("text"), size=block.size)


def _read_thinking(index: int, block: Block) -> Part:
    text, signature = block.text("thinking"), block.optional_text("signature")
    return Part(index, Kind.REASONING, text=text, signature=signature, size=block.size)


def _read_redacted(index: int, block: Block) -> Part:
    return Part(index, Kind.REDACTED, signature=block.text("data"), size=block.size)


def _read_tool_use(index: int, block: Block) -> Part:
    call_id, name = block.identifier("id"), block.identifier("name")
    arguments = block.members.get("input", b"")
    return Part(index, Kind.TOOL_CALL, call_id=call_id, name=name, arguments=arguments, size=block.size)


def _read_tool_result(index: int, block: Block) -> Part:
    call_id = block.identifier("tool_use_id")
    is_error = block.members.get("is_error", b"null")
    if is_error not in (b"true", b"false", b"null"):
        raise InvalidMessage(f"{block.path}.is_error", "must be a boolean")
    output = blocks.read_output(block.members.get("content"), f"{block.path}.content", _media)
    return Part(
        index,
        Kind.TOOL_RESULT,
        text=output.text,
        call_id=call_id,
        is_error=is_error == b"true",
        has_output=output.present,
        attachments=output.attachments,
        data_size=output.data_size,
        size=block.size,
    )


def _read_media(index: int, block: Block) -> Part:
    mime, data_size = _media(block)
    return Part(index, Kind.MEDIA, mime=mime, data_size=data_size, size=block.size)


def _read_opaque(index: int, block: Block) -> Part:
    return Part(index, Kind.OPAQUE, size=block.size)


_READERS: dict[str, Callable[[int, Block], Part]] = {
    "text": _read_text,
    "thinking": _read_thinking,
    "redacted_thinking": _read_redacted,
    "tool_use": _read_tool_use,
    "tool_result": _read_tool_result,
    "image": _read_media,
    "document": _read_media,
}
