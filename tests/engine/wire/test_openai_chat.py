"""OpenAI Chat: the index rule, what is refused, what an edit does to the bytes (hosts section 2)."""

from __future__ import annotations

import json

import pytest

from magiccontext.engine.transcript import InvalidMessage, Kind, Role
from magiccontext.engine.view import Edit, Op
from magiccontext.engine.wire import codec_for

codec = codec_for("openai-chat")

CALL = (
    b'{"id":"c1","type":"function","function":{"name":"read",'
    b'"arguments":"{\\"p\\": \\"\\\\u00e9\\", \\"n\\":1.0}"}}'
)
OTHER_CALL = b'{"id":"c2","function":{"arguments":"{}","name":"ls"}}'
TEXT = b'{"type":"text","text":"hi"}'
IMAGE = b'{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}'
MARK = b'"cache_control":{"type":"ephemeral"}'


def assistant(members: bytes) -> bytes:
    return b'{"role":"assistant",' + members + b"}"


def test_it_works() -> None:
    parsed = codec.parse(assistant(b'"tool_calls":[' + CALL + b'],"reasoning_content":"hm","content":"ok"'))
    assert parsed.role is Role.ASSISTANT
    text, reasoning, call = parsed.parts
    assert (text.index, text.kind, text.text) == (0, Kind.TEXT, "ok")
    assert (reasoning.index, reasoning.kind, reasoning.text) == (1, Kind.REASONING, "hm")
    assert (call.index, call.kind, call.call_id, call.name) == (2, Kind.TOOL_CALL, "c1", "read")
    assert call.arguments == b'{"p": "\\u00e9", "n":1.0}'
    assert call.size == len(CALL)


def test_the_index_rule_does_not_follow_the_order_of_members() -> None:
    raw = assistant(
        b'"refusal":"no","function_call":{"name":"f","arguments":""},"tool_calls":[%b,%b],"audio":{"id":"a"},'
        b'"reasoning_details":[{"type":"reasoning.encrypted"}],"reasoning":"r","reasoning_content":"rc",'
        b'"content":[%b,{"type":"refusal","refusal":"x"}]' % (CALL, OTHER_CALL, TEXT)
    )
    kinds = [part.kind for part in codec.parse(raw).parts]
    assert kinds == [
        Kind.TEXT,
        Kind.OPAQUE,
        Kind.REASONING,
        Kind.REASONING,
        Kind.REDACTED,
        Kind.TOOL_CALL,
        Kind.TOOL_CALL,
        Kind.OPAQUE,
        Kind.OPAQUE,
        Kind.OPAQUE,
    ]
    assert [part.text for part in codec.parse(raw).parts if part.kind is Kind.REASONING] == ["rc", "r"]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_system_and_developer_messages_lead(role: str) -> None:
    parsed = codec.parse(b'{"role":"%b","content":"be brief"}' % role.encode())
    assert parsed.role is Role.SYSTEM
    assert codec.is_leading_system(parsed)
    assert not codec.is_leading_system(codec.parse(b'{"role":"user","content":"x"}'))


@pytest.mark.parametrize(
    ("content", "text", "present", "attachments", "size"),
    [
        (b',"content":"out"', "out", True, 0, 0),
        (b',"content":[%b,%b]' % (TEXT, TEXT), "hi\nhi", True, 0, 0),
        (b',"content":[%b,%b]' % (TEXT, IMAGE), "hi", True, 1, 4),
        (b',"content":null', "", False, 0, 0),
        (b"", "", False, 0, 0),
    ],
)
def test_tool_messages_are_one_result(
    content: bytes, text: str, present: bool, attachments: int, size: int
) -> None:
    (part,) = codec.parse(b'{"role":"tool","tool_call_id":"c1"' + content + b"}").parts
    assert (part.index, part.kind, part.call_id, part.text) == (0, Kind.TOOL_RESULT, "c1", text)
    assert (part.has_output, part.attachments, part.data_size) == (present, attachments, size)


