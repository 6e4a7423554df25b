"""Anthropic Messages: what is read, what is refused, what an edit does to the bytes (hosts section 2)."""

from __future__ import annotations

import json

import pytest

from magiccontext.engine.transcript import InvalidMessage, Kind, Role
from magiccontext.engine.view import Edit, Op
from magiccontext.engine.wire import FORMATS, codec_for
from magiccontext.engine.wire.base import MAX_DEPTH
from magiccontext.engine.wire.spans import InvalidJson

codec = codec_for("anthropic")

MARK = b'"cache_control":{"type":"ephemeral","ttl":"1h"}'


def user(*blocks: bytes) -> bytes:
    return b'{"role":"user","content":[' + b",".join(blocks) + b"]}"


def assistant(*blocks: bytes) -> bytes:
    return b'{"role":"assistant","content":[' + b",".join(blocks) + b"]}"


TEXT = b'{"type":"text","text":"hi"}'
THINKING = b'{"type":"thinking","thinking":"hm","signature":"c2ln"}'
CALL = b'{"type":"tool_use","id":"t1","name":"read","input":{"b": 1.0, "a":"\\u00e9"}}'
RESULT = b'{"type":"tool_result","tool_use_id":"t1","content":"out"}'
IMAGE = b'{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}'
OPAQUE = b'{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}'


def test_it_works() -> None:
    parsed = codec.parse(assistant(THINKING, TEXT, CALL))
    assert parsed.role is Role.ASSISTANT
    assert [part.kind for part in parsed.parts] == [Kind.REASONING, Kind.TEXT, Kind.TOOL_CALL]
    thinking, text, call = parsed.parts
    assert (thinking.text, thinking.signature) == ("hm", "c2ln")
    assert (text.index, text.text, text.size) == (1, "hi", len(TEXT))
    assert (call.call_id, call.name, call.arguments) == ("t1", "read", b'{"b": 1.0, "a":"\\u00e9"}')
    assert not codec.is_leading_system(parsed)


def test_formats_are_looked_up_by_name() -> None:
    assert {"anthropic", "openai-chat"} <= set(FORMATS)
    assert (codec.format, codec.has_ids) == ("anthropic", False)
    with pytest.raises(KeyError):
        codec_for("soap")


def test_string_content_is_one_text_part() -> None:
    parsed = codec.parse(b'{"content":"caf\\u00e9 \\ud83d","role":"user"}')
    (part,) = parsed.parts
    assert (part.index, part.kind, part.text, part.size) == (0, Kind.TEXT, "café \ud83d", 18)


def test_empty_content_is_legal_and_has_no_parts() -> None:
    assert codec.parse(user()).parts == ()


@pytest.mark.parametrize(
    ("content", "text", "present", "attachments", "size", "error"),
    [
        (b'"content":"out","is_error":true', "out", True, 0, 0, True),
        (b'"is_error":false', "", False, 0, 0, False),
        (b'"content":null,"is_error":null', "", False, 0, 0, False),
        (b'"content":[]', "", True, 0, 0, False),
        (b'"content":[' + TEXT + b"," + IMAGE + b"," + TEXT + b"]", "hi\nhi", True, 1, 4, False),
        (b'"content":[{"type":"tool_reference","tool_name":"x"}]', "", True, 1, 0, False),
    ],
)
def test_tool_results_in_every_shape(
    content: bytes, text: str, present: bool, attachments: int, size: int, error: bool
) -> None:
    (part,) = codec.parse(user(b'{"type":"tool_result","tool_use_id":"t1",' + content + b"}")).parts
    assert part.kind is Kind.TOOL_RESULT
    assert part.call_id == "t1"
    assert (part.text, part.has_output, part.attachments, part.data_size, part.is_error) == (
        text,
        present,
        attachments,
        size,
        error,
    )


