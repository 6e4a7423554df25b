"""Splicing against an independent model: whatever a host writes, an edit of the bytes is the edit of the
object, what is not edited keeps its bytes, and broken bytes are refused, never worse (hosts section 2.2).
"""

from __future__ import annotations

import copy
import json
import random
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magiccontext.engine.transcript import InvalidMessage, Kind
from magiccontext.engine.view import Edit, Op
from magiccontext.engine.wire import FORMATS, codec_for
from magiccontext.engine.wire.spans import InvalidJson, encode_string, read_array, read_object, split_array

Pairs = list[tuple[str, Any]]
"""An object as its members in order, so that duplicates can be written."""

MARK = "cache_control"
TEXTS = st.text(
    st.one_of(
        st.characters(max_codepoint=0x7F),
        st.sampled_from('\\"/\x00\n§é\u2028\U0001f600\ud83d\ude00'),
        st.sampled_from("{}[]:,"),
    ),
    max_size=12,
) | st.sampled_from(["", MARK, f'"{MARK}":1', "[dropped §1§]"])
# Names are kept as identifiers: no NUL, no half surrogate.
NAMES = TEXTS.filter(lambda text: not re.search("[\x00\ud800-\udfff]", text))
SCALARS = st.one_of(
    TEXTS, st.booleans(), st.none(), st.integers(-(10**40), 10**40), st.sampled_from([1.0, -0.0, 1e400])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


class Writer:
    """Writes JSON as some host might: odd spaces, odd escapes."""

    def __init__(self, seed: int, compact: bool = False) -> None:
        self.random = random.Random(seed)
        self.spaces = [""] if compact else ["", "", "", " ", "\n\t", "\r\n  "]
        self.escapes = 0.0 if compact else 0.1

    def gap(self) -> str:
        return self.random.choice(self.spaces)

    def string(self, text: str) -> str:
        pieces = []
        for char in text:
            if 0xD800 <= ord(char) <= 0xDFFF or self.random.random() < self.escapes:
                units = char.encode("utf-16-be", "surrogatepass")
                pieces += [f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2)]
            else:
                pieces.append(json.dumps(char, ensure_ascii=False)[1:-1])
        return '"' + "".join(pieces) + '"'

    def write(self, value: Any) -> str:
        if isinstance(value, str):
            return self.string(value)
        if isinstance(value, Raw):
            return value.text
        if isinstance(value, dict):
            value = list(value.items()) if value else ()
        if isinstance(value, list) and value and isinstance(value[0], tuple):
            members = [f"{self.key(k)}{self.gap()}:{self.gap()}{self.write(v)}" for k, v in value]
            return self.enclosed("{", members, "}")
        if value == ():
            return "{" + self.gap() + "}"
        if isinstance(value, list):
            return self.enclosed("[", [self.write(item) for item in value], "]")
        return json.dumps(value).replace("Infinity", "1e400")

    def key(self, key: str) -> str:
        return f'"{MARK}"' if key == MARK else self.string(key)

    def enclosed(self, left: str, items: list[str], right: str) -> str:
        joined = "".join(
            (self.gap() + "," + self.gap() if place else "") + item for place, item in enumerate(items)
        )
        return left + self.gap() + joined + self.gap() + right


@dataclass(frozen=True)
class Raw:
    """A value that is written already."""

    text: str


class Case(NamedTuple):
    format: str
    raw: bytes
    plain: bytes  # the same message without markers
    written: dict[str, list[bytes]]  # the elements of each list of parts, by the member they stand in


@st.composite
def members(draw: st.DrawFn, *known: tuple[str, Any]) -> Pairs:
    """The known members with strange ones between, and now and then an earlier duplicate."""
    pairs: Pairs = list(known)
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from(["x", "extra", "é", *(key for key, _ in known)]))
        last = max((i for i, (key, _) in enumerate(pairs) if key == name), default=len(pairs))
        pairs.insert(draw(st.integers(0, last)), (name, draw(VALUES)))
    return pairs


@st.composite
def anthropic_block(draw: st.DrawFn, kinds: tuple[str, ...]) -> Pairs:
    kind = draw(st.sampled_from(kinds))
    known: dict[str, list[tuple[str, Any]]] = {
        "text": [("text", draw(TEXTS))],
        "thinking": [("thinking", draw(TEXTS)), ("signature", "c2ln")],
        "redacted_thinking": [("data", "ZGF0YQ")],
        "tool_use": [("id", "t1"), ("name", "read"), ("input", draw(VALUES))],
        "image": [("source", {"type": "base64", "media_type": "image/png", "data": "QUJD"})],
        "soon": [("data", draw(VALUES))],
    }
    if kind == "tool_result":
        inner = st.lists(anthropic_block(("text", "image", "soon")), max_size=3)
        content = draw(st.one_of(TEXTS, inner, st.just(None)))
        known[kind] = [("tool_use_id", "t1"), *([] if content is None else [("content", content)])]
    return draw(members(("type", kind), *known[kind]))


