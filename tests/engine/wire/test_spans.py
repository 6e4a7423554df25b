"""The JSON reader that never decodes: slices, places of faults, depth, strings (design section 4)."""

from __future__ import annotations

import json

import pytest

from magiccontext.engine.wire.base import MAX_DEPTH
from magiccontext.engine.wire.spans import (
    InvalidJson,
    Member,
    check_depth,
    decode_string,
    encode_string,
    encode_text,
    read_array,
    read_object,
    split_array,
    split_body,
    split_object,
    string_leaves_size,
)


def test_it_works() -> None:
    body = b'{"model":"m", "messages" : [ {"role":"user"} ,{"role":"assistant"}], "n": 1.50e+3}'
    members = split_body(body)
    assert members["n"] == b"1.50e+3"
    assert members["model"] == b'"m"'
    assert read_array(members["messages"], above=1) == [b'{"role":"user"}', b'{"role":"assistant"}']


def test_the_last_duplicate_wins_and_places_keep_all_of_them() -> None:
    raw = b' {"a":1 , "b":[ ],"a" : {"x":2}} '
    assert read_object(raw) == {"a": b'{"x":2}', "b": b"[ ]"}
    members = split_object(raw)
    assert [(member.key, raw[member.value_start : member.value_end]) for member in members] == [
        ("a", b"1"),
        ("b", b"[ ]"),
        ("a", b'{"x":2}'),
    ]
    assert members[0] == Member("a", 2, 6, 7)


def test_empty_containers_have_no_spans() -> None:
    assert split_object(b"{ }") == []
    assert split_array(b" [ ]\n") == []


def test_lone_surrogates_pass_both_ways_of_reading() -> None:
    item = b'"cut \\ud83d here \\\\ud83d and a pair \\ud83d\\ude00"'
    assert read_array(b"[" + item + b",1]") == [item, b"1"]
    assert read_object(b'{"a":' + item + b"}") == {"a": item}
    assert split_body(b'{"\\udc00":' + item + b"}") == {"\udc00": item}
    assert decode_string(item) == "cut \ud83d here \\ud83d and a pair \U0001f600"


def test_huge_numbers_and_nul_escapes_are_just_bytes() -> None:
    number = b"-" + b"9" * 6000
    assert split_body(b'{"n":' + number + b',"s":"\\u0000"}') == {"n": number, "s": b'"\\u0000"'}


@pytest.mark.parametrize(
    ("body", "position"),
    [
        (b"", 0),
        (b"[1]", 0),
        (b'\xef\xbb\xbf{"a":1}', 0),
        (b'{"a":1', 6),
        (b'{"a":1,}', 7),
        (b'{"a" 1}', 5),
        (b"{a:1}", 1),
        (b'{"a":NaN}', 5),
        (b'{"a":-Infinity}', 5),
        (b'{"a":Infinity}', 5),
        (b'{"a":01}', 6),
        (b'{"a":1.}', 6),
        (b'{"a":1] ', 6),
        (b'{"a":[1}', 7),
        (b'{"a":[1 2]}', 8),
        (b'{"a":"x', 7),
        (b'{"a":"x\ny"}', 7),
        (b'{"a":"\\x"}', 6),
        (b'{"a":"\\ud8zz"}', 6),
        (b'{"a":1} x', 8),
        (b'{"a":tru}', 5),
        (b'{"a":"\xff"}', 6),
        (b'{"a":"\xed\xa0\x80"}', 6),
    ],
)
def test_broken_bodies_are_refused_at_their_place(body: bytes, position: int) -> None:
    with pytest.raises(InvalidJson) as caught:
        split_body(body)
    assert caught.value.position == position
    assert str(position) in str(caught.value)


@pytest.mark.parametrize("raw", [b"[1,]", b"[,1]", b"[1", b"[1}", b"{}", b'["\\ud800",tru]', b"[[1}]", b"["])
def test_broken_arrays_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidJson):
        read_array(raw)
    with pytest.raises(InvalidJson):
        split_array(raw)


@pytest.mark.parametrize("filler", [b"", b'"\\ud800",'], ids=["fast", "scanned"])
def test_depth_is_counted_from_the_body_on_every_way(filler: bytes) -> None:
    def nested(levels: int) -> bytes:
        return b"[" * levels + filler + b"0" + b"]" * levels

    inside_object = b'{"o":{"k":%b}}'
    assert split_body(inside_object % nested(MAX_DEPTH - 2))
    with pytest.raises(InvalidJson, match="nested deeper"):
        split_body(inside_object % nested(MAX_DEPTH - 1))
    check_depth(nested(MAX_DEPTH - 2), above=2)
    with pytest.raises(InvalidJson, match="nested deeper"):
        check_depth(nested(MAX_DEPTH - 1), above=2)


def test_many_brackets_in_strings_are_not_depth() -> None:
    check_depth(b'["' + b"[{" * 5000 + b'"]')
    check_depth(b"[" + b"[]," * 5000 + b"{}]")


@pytest.mark.parametrize("opener", [b"[", b'{"a":', b'[{"a":'])
def test_a_bomb_is_refused_without_recursion(opener: bytes) -> None:
    with pytest.raises(InvalidJson):
        split_body(b'{"messages":' + opener * 200_000)
    with pytest.raises(InvalidJson):
        read_array(b"[" + opener * 200_000)


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("plain", b'"plain"'),
        ("§1§ é \U0001f600", '"§1§ é \U0001f600"'.encode()),
        ('"\\/', b'"\\"\\\\/"'),
        ("\b\f\n\r\t", b'"\\b\\f\\n\\r\\t"'),
        ("\x00\x1f\x7f\u2028", b'"\\u0000\\u001f\x7f\xe2\x80\xa8"'),
        ("\ud83d", b'"\\ud83d"'),
        ("\udeadé", b'"\\udead\xc3\xa9"'),
        ("\ud83d\ude00", '"\U0001f600"'.encode()),
    ],
)
def test_strings_are_escaped_as_json_stringify_does(text: str, literal: bytes) -> None:
    assert encode_string(text) == literal
    assert decode_string(literal) == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@pytest.mark.parametrize(
    "literal", [b"", b"1", b'"a', b'"a"b"', b'"\n"', b'"\xff"', b"null", b'"\\ud800\xff"']
)
def test_what_is_not_a_string_literal_is_refused(literal: bytes) -> None:
    with pytest.raises(InvalidJson):
        decode_string(literal)


def test_json_text_with_lone_surrogates_stays_json() -> None:
    assert json.loads(encode_text('{"a":"\ud800"}')) == {"a": "\ud800"}


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        (b"{}", 0),
        (b'{"path":"/a"}', 2),
        (b'{"path" : "/a", "deep":[{"k":"bc"}, "d", 12345, true, null]}', 5),
        ('{"é":"é"}'.encode(), 2),
        (b'{"a":"\\u00e9\\n"}', 3),
        (b'{"a":"\\ud800"}', 3),
        (b'{"a":"\\ud83d\\ude00"}', 4),
        (b'"custom tool input: {"', 20),
        (b'{"a":"b"', 8),
        (b"not json", 8),
        (b'{"a":"\xff"}', 9),
        (b"", 0),
        (b"[" * 300 + b"]" * 300, 600),
        (b"[" * 100_000, 100_000),
    ],
)
def test_only_string_values_count_as_input(arguments: bytes, size: int) -> None:
    """reclaim-core section 3, "Small"; what is not JSON counts whole."""
    assert string_leaves_size(arguments) == size