def test_media_redacted_and_unknown_blocks() -> None:
    redacted = b'{"type":"redacted_thinking","data":"ZGF0YQ"}'
    document = b'{"type":"document","source":{"type":"url","url":"https://x"}}'
    parts = codec.parse(user(IMAGE, document, redacted, OPAQUE)).parts
    assert [part.kind for part in parts] == [Kind.MEDIA, Kind.MEDIA, Kind.REDACTED, Kind.OPAQUE]
    assert (parts[0].mime, parts[0].data_size) == ("image/png", 4)
    assert (parts[1].mime, parts[1].data_size) == ("", 0)
    assert parts[2].signature == "ZGF0YQ"


def test_system_entries_and_unknown_roles() -> None:
    assert codec.parse(b'{"role":"system","content":"x"}').role is Role.SYSTEM
    unknown = codec.parse(b'{"role":"critic","content":[{"type":"text"},7]}')
    assert unknown.role is Role.OTHER
    assert [part.kind for part in unknown.parts] == [Kind.OPAQUE, Kind.OPAQUE]
    assert codec.parse(b'{"role":"critic"}').parts == ()


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"7", ""),
        (b'["cache_control"]', ""),
        (b'{"content":"x"}', "role"),
        (b'{"role":7,"content":"x"}', "role"),
        (b'{"role":"user"}', "content"),
        (b'{"role":"user","content":null}', "content"),
        (b'{"role":"user","content":{}}', "content"),
        (user(TEXT, b'"x"'), "content[1]"),
        (user(b"{}"), "content[0].type"),
        (user(b'{"type":"text"}'), "content[0].text"),
        (user(b'{"type":"text","text":"a","text":null}'), "content[0].text"),
        (user(b'{"type":"thinking"}'), "content[0].thinking"),
        (user(b'{"type":"thinking","thinking":"","signature":3}'), "content[0].signature"),
        (user(b'{"type":"redacted_thinking"}'), "content[0].data"),
        (user(b'{"type":"tool_use","name":"x"}'), "content[0].id"),
        (user(b'{"type":"tool_use","id":"x"}'), "content[0].name"),
        (user(TEXT, TEXT, b'{"type":"tool_result","content":"x"}'), "content[2].tool_use_id"),
        (user(b'{"type":"tool_result","tool_use_id":"t","is_error":1}'), "content[0].is_error"),
        (user(b'{"type":"tool_result","tool_use_id":"t","content":7}'), "content[0].content"),
        (user(b'{"type":"tool_result","tool_use_id":"t","content":[7]}'), "content[0].content[0]"),
        (
            user(b'{"type":"tool_result","tool_use_id":"t","content":[{"type":"text"}]}'),
            "content[0].content[0].text",
        ),
        (
            user(b'{"type":"tool_result","tool_use_id":"t","content":[{"type":"image"}]}'),
            "content[0].content[0].source",
        ),
        (user(b'{"type":"image"}'), "content[0].source"),
    ],
)
def test_a_refusal_names_the_field(raw: bytes, field: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        codec.parse(codec.undecorate(raw))
    assert caught.value.field == field


def test_a_message_nested_too_deep_is_refused_when_it_is_read() -> None:
    def message(levels: int) -> bytes:
        return user(b'{"type":"tool_use","id":"t","name":"n","input":' + b"[" * levels + b"]" * levels + b"}")

    codec.parse(message(MAX_DEPTH - 5))
    with pytest.raises(InvalidJson, match="nested deeper"):
        codec.parse(message(MAX_DEPTH - 4))


# --- decorations -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decorated", "plain"),
    [
        (user(b'{"type":"text","text":"hi",' + MARK + b"}"), user(TEXT)),
        (user(b"{" + MARK + b',"type":"text","text":"hi"}'), user(TEXT)),
        (user(b'{"type":"text",' + MARK + b',"text":"hi"}'), user(TEXT)),
        (user(b"{" + MARK + b',"type":"text",' + MARK + b',"text":"hi",' + MARK + b"}"), user(TEXT)),
        (user(OPAQUE[:-1] + b"," + MARK + b"}", TEXT), user(OPAQUE, TEXT)),
        (
            user(b'{"type":"tool_result","tool_use_id":"t1","content":"out","cache_control":null}'),
            user(RESULT),
        ),
        (
            user(
                b'{"type":"tool_result",%b,"tool_use_id":"t1","content":[{%b,"type":"text","text":"hi"}]}'
                % (MARK, MARK)
            ),
            user(b'{"type":"tool_result","tool_use_id":"t1","content":[' + TEXT + b"]}"),
        ),
    ],
)
def test_markers_leave_no_trace(decorated: bytes, plain: bytes) -> None:
    """hosts section 2.2 item 6: the digest is of the message without the marker."""
    assert codec.undecorate(decorated) == plain


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" , ", " : ")])
@pytest.mark.parametrize("indent", [None, 2, "\t"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_markers_leave_no_trace_in_any_consistent_style(
    separators: tuple[str, str], indent: int | str | None, place: int
) -> None:
    members = [("type", "text"), ("text", "hi")]
    marked = [*members[:place], ("cache_control", {"type": "ephemeral"}), *members[place:]]

    def write(block: list[tuple[str, object]]) -> bytes:
        message = {"role": "user", "content": [dict(block)]}
        return json.dumps(message, separators=separators, indent=indent).encode()

    assert codec.undecorate(write(marked)) == write(list(members))


@pytest.mark.parametrize(
    "raw",
    [
        user(TEXT),
        user(b'{"type":"text","text":"\\"cache_control\\":{}"}'),
        user(b'{"type":"text","text":"see \\"x\\" \\\\"}', b'{"type":"tool_use","input":{' + MARK + b"}}"),
        b'{"role":"user","content":"cache_control","x":{' + MARK + b"}}",
        b'["cache_control"]',
        user(b'{"type":"mcp_tool_result","content":[{"type":"text","text":"x",' + MARK + b"}]}"),
    ],
)
def test_what_is_no_marker_stays_and_the_object_is_the_same(raw: bytes) -> None:
    assert codec.undecorate(raw) is raw


# --- edits -------------------------------------------------------------------------------------------

PREFIX = Edit(Op.PREFIX, 0, "§1§ ")
APPEND = Edit(Op.APPEND, 0, "\n!")


@pytest.mark.parametrize(
    ("raw", "edits", "expected"),
    [
        # text blocks and string content keep everything around the text, and its escapes
        (
            b'{ "role" : "user", "content":"caf\\u00e9\\/\\ud83d" ,"x":1.0}',
            [PREFIX, APPEND],
            '{ "role" : "user", "content":"§1§ caf\\u00e9\\/\\ud83d\\n!" ,"x":1.0}'.encode(),
        ),
        (
            b'{"role":"user","content":"a"}',
            [Edit(Op.REPLACE_TEXT, 0, 'b"')],
            b'{"role":"user","content":"b\\""}',
        ),
        (
            user(b'{"text": "x", "type" : "text" , "text" : "y"}', CALL),
            [APPEND, Edit(Op.REPLACE_TEXT, 0, "z"), PREFIX],
            user('{"text": "x", "type" : "text" , "text" : "§1§ z\\n!"}'.encode(), CALL),
        ),
        # the part that is dropped to a placeholder, or to a sentinel, becomes text
        (
            user(IMAGE, TEXT),
            [Edit(Op.REPLACE_TEXT, 0, "[dropped §3§]")],
            user('{"type":"text","text":"[dropped §3§]"}'.encode(), TEXT),
        ),
        (
            assistant(THINKING, TEXT),
            [Edit(Op.REPLACE_TEXT, 0, "")],
            assistant(b'{"type":"text","text":""}', TEXT),
        ),
        # tool results
        (
            user(b'{"type":"tool_result","content" : "o\\u0041","tool_use_id":"t1"}'),
            [PREFIX],
            user('{"type":"tool_result","content" : "§1§ o\\u0041","tool_use_id":"t1"}'.encode()),
        ),
        (
            user(RESULT),
            [Edit(Op.REPLACE_OUTPUT, 0, "[dropped §1§]"), APPEND],
            user('{"type":"tool_result","tool_use_id":"t1","content":"[dropped §1§]\\n!"}'.encode()),
        ),
        (
            user(b'{"type":"tool_result","tool_use_id":"t1"}'),
            [Edit(Op.REPLACE_OUTPUT, 0, "gone"), Edit(Op.PREFIX, 0, "p ")],
            user(b'{"type":"tool_result","tool_use_id":"t1","content":"p gone"}'),
        ),
        (
            user(b'{"type":"tool_result","content":null,"tool_use_id":"t1"}'),
            [Edit(Op.REPLACE_OUTPUT, 0, "gone")],
            user(b'{"type":"tool_result","content":"gone","tool_use_id":"t1"}'),
        ),
        (
            user(b'{"type":"tool_result","tool_use_id":"t1","content":[' + IMAGE + b" , " + TEXT + b"]}"),
            [Edit(Op.REPLACE_OUTPUT, 0, "x")],
            user(
                b'{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"x"},'
                + IMAGE
                + b"]}"
            ),
        ),
        (
            user(b'{"type":"tool_result","tool_use_id":"t1","content":[' + IMAGE + b" , " + TEXT + b"]}"),
            [Edit(Op.REPLACE_OUTPUT, 0, "x", drop_attachments=True)],
            user(b'{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"x"}]}'),
        ),
        # design section 12 item 7
        (
            user(
                b'{"type":"tool_result","tool_use_id":"t1","content":['
                + IMAGE
                + b" , "
                + TEXT
                + b","
                + TEXT
                + b"]}"
            ),
            [Edit(Op.PREFIX, 0, "p "), Edit(Op.APPEND, 0, " a")],
            user(
                b'{"type":"tool_result","tool_use_id":"t1","content":['
                + IMAGE
                + b' , {"type":"text","text":"p hi"},{"type":"text","text":"hi a"}]}'
            ),
        ),
        (
            user(b'{"type":"tool_result","tool_use_id":"t1","content":[' + IMAGE + b"]}"),
            [Edit(Op.PREFIX, 0, "p")],
            user(
                b'{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"p"},'
                + IMAGE
                + b"]}"
            ),
        ),
        (
            user(b'{"type":"tool_result","tool_use_id":"t1","content":[' + IMAGE + b"]}"),
            [Edit(Op.APPEND, 0, "a")],
            user(
                b'{"type":"tool_result","tool_use_id":"t1","content":['
                + IMAGE
                + b',{"type":"text","text":"a"}]}'
            ),
        ),
        (
            user(b'{"type":"tool_result","tool_use_id":"t1","content":[ ]}'),
            [Edit(Op.APPEND, 0, "a"), Edit(Op.PREFIX, 0, "p ")],
            user(b'{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"p a"}]}'),
        ),
        # removal takes the comma along and leaves the rest
        (assistant(THINKING, TEXT, CALL), [Edit(Op.REMOVE, 0)], assistant(TEXT, CALL)),
        (assistant(TEXT, CALL, OPAQUE), [Edit(Op.REMOVE, 1)], assistant(TEXT, OPAQUE)),
        (
            assistant(TEXT, CALL),
            [Edit(Op.APPEND, 1 - 1, "!"), Edit(Op.REMOVE, 1)],
            assistant(b'{"type":"text","text":"hi!"}'),
        ),
        (assistant(TEXT, CALL), [Edit(Op.REPLACE_TEXT, 0, "x"), Edit(Op.REMOVE, 0)], assistant(CALL)),
        (assistant(TEXT, CALL), [Edit(Op.REMOVE, 0), Edit(Op.REMOVE, 1)], None),
        (b'{"role":"user","content":"x"}', [Edit(Op.REMOVE, 0)], None),
        (assistant(OPAQUE), [Edit(Op.REMOVE_MESSAGE)], None),
    ],
)
def test_an_edit_changes_these_bytes_and_no_others(
    raw: bytes, edits: list[Edit], expected: bytes | None
) -> None:
    assert codec.encode(raw, edits) == expected


def test_without_edits_the_object_is_the_same() -> None:
    raw = assistant(TEXT, CALL)
    assert codec.encode(raw, []) is raw


@pytest.mark.parametrize(
    ("raw", "edit"),
    [
        (user(TEXT), Edit(Op.REMOVE, 1)),
        (user(TEXT), Edit(Op.REMOVE)),
        (user(), Edit(Op.REMOVE, 0)),
        (user(TEXT), Edit(Op.REMOVE_MESSAGE, 0)),
        (user(TEXT), Edit(Op.REPLACE_OUTPUT, 0, "x")),
        (user(RESULT), Edit(Op.REPLACE_TEXT, 0, "x")),
        (assistant(CALL), Edit(Op.REPLACE_TEXT, 0, "x")),
        (assistant(CALL), Edit(Op.PREFIX, 0, "x")),
        (assistant(THINKING), Edit(Op.PREFIX, 0, "x")),
        (user(IMAGE), Edit(Op.APPEND, 0, "x")),
        (assistant(OPAQUE), Edit(Op.REMOVE, 0)),
        (assistant(OPAQUE), Edit(Op.REPLACE_TEXT, 0, "x")),
        (user(b'{"type":"tool_result","tool_use_id":"t1"}'), Edit(Op.PREFIX, 0, "x")),
    ],
)
def test_an_edit_that_does_not_fit_is_an_error(raw: bytes, edit: Edit) -> None:
    with pytest.raises(ValueError, match=r"part|fit"):
        codec.encode(raw, [edit])


# --- markers under edits -----------------------------------------------------------------------------

MARKED_TEXT = TEXT[:-1] + b"," + MARK + b"}"
MARKED_CALL = CALL[:-1] + b"," + MARK + b"}"
LIST_RESULT = b'{"type":"tool_result","tool_use_id":"t1","content":[%b]}'


@pytest.mark.parametrize(
    ("raw", "edits", "expected"),
    [
        (user(MARKED_TEXT), [PREFIX], user('{"type":"text","text":"§1§ hi",'.encode() + MARK + b"}")),
        (assistant(TEXT, MARKED_CALL), [Edit(Op.REMOVE, 1)], assistant(MARKED_TEXT)),
        (assistant(MARKED_TEXT, CALL), [Edit(Op.REMOVE, 0)], assistant(MARKED_CALL)),
        (assistant(TEXT, THINKING, MARKED_CALL), [Edit(Op.REMOVE, 2)], assistant(MARKED_TEXT, THINKING)),
        (assistant(TEXT, OPAQUE, MARKED_CALL), [Edit(Op.REMOVE, 2)], assistant(MARKED_TEXT, OPAQUE)),
        (assistant(THINKING, MARKED_CALL), [Edit(Op.REMOVE, 1)], assistant(THINKING)),
        (
            assistant(b'{"type":"text","text":"hi","cache_control":1}', MARKED_CALL),
            [Edit(Op.REMOVE, 1)],
            assistant(b'{"type":"text","text":"hi","cache_control":1}'),
        ),
        (
            user(TEXT, TEXT, MARKED_TEXT),
            [Edit(Op.REMOVE, 2), Edit(Op.REPLACE_TEXT, 1, "")],
            user(MARKED_TEXT, b'{"type":"text","text":""}'),
        ),
        (
            user(TEXT, MARKED_TEXT),
            [Edit(Op.REMOVE, 1), Edit(Op.APPEND, 0, "!")],
            user(b'{"type":"text","text":"hi!",' + MARK + b"}"),
        ),
        (
            user(IMAGE[:-1] + b"," + MARK + b"}"),
            [Edit(Op.REPLACE_TEXT, 0, "hi")],
            user(MARKED_TEXT),
        ),
        (user(TEXT, LIST_RESULT % MARKED_TEXT), [Edit(Op.REMOVE, 1)], user(MARKED_TEXT)),
        (
            user(LIST_RESULT % (TEXT + b"," + IMAGE[:-1] + b"," + MARK + b"}")),
            [Edit(Op.REPLACE_OUTPUT, 0, "hi", drop_attachments=True)],
            user(LIST_RESULT % MARKED_TEXT),
        ),
    ],
)
def test_markers_stay_or_move_to_the_last_block_that_can_carry_them(
    raw: bytes, edits: list[Edit], expected: bytes
) -> None:
    assert codec.encode(raw, edits) == expected
    assert codec.undecorate(expected) == codec.encode(codec.undecorate(raw), edits)