@pytest.mark.parametrize(
    ("item", "mime", "size"),
    [
        (IMAGE, "image/png", 4),
        (b'{"type":"image_url","image_url":"https://x/y.png"}', "", 0),
        (b'{"type":"input_audio","input_audio":{"data":"QUJDRA","format":"wav"}}', "audio/wav", 6),
        (
            b'{"type":"file","file":{"filename":"a","file_data":"data:application/pdf;base64,QQ"}}',
            "application/pdf",
            2,
        ),
        (b'{"type":"file","file":{"file_id":"f1"}}', "", 0),
    ],
)
def test_media_items(item: bytes, mime: str, size: int) -> None:
    (part,) = codec.parse(b'{"role":"user","content":[' + item + b"]}").parts
    assert (part.kind, part.mime, part.data_size) == (Kind.MEDIA, mime, size)


def test_calls_of_other_types() -> None:
    custom = b'{"id":"c3","type":"custom","custom":{"name":"patch","input":"*** {\\ud800"}}'
    parts = codec.parse(assistant(b'"content":null,"tool_calls":[%b,{"type":"soon"}]' % custom)).parts
    assert (parts[0].kind, parts[0].name, parts[0].arguments) == (
        Kind.TOOL_CALL,
        "patch",
        b'"*** {\\ud800"',
    )
    assert parts[1].kind is Kind.OPAQUE


def test_arguments_survive_as_the_json_they_are() -> None:
    text = '{"a":"\ud800","n":' + "9" * 5000 + ',"a":"\\u0000\\ud83d"}'
    raw = assistant(
        b'"tool_calls":[{"id":"c","function":{"name":"f","arguments":' + json.dumps(text).encode() + b"}}]"
    )
    (part,) = codec.parse(raw).parts
    assert part.arguments == text.replace("\ud800", "\\ud800").encode()


