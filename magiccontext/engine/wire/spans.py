"""JSON seen as bytes: where values begin and end, never what they would be as objects (design section 4).

Two readers of one language.  msgspec finds the raw slices of a well-formed value at memory speed; the
scanner below knows positions, duplicate members and lone surrogate escapes, and names the place of a
fault.  Whatever the fast reader refuses is decided by the scanner alone, so both accept the same texts:
strict JSON in UTF-8 (no NaN, no Infinity, no byte order mark), nested at most ``MAX_DEPTH`` deep, with
escapes of lone surrogates, which JavaScript hosts really send.

Depth is counted from the body: ``above`` says how many arrays and objects a value already stands in.
``read_*`` find slices and do not look for depth inside them; :func:`check_depth` does, once for a value,
so that a known message costs nothing on a later pass.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple, NoReturn, TypeVar

import msgspec

from magiccontext.engine.wire.base import MAX_DEPTH

Span = tuple[int, int]
_T = TypeVar("_T")


class InvalidJson(ValueError):
    """The bytes are not JSON that can be passed on (HTTP 422).

    ``position`` counts bytes from the start of the bytes that were given to the reader.
    """

    def __init__(self, position: int, detail: str) -> None:
        super().__init__(f"{detail} (byte {position})")
        self.position = position
        self.detail = detail


class Member(NamedTuple):
    """One member of an object; offsets are relative to the bytes it was read from."""

    key: str
    key_start: int
    value_start: int
    value_end: int


# Possessive, so that a match never keeps a way back: memory stays flat on strings of any length.
_SPACE = rb"[ \t\n\r]*+"
_CHARS = rb"[ !#-\[\]-\xff]*+"
_ESCAPE = rb'\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})'
_OPEN_STRING = rb'"' + _CHARS + rb"(?:" + _ESCAPE + _CHARS + rb")*+"
_NUMBER = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"

_SKIP_SPACE = re.compile(_SPACE)
_STRING = re.compile(_OPEN_STRING + rb'"')
_UNCLOSED = re.compile(_OPEN_STRING)
_SCALAR = re.compile(rb"(?:" + _OPEN_STRING + rb'"|' + _NUMBER + rb"|true|false|null)")
_KEY = re.compile(rb"(" + _OPEN_STRING + rb'")' + _SPACE + rb":" + _SPACE)
_AFTER_VALUE = re.compile(_SPACE + rb"([,\]}])" + _SPACE)
_LEAF = re.compile(_OPEN_STRING + rb'"(' + _SPACE + rb":)?")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_ANY = msgspec.json.Decoder(msgspec.Raw)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_quote = json.JSONEncoder(ensure_ascii=False).encode

_MASK = b"\xff"  # a byte that UTF-8 never contains


def split_body(body: bytes) -> dict[str, bytes]:
    """The members of a request body by name, as copies of their raw values; the last duplicate wins.

    Checks UTF-8 and syntax of all of it, and the depth of every member that is not an array.  The
    elements of an array are checked when they are read (``Codec.parse``), each once.
    Raises InvalidJson.
    """
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise InvalidJson(error.start, "invalid UTF-8") from None
    members = read_object(body)
    for value in members.values():
        if value[:1] != b"[":
            check_depth(value, above=1)
    return members


def read_object(raw: bytes, above: int = 0) -> dict[str, bytes]:
    """Raw values of an object's members by name, copied; the last duplicate wins.  Raises InvalidJson."""
    fast = _decode(_OBJECT, raw)
    if fast is not None:
        return {key: bytes(value) for key, value in fast.items()}
    masked = _mask(raw)
    fast = _decode(_OBJECT, masked) if masked is not None else None
    if fast is not None:
        return {key: bytes(value).replace(_MASK, b"\\") for key, value in fast.items()}
    return {key: raw[start:end] for key, _, start, end in split_object(raw, above)}