def marked(pairs: Pairs, chance: random.Random, depth: int = 0) -> Pairs:
    """The block, perhaps with a marker somewhere; a tool result's blocks likewise."""
    block = [
        (k, [marked(item, chance, 1) for item in v] if k == "content" and is_blocks(v) and not depth else v)
        for k, v in pairs
    ]
    if dict(block)["type"] != "tool_result" or depth:
        block = pairs
    if chance.random() < 0.4:
        block = list(block)
        block.insert(chance.randint(0, len(block)), (MARK, {"type": "ephemeral"}))
    return block


def is_blocks(value: Any) -> bool:
    """Whether a list holds blocks as this module writes them, and not values that happen to be lists."""

    def is_block(item: Any) -> bool:
        return isinstance(item, list) and any(isinstance(pair, tuple) for pair in item)

    return isinstance(value, list) and all(map(is_block, value))


KINDS = ("text", "text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "soon")


@st.composite
def anthropic_case(draw: st.DrawFn, compact: bool = False, markers: bool = True) -> Case:
    content = draw(st.one_of(TEXTS, st.lists(anthropic_block(KINDS), max_size=5)))
    seed = draw(st.integers(0, 2**32))
    outer = draw(members(("role", draw(st.sampled_from(["user", "assistant"]))), ("content", content)))
    return _case("anthropic", outer, {"content"}, seed, compact, markers)


@st.composite
def openai_case(draw: st.DrawFn, compact: bool = False, markers: bool = True) -> Case:
    role = draw(st.sampled_from(["user", "assistant", "assistant", "tool"]))
    text = st.builds(lambda value: [("type", "text"), ("text", value)], TEXTS)
    image = st.just([("type", "image_url"), ("image_url", {"url": "data:image/png;base64,QQ"})])
    refusal = st.just([("type", "refusal"), ("refusal", "no")])
    items = st.lists(st.one_of(text, image, refusal), max_size=3)
    known: Pairs = [("role", role), ("content", draw(st.one_of(TEXTS, items)))]
    if role == "tool":
        known.append(("tool_call_id", "c1"))
    if role == "assistant":
        for key in draw(st.sets(st.sampled_from(["reasoning_content", "reasoning"]))):
            known.append((key, draw(TEXTS)))
        names = draw(st.lists(NAMES, max_size=3))
        call = [
            [("id", "c"), ("function", [("name", n), ("arguments", n)]), ("type", "function")] for n in names
        ]
        if call:
            known.append(("tool_calls", call))
    seed = draw(st.integers(0, 2**32))
    outer = draw(members(*draw(st.permutations(known))))
    return _case("openai-chat", outer, {"content", "tool_calls"}, seed, compact, markers)


def _case(format: str, outer: Pairs, lists: set[str], seed: int, compact: bool, markers: bool) -> Case:
    """Write the message twice with the same chance, so that marked and plain differ in markers only."""
    chance = random.Random(seed)
    last = {key: place for place, (key, _) in enumerate(outer)}
    decorated: Pairs = []
    written: dict[str, list[bytes]] = {}
    for place, (key, value) in enumerate(outer):
        if key in lists and place == last[key] and is_blocks(value):
            blocks = [marked(block, chance) if markers else block for block in value]
            texts = [Writer(seed + n, compact).write(block) for n, block in enumerate(blocks)]
            written[key] = [text.encode() for text in texts]
            decorated.append((key, [Raw(text) for text in texts]))
        else:
            decorated.append((key, value))
    raw = Writer(seed, compact).write(decorated).encode()
    return Case(format, raw, Writer(seed, compact).write(outer).encode(), written)


CASES = st.one_of(anthropic_case(), openai_case())
PLAIN = st.one_of(anthropic_case(markers=False), openai_case(markers=False))

FITTING: dict[Kind, tuple[Op, ...]] = {
    Kind.TEXT: (Op.REMOVE, Op.REPLACE_TEXT, Op.PREFIX, Op.APPEND),
    Kind.TOOL_RESULT: (Op.REMOVE, Op.REPLACE_OUTPUT, Op.PREFIX, Op.APPEND),
    Kind.MEDIA: (Op.REMOVE, Op.REPLACE_TEXT),
    Kind.REASONING: (Op.REMOVE,),
    Kind.REDACTED: (Op.REMOVE,),
    Kind.TOOL_CALL: (Op.REMOVE,),
}


@st.composite
def edits_for(draw: st.DrawFn, case: Case) -> list[Edit]:
    edits: list[Edit] = []
    for part in codec_for(case.format).parse(case.raw).parts:
        fitting = FITTING.get(part.kind, ())
        if part.kind is Kind.TOOL_RESULT and not part.has_output:
            fitting = (Op.REMOVE, Op.REPLACE_OUTPUT)
        for op in draw(st.sets(st.sampled_from(fitting), max_size=2)) if fitting else ():
            edits.append(Edit(op, part.index, draw(TEXTS), draw(st.booleans())))
    return draw(st.permutations(edits))


# --- the model: the same edits on decoded objects ------------------------------------------------------


def model_text(text: str, edit: Edit) -> str:
    if edit.op is Op.PREFIX:
        return edit.text + text
    return text + edit.text if edit.op is Op.APPEND else edit.text


def model_output(output: Any, edit: Edit) -> Any:
    if not isinstance(output, list):
        return model_text(output or "", edit)
    new = {"type": "text", "text": edit.text}
    texts = [block for block in output if block["type"] == "text"]
    if edit.op is Op.REPLACE_OUTPUT:
        return [new, *([] if edit.drop_attachments else [b for b in output if b["type"] != "text"])]
    if not texts:
        return [new, *output] if edit.op is Op.PREFIX else [*output, new]
    target = texts[0] if edit.op is Op.PREFIX else texts[-1]
    target["text"] = model_text(target["text"], edit)
    return output


def model_blocks(blocks: list[Any], edits: list[Edit], first: int = 0) -> list[Any]:
    gone = object()
    for edit in edits:
        place = (edit.part or 0) - first
        if not 0 <= place < len(blocks) or blocks[place] is gone:
            continue
        block = blocks[place]
        if edit.op is Op.REMOVE:
            blocks[place] = gone
        elif block["type"] == "tool_result":
            block["content"] = model_output(block.get("content"), edit)
        elif block["type"] == "text":
            block["text"] = model_text(block["text"], edit)
        else:
            blocks[place] = {"type": "text", "text": edit.text}
    return [block for block in blocks if block is not gone]


def in_order(edits: list[Edit]) -> list[Edit]:
    return sorted(edits, key=lambda edit: list(Op).index(edit.op))


def model_content(message: dict[str, Any], edits: list[Edit]) -> Any:
    content = message["content"]
    if isinstance(content, list):
        return model_blocks(content, edits)
    for edit in (edit for edit in edits if edit.part == 0):
        if edit.op is Op.REMOVE:
            return None
        content = model_text(content, edit)
    return content


def model_anthropic(message: dict[str, Any], edits: list[Edit]) -> dict[str, Any] | None:
    message["content"] = model_content(message, in_order(edits))
    return message if not edits or message["content"] or isinstance(message["content"], str) else None


def model_openai(message: dict[str, Any], edits: list[Edit]) -> dict[str, Any] | None:
    edits = in_order(edits)
    removed = {edit.part for edit in edits if edit.op is Op.REMOVE}
    if message["role"] == "tool":
        for edit in edits:
            message["content"] = model_output(message["content"], edit)
        return None if removed else message
    content = message["content"]
    count = len(content) if isinstance(content, list) else 1
    had_items = bool(content) or isinstance(content, str)
    message["content"] = model_content(message, edits)
    if had_items and message["content"] == []:
        message["content"] = None
    for key in ("reasoning_content", "reasoning") if message["role"] == "assistant" else ():
        if isinstance(message.get(key), str):
            if count in removed:
                del message[key]
            count += 1
    if message["role"] == "assistant" and message.get("tool_calls"):
        calls = message["tool_calls"]
        message["tool_calls"] = [call for place, call in enumerate(calls, count) if place not in removed]
        if not message["tool_calls"]:
            del message["tool_calls"]
    if removed and not message["content"] and not message.get("tool_calls"):
        return None
    return message


MODELS = {"anthropic": model_anthropic, "openai-chat": model_openai}


def comparable(value: Any) -> Any:
    """Halves of a pair that came to stand side by side are the character, as JavaScript has it."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, dict):
        return {comparable(key): comparable(item) for key, item in value.items()}
    return repr(value)


# --- properties ----------------------------------------------------------------------------------------


@given(CASES)
def test_no_edit_returns_the_object_itself(case: Case) -> None:
    assert codec_for(case.format).encode(case.raw, []) is case.raw
    codec_for(case.format).parse(codec_for(case.format).undecorate(case.raw))


@settings(max_examples=300)
@given(st.data())
def test_editing_bytes_is_editing_the_object(data: st.DataObject) -> None:
    case = data.draw(PLAIN)
    edits = data.draw(edits_for(case))
    result = codec_for(case.format).encode(case.raw, edits)
    expected = MODELS[case.format](copy.deepcopy(json.loads(case.raw)), edits)
    if expected is None:
        assert result is None
    else:
        assert result is not None
        assert comparable(json.loads(result)) == comparable(expected)
        assert list(json.loads(result)) == list(expected)


@settings(max_examples=200)
@given(st.data())
def test_untouched_siblings_keep_their_bytes(data: st.DataObject) -> None:
    case = data.draw(PLAIN)
    edits = data.draw(edits_for(case))
    result = codec_for(case.format).encode(case.raw, edits)
    parts = codec_for(case.format).parse(case.raw).parts
    if result is None or (parts[:1] and parts[0].kind is Kind.TOOL_RESULT and case.format == "openai-chat"):
        return
    touched = {edit.part for edit in edits}
    for key, texts in case.written.items():
        calls = [part for part in parts if part.kind is Kind.TOOL_CALL]
        listed = parts if key == "content" else calls
        kept = [text for part, text in zip(listed, texts, strict=False) if part.index not in touched]
        if kept:
            left = iter(read_array(read_object(result)[key]))
            assert all(text in left for text in kept)  # a subsequence: `in` consumes the iterator


@settings(max_examples=300)
@given(st.data())
def test_editing_and_taking_markers_off_commute(data: st.DataObject) -> None:
    case = data.draw(CASES)
    codec = codec_for(case.format)
    edits = data.draw(edits_for(case))
    marked_result = codec.encode(case.raw, edits)
    plain_result = codec.encode(codec.undecorate(case.raw), edits)
    assert plain_result == (None if marked_result is None else codec.undecorate(marked_result))


@given(st.one_of(anthropic_case(compact=True), openai_case(compact=True)))
def test_in_compact_json_a_marker_leaves_no_trace(case: Case) -> None:
    codec = codec_for(case.format)
    unmarked = codec.undecorate(case.raw)
    assert unmarked == case.plain
    assert codec.undecorate(unmarked) is unmarked


@given(TEXTS)
def test_an_encoded_string_reads_back(text: str) -> None:
    assert comparable(json.loads(encode_string(text))) == comparable(text)


@st.composite
def broken(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    raw = bytearray(draw(whole))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(raw)))
        end = min(len(raw), start + draw(st.integers(0, 3)))
        raw[start:end] = draw(
            st.sampled_from(
                [b"", b'"', b"\\", b"{", b"]", b",", b":", b"0", b"\xff", b"\n", b"\\ud800", b"NaN", b" "]
            )
        )
    return bytes(raw)


@settings(max_examples=400)
@pytest.mark.parametrize("format", sorted(set(FORMATS) & set(MODELS)))
@given(st.data())
def test_broken_bytes_are_refused_and_nothing_worse(format: str, data: st.DataObject) -> None:
    codec = codec_for(format)
    cases = anthropic_case() if format == "anthropic" else openai_case()
    raw = data.draw(broken(cases.map(lambda case: case.raw)))
    with suppress(InvalidJson, InvalidMessage):
        plain = codec.undecorate(raw)
        for part in codec.parse(plain).parts:
            for op in FITTING.get(part.kind, ()):
                if part.kind is not Kind.TOOL_RESULT or part.has_output:
                    result = codec.encode(plain, [Edit(op, part.index, "x")])
                    if result is not None and is_json(plain):
                        codec.parse(result)
                        load_strictly(result)


def is_json(raw: bytes) -> bool:
    with suppress(ValueError):
        load_strictly(raw)
        return True
    return False


def load_strictly(raw: bytes) -> Any:
    def refuse(name: str) -> None:
        raise ValueError(name)

    return json.loads(raw.decode(), parse_constant=refuse)


@settings(max_examples=400)
@given(st.integers(0, 2**32), st.lists(VALUES, max_size=4), st.data())
def test_both_readers_accept_what_the_standard_reader_accepts(
    seed: int, values: list[Any], data: st.DataObject
) -> None:
    whole = Writer(seed).write(values).encode()
    raw = data.draw(st.one_of(st.just(whole), broken(st.just(whole))))
    try:
        raw.decode()
    except UnicodeDecodeError:
        return
    try:
        expected = load_strictly(raw)
    except ValueError:
        expected = None
    for read in (lambda: read_array(raw), lambda: [raw[start:end] for start, end in split_array(raw)]):
        if isinstance(expected, list):
            assert comparable([load_strictly(item) for item in read()]) == comparable(expected)
        else:
            with pytest.raises(InvalidJson):
                read()
    if isinstance(expected, list):
        assert read_object(b'{"k":' + raw + b"}") == {"k": raw.strip(b" \t\n\r")}