def test_unknown_roles_are_opaque() -> None:
    parsed = codec.parse(b'{"role":"function","name":"f","content":"x"}')
    assert (parsed.role, [part.kind for part in parsed.parts]) == (Role.OTHER, [Kind.OPAQUE])
    assert codec.parse(b'{"role":"critic","content":[1,{}]}').parts[1].kind is Kind.OPAQUE


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"[]", ""),
        (b'{"content":"x"}', "role"),
        (b'{"role":"user"}', "content"),
        (b'{"role":"user","content":null}', "content"),
        (b'{"role":"assistant","content":7}', "content"),
        (b'{"role":"user","content":[{"type":"text"}]}', "content[0].text"),
        (b'{"role":"user","content":[{"type":"image_url"}]}', "content[0].image_url"),
        (b'{"role":"tool","content":"x"}', "tool_call_id"),
        (b'{"role":"tool","tool_call_id":"c","content":{}}', "content"),
        (b'{"role":"tool","tool_call_id":"c","content":[{"type":"text"}]}', "content[0].text"),
        (assistant(b'"tool_calls":{}'), "tool_calls"),
        (assistant(b'"tool_calls":[7]'), "tool_calls[0]"),
        (assistant(b'"tool_calls":[{"id":"c"}]'), "tool_calls[0].function"),
        (
            assistant(b'"tool_calls":[%b,{"id":"c","function":{"name":"f"}}]' % CALL),
            "tool_calls[1].function.arguments",
        ),
        (assistant(b'"tool_calls":[{"id":"c","function":{"arguments":""}}]'), "tool_calls[0].function.name"),
        (assistant(b'"tool_calls":[{"function":{"name":"f","arguments":""}}]'), "tool_calls[0].id"),
    ],
)
def test_a_refusal_names_the_field(raw: bytes, field: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        codec.parse(raw)
    assert caught.value.field == field


def test_markers_leave_no_trace_on_parts_calls_and_messages() -> None:
    call = CALL[:-1] + b"," + MARK + b"}"
    decorated = b'{%b,"role":"assistant","content":[{"type":"text",%b,"text":"hi"}],"tool_calls":[%b]}'
    plain = b'{"role":"assistant","content":[' + TEXT + b'],"tool_calls":[' + CALL + b"]}"
    assert codec.undecorate(decorated % (MARK, MARK, call)) == plain
    assert codec.undecorate(plain) is plain
    quoted = b'{"role":"user","content":"\\"cache_control\\"","x":{' + MARK + b"}}"
    assert codec.undecorate(quoted) is quoted


REMOVE_0, REMOVE_1, REMOVE_2 = Edit(Op.REMOVE, 0), Edit(Op.REMOVE, 1), Edit(Op.REMOVE, 2)


@pytest.mark.parametrize(
    ("raw", "edits", "expected"),
    [
        (
            b'{ "role" :"user","content": "a\\u0041" }',
            [Edit(Op.PREFIX, 0, "§1§ "), Edit(Op.APPEND, 0, "\n")],
            '{ "role" :"user","content": "§1§ a\\u0041\\n" }'.encode(),
        ),
        (
            b'{"role":"user","content":[ %b , %b ]}' % (IMAGE, TEXT),
            [Edit(Op.REPLACE_TEXT, 0, "[dropped]"), Edit(Op.PREFIX, 1, "p ")],
            b'{"role":"user","content":[ {"type":"text","text":"[dropped]"} , '
            b'{"type":"text","text":"p hi"} ]}',
        ),
        (
            b'{"role":"tool","tool_call_id":"c1","content":"out"}',
            [Edit(Op.REPLACE_OUTPUT, 0, "gone"), Edit(Op.PREFIX, 0, "p ")],
            b'{"role":"tool","tool_call_id":"c1","content":"p gone"}',
        ),
        (
            b'{"role":"tool","content":[%b,%b],"tool_call_id":"c1"}' % (TEXT, TEXT),
            [Edit(Op.REPLACE_OUTPUT, 0, "gone", drop_attachments=True)],
            b'{"role":"tool","content":[{"type":"text","text":"gone"}],"tool_call_id":"c1"}',
        ),
        (b'{"role":"tool","tool_call_id":"c1","content":"out"}', [REMOVE_0], None),
        (b'{"role":"user","content":"x"}', [REMOVE_0], None),
        (b'{"role":"user","content":[%b]}' % TEXT, [REMOVE_0], None),
        (
            b'{"role":"user","content":[%b,%b]}' % (TEXT, IMAGE),
            [REMOVE_1],
            b'{"role":"user","content":[%b]}' % TEXT,
        ),
        (b'{"role":"function","content":"x"}', [Edit(Op.REMOVE_MESSAGE)], None),
        # content beside calls
        (
            assistant(b'"content":"x","tool_calls":[%b]' % CALL),
            [REMOVE_0],
            assistant(b'"content":null,"tool_calls":[%b]' % CALL),
        ),
        (
            assistant(b'"content":[%b],"tool_calls":[%b]' % (TEXT, CALL)),
            [REMOVE_0],
            assistant(b'"content":null,"tool_calls":[%b]' % CALL),
        ),
        # calls
        (
            assistant(b'"content":"x","tool_calls":[%b, %b]' % (CALL, OTHER_CALL)),
            [REMOVE_1],
            assistant(b'"content":"x","tool_calls":[%b]' % OTHER_CALL),
        ),
        (
            assistant(b'"content":"x", "tool_calls":[%b,%b] ' % (CALL, OTHER_CALL)),
            [REMOVE_1, REMOVE_2],
            assistant(b'"content":"x" '),
        ),
        (
            assistant(b'"tool_calls":[%b],"content":"x","tool_calls":[%b]' % (OTHER_CALL, CALL)),
            [REMOVE_1],
            assistant(b'"content":"x"'),
        ),
        (assistant(b'"content":null,"tool_calls":[%b]' % CALL), [REMOVE_0], None),
        (assistant(b'"tool_calls":[%b]' % CALL), [REMOVE_0], None),
        (assistant(b'"content":"","tool_calls":[%b]' % CALL), [REMOVE_1], None),
        (
            assistant(b'"content":"x","tool_calls":[%b]' % CALL),
            [REMOVE_1, Edit(Op.REPLACE_TEXT, 0, "")],
            None,
        ),
        (assistant(b'"content":null,"reasoning_content":"r","tool_calls":[%b]' % CALL), [REMOVE_1], None),
        (
            assistant(b'"content":null,"refusal":"no","tool_calls":[%b]' % CALL),
            [REMOVE_0],
            assistant(b'"content":null,"refusal":"no"'),
        ),
        # reasoning
        (
            assistant(b'"reasoning":"r","content":"x","reasoning_details":[1]'),
            [REMOVE_1, REMOVE_2],
            assistant(b'"content":"x"'),
        ),
        (assistant(b'"reasoning_content":"r","content":""'), [REMOVE_1], None),
    ],
)
def test_an_edit_changes_these_bytes_and_no_others(
    raw: bytes, edits: list[Edit], expected: bytes | None
) -> None:
    assert codec.encode(raw, edits) == expected


def test_without_edits_the_object_is_the_same() -> None:
    raw = assistant(b'"content":"x"')
    assert codec.encode(raw, ()) is raw


@pytest.mark.parametrize(
    ("raw", "edit"),
    [
        (assistant(b'"content":"x"'), REMOVE_1),
        (assistant(b'"content":null'), REMOVE_0),
        (assistant(b'"content":"x"'), Edit(Op.REPLACE_OUTPUT, 0, "y")),
        (assistant(b'"reasoning":"x"'), Edit(Op.REPLACE_TEXT, 0, "y")),
        (assistant(b'"tool_calls":[%b]' % CALL), Edit(Op.PREFIX, 0, "y")),
        (assistant(b'"function_call":{}'), REMOVE_0),
        (b'{"role":"function","content":"x"}', Edit(Op.PREFIX, 0, "y")),
        (b'{"role":"tool","tool_call_id":"c"}', Edit(Op.APPEND, 0, "y")),
        (b'{"role":"tool","tool_call_id":"c","content":"x"}', REMOVE_1),
    ],
)
def test_an_edit_that_does_not_fit_is_an_error(raw: bytes, edit: Edit) -> None:
    with pytest.raises(ValueError, match=r"part|fit"):
        codec.encode(raw, [edit])


@pytest.mark.parametrize(
    ("raw", "edits", "expected"),
    [
        (
            b'{"role":"user","content":[%b,{"type":"text","text":"b",%b}]}' % (TEXT, MARK),
            [REMOVE_1],
            b'{"role":"user","content":[{"type":"text","text":"hi",%b}]}' % MARK,
        ),
        (
            assistant(b'"content":"x","tool_calls":[%b,%b,%b}]' % (CALL, OTHER_CALL[:-1], MARK)),
            [REMOVE_2],
            assistant(b'"content":"x","tool_calls":[%b,%b}]' % (CALL[:-1], MARK)),
        ),
        (
            assistant(b'%b,"content":"x","tool_calls":[%b]' % (MARK, CALL)),
            [REMOVE_0],
            assistant(b'%b,"content":null,"tool_calls":[%b]' % (MARK, CALL)),
        ),
        (
            b'{"role":"user","content":[{"type":"text","text":"b",%b}]}' % MARK,
            [Edit(Op.PREFIX, 0, "a")],
            b'{"role":"user","content":[{"type":"text","text":"ab",%b}]}' % MARK,
        ),
    ],
)
def test_markers_stay_or_move_within_their_list(raw: bytes, edits: list[Edit], expected: bytes) -> None:
    assert codec.encode(raw, edits) == expected
    assert codec.undecorate(expected) == codec.encode(codec.undecorate(raw), edits)