def read_array(raw: bytes, above: int = 0) -> list[bytes]:
    """Raw elements of an array, copied out so that one does not hold the whole body.  Raises InvalidJson."""
    fast = _decode(_ARRAY, raw)
    if fast is not None:
        return [bytes(value) for value in fast]
    masked = _mask(raw)
    fast = _decode(_ARRAY, masked) if masked is not None else None
    if fast is not None:
        return [bytes(value).replace(_MASK, b"\\") for value in fast]
    return [raw[start:end] for start, end in split_array(raw, above)]


def split_object(raw: bytes, above: int = 0) -> list[Member]:
    """All members of an object in order, duplicates included, with their places.  Raises InvalidJson."""
    position = _enter(raw, b"{", "an object", above)
    members: list[Member] = []
    if raw[position : position + 1] == b"}":
        _finish(raw, position + 1)
        return members
    while True:
        key = _KEY.match(raw, position)
        if key is None:
            _refuse_key(raw, position)
        start = key.end()
        end = _skip(raw, start, above + 1)
        members.append(Member(decode_string(key[1]), position, start, end))
        after = _AFTER_VALUE.match(raw, end)
        if after is None or after[1] == b"]":
            _refuse(raw, _space(raw, end), "expected ',' or '}'")
        if after[1] == b"}":
            _finish(raw, after.end())
            return members
        position = after.end()


def split_array(raw: bytes, above: int = 0) -> list[Span]:
    """(start, end) of every element of an array.  Raises InvalidJson."""
    position = _enter(raw, b"[", "an array", above)
    spans: list[Span] = []
    if raw[position : position + 1] == b"]":
        _finish(raw, position + 1)
        return spans
    while True:
        end = _skip(raw, position, above + 1)
        spans.append((position, end))
        after = _AFTER_VALUE.match(raw, end)
        if after is None or after[1] == b"}":
            _refuse(raw, _space(raw, end), "expected ',' or ']'")
        if after[1] == b"]":
            _finish(raw, after.end())
            return spans
        position = after.end()


def check_depth(raw: bytes, above: int = 0) -> None:
    """Raise InvalidJson where ``raw``, standing in ``above`` containers, passes MAX_DEPTH.

    A value with few brackets in it, even counting those inside strings, cannot be deep; only the rest
    is scanned.
    """
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH - above:
        _skip(raw, _space(raw, 0), above)


def decode_string(literal: bytes) -> str:
    """The text of a JSON string literal.  Lone surrogates are kept.  Raises InvalidJson."""
    text = _decode(_TEXT, literal)
    if text is not None:
        return text
    match = _STRING.fullmatch(literal)
    if match is None:
        _refuse(literal, 0, "expected a string")
    try:
        loaded: str = json.loads(literal.decode())
    except UnicodeDecodeError as error:
        raise InvalidJson(error.start, "invalid UTF-8") from None
    return loaded


def encode_string(text: str) -> bytes:
    """``text`` as a JSON string literal in UTF-8, escaped as JSON.stringify does: quote, backslash and
    control characters, and lone surrogates as lower-case ``\\udxxx``."""
    return encode_text(_quote(text))


