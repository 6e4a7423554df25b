"""Tolerant JSONC parsing (config.md section 1)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magiccontext.config.jsonc import MAX_DEPTH, parse, strip_comments
from magiccontext.config.problems import Place


def test_it_reads_comments_trailing_commas_and_a_byte_order_mark() -> None:
    parsed = parse('\ufeff{ // why\n "a": 1, /* b */ "b": [1, 2,], }\n')
    assert parsed.value == {"a": 1, "b": [1, 2]}
    assert parsed.error is None


def test_two_slashes_inside_a_string_are_no_comment() -> None:
    assert parse('{"url": "http://x/*y*/", "a": 1}').value == {"url": "http://x/*y*/", "a": 1}


def test_blanked_comments_keep_every_other_character_in_its_place() -> None:
    text = '{ /* one\ntwo */ "a": 1 } // end'
    stripped = strip_comments(text)
    assert len(stripped) == len(text)
    assert stripped.index('"a"') == text.index('"a"')
    assert stripped.count("\n") == text.count("\n")


@pytest.mark.parametrize("text", ["", "  \n", "// only a comment\n", "\ufeff"])
def test_an_empty_file_is_a_parse_error(text: str) -> None:
    parsed = parse(text)
    assert parsed.error is not None
    assert parsed.value == {}


@pytest.mark.parametrize(
    ("text", "kept", "place"),
    [
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}, Place(1, 9)),
        ('{"a": 1,\n "b" 2,\n "c": 3}', {"a": 1, "c": 3}, Place(2, 6)),
        ('{"a": 1,\n "b": ,\n "c": 3}', {"a": 1, "c": 3}, Place(2, 7)),
        ('{"a": 1,\n "b": nope,\n "c": 3}', {"a": 1, "c": 3}, Place(2, 7)),
        ('{"a": 1,\n "b": "open,\n "c": 3}', {"a": 1, "c": 3}, Place(2, 7)),
        ('{"a": {"x": 1,\n', {"a": {"x": 1}}, Place(2, 1)),
        ('{"a": [1, 2}', {"a": [1, 2]}, Place(1, 12)),
        ('{"a": 1} trailing', {"a": 1}, Place(1, 10)),
        ('{a: 1, "b": 2}', {"b": 2}, Place(1, 2)),
        ('{"a": 01, "b": 2}', {"b": 2}, Place(1, 7)),
        ('{,"b": 2}', {"b": 2}, Place(1, 2)),
    ],
)
def test_what_can_be_read_of_a_broken_file_is_kept(text: str, kept: object, place: Place) -> None:
    parsed = parse(text)
    assert parsed.value == kept
    assert parsed.error is not None
    assert parsed.error[0] == place


@pytest.mark.parametrize("text", ["[]", "3", '"text"', "null"])
def test_a_root_that_is_no_object_counts_as_empty(text: str) -> None:
    parsed = parse(text)
    assert parsed.value == {}
    assert parsed.root_is_object is False


def test_unsafe_keys_are_removed_at_any_depth_and_named() -> None:
    parsed = parse('{"a": {"__proto__": {"x": 1}, "b": 2},\n "constructor": 1, "prototype": 2}')
    assert parsed.value == {"a": {"b": 2}}
    assert [dotted for _, dotted in parsed.unsafe] == ["a.__proto__", "constructor", "prototype"]
    assert parsed.unsafe[1][0] == Place(2, 2)


def test_every_value_has_its_place() -> None:
    parsed = parse('{\n  "a": {"b": 1},\n  "c": [1,\n 2]}')
    assert parsed.places[("a", "b")] == Place(2, 14)
    assert parsed.places[("c", 1)] == Place(4, 2)


def test_nesting_is_bounded_and_costs_only_the_nested_value() -> None:
    deep = "[" * (MAX_DEPTH + 5) + "]" * (MAX_DEPTH + 5)
    parsed = parse(f'{{"deep": {deep}, "b": 2}}')
    assert parsed.error is not None
    assert parsed.value["b"] == 2


def test_an_endless_number_does_not_stop_the_reader() -> None:
    assert parse('{"a": ' + "9" * 5000 + ', "b": 2}').value["b"] == 2


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=6), JSON_VALUES, max_size=4), st.booleans())
def test_every_json_object_reads_as_json_reads_it(value: dict[str, object], spaced: bool) -> None:
    parsed = parse(json.dumps(value, indent=2 if spaced else None))
    if not parsed.unsafe:
        assert parsed.value == value
    assert parsed.error is None


@given(st.text(alphabet='{}[]",:/*\\\n 1atruefalse', max_size=60))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    assert isinstance(parse(text).value, dict)