def encode_text(text: str) -> bytes:
    """JSON text as UTF-8.  Lone surrogates, which can only stand inside its strings, become escapes;
    two halves of a pair become the character."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return _LONE_SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", joined).encode()


def string_leaves_size(arguments: bytes) -> int:
    """UTF-8 bytes of all string values in a JSON value, at any depth (reclaim-core section 3, "Small").

    Keys, numbers, booleans and nulls do not count; a lone surrogate counts 3.  Text that is not JSON
    counts whole, as does JSON that is nested too deep.
    """
    try:
        arguments.decode()
        if _decode(_ANY, arguments) is None:
            _finish(arguments, _skip(arguments, _space(arguments, 0), 0))
        check_depth(arguments)
    except (InvalidJson, UnicodeDecodeError):
        return len(arguments)
    size = 0
    for match in _LEAF.finditer(arguments):
        if match[1] is None:
            literal = match[0]
            plain = b"\\" not in literal
            size += (
                len(literal) - 2 if plain else len(decode_string(literal).encode("utf-8", "surrogatepass"))
            )
    return size


def _decode(decoder: msgspec.json.Decoder[_T], raw: bytes) -> _T | None:
    """What the fast reader finds, or None when the scanner has to decide."""
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _mask(raw: bytes) -> bytes | None:
    """``raw`` with the backslash of every surrogate escape replaced, so that the fast reader takes it.

    One cut string stays in a session for good; without this every later request would go the slow way.
    Same length, and undone by replacing ``_MASK`` in the slices.  None when there is nothing to mask.
    """
    if _MASK in raw:
        return None
    masked: bytearray | None = None
    for match in _SURROGATE_ESCAPE.finditer(raw):
        start = run = match.start()
        while run and raw[run - 1] == 0x5C:
            run -= 1
        if (start - run) % 2 == 0:  # else this backslash is itself escaped
            masked = bytearray(raw) if masked is None else masked
            masked[start] = 0xFF
    return None if masked is None else bytes(masked)


def _space(raw: bytes, position: int) -> int:
    match = _SKIP_SPACE.match(raw, position)
    return position if match is None else match.end()


def _enter(raw: bytes, bracket: bytes, what: str, above: int) -> int:
    """Position of the first token behind the opening bracket of the value ``raw`` holds."""
    start = _space(raw, 0)
    if raw[start : start + 1] != bracket:
        _refuse(raw, start, f"expected {what}")
    _go_down(start, above)
    return _space(raw, start + 1)


def _finish(raw: bytes, position: int) -> None:
    position = _space(raw, position)
    if position != len(raw):
        _refuse(raw, position, "text after the value")


def _go_down(position: int, depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise InvalidJson(position, f"nested deeper than {MAX_DEPTH} arrays and objects")


def _skip(raw: bytes, position: int, depth: int) -> int:
    """End of the value that starts at ``position``, inside ``depth`` containers.  Iterative."""
    closers = bytearray()
    while True:
        scalar = _SCALAR.match(raw, position)
        if scalar is not None:
            position = scalar.end()
        else:
            opener = raw[position : position + 1]
            if opener not in (b"[", b"{") or not opener:
                _refuse(raw, position, "expected a value")
            _go_down(position, depth + len(closers))
            closer = b"]" if opener == b"[" else b"}"
            inner = _space(raw, position + 1)
            if raw[inner : inner + 1] != closer:
                closers += closer
                position = _member(raw, inner) if opener == b"{" else inner
                continue
            position = inner + 1
        while closers:
            after = _AFTER_VALUE.match(raw, position)
            token = after[1] if after is not None else b""
            if after is not None and token == b",":
                position = _member(raw, after.end()) if closers[-1] == 0x7D else after.end()
                break
            if after is None or token[0] != closers[-1]:
                _refuse(raw, _space(raw, position), f"expected ',' or '{chr(closers[-1])}'")
            position = after.end(1)
            del closers[-1]
        else:
            return position


def _member(raw: bytes, position: int) -> int:
    """Start of the value whose key stands at ``position``."""
    key = _KEY.match(raw, position)
    if key is None:
        _refuse_key(raw, position)
    return key.end()


def _refuse_key(raw: bytes, position: int) -> NoReturn:
    key = _STRING.match(raw, position)
    if key is None:
        _refuse(raw, position, "expected a member name")
    _refuse(raw, _space(raw, key.end()), "expected ':'")


def _refuse(raw: bytes, position: int, detail: str) -> NoReturn:
    unclosed = _UNCLOSED.match(raw, position)
    if unclosed is not None and _STRING.match(raw, position) is None:
        position, detail = unclosed.end(), "string with an invalid character or escape"
    if position >= len(raw):
        detail = "unexpected end"
    raise InvalidJson(min(position, len(raw)), detail)
