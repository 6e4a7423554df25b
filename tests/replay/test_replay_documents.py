"""OpenCode exports and plain Anthropic requests, and how the formats are told apart."""

import json
from pathlib import Path

import pytest

from magiccontext.replay.assemble import NO_RESULT
from magiccontext.replay.readers import READERS, detect, read_file
from magiccontext.replay.transcript import TranscriptError, Usage
from tests.replay.replay_records import (
    CLAUDE,
    CODEX,
    PI,
    assert_playable,
    lines,
    messages,
    opencode_export,
)


def test_opencode_steps_are_calls_and_tool_parts_are_pairs(tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    path.write_text(json.dumps(opencode_export()))
    transcript = read_file(path)
    assert (transcript.source_format, transcript.session_id) == ("opencode", "ses_1")
    assert transcript.subagent
    said = messages(transcript)
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    assert said[0]["content"] == [{"type": "text", "text": "hi"}, image]
    assert [b["type"] for b in said[1]["content"]] == ["thinking", "tool_use", "tool_use"]
    assert said[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "o"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "e", "is_error": True},
    ]
    assert [c.messages for c in transcript.calls] == [1, 3]
    assert transcript.calls[0].usage == Usage(5, 7, 8, 7)
    assert (transcript.calls[0].time_ms, transcript.calls[0].done_ms) == (1000, 2000)
    assert transcript.calls[1].time_ms == 3000
    assert said[4]["content"][0]["content"] == NO_RESULT
    assert "compaction messages, left out: 2" in transcript.notes
    assert_playable(transcript)


def test_a_plain_request_keeps_its_bytes_and_is_one_call_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    odd = '{ "content":"caf\\u00e9 \\ud83d", "role":"user" }'
    answer = '{"role":"assistant","content":[{"type":"text","text":"1.50"}]}'
    path.write_text(
        f'{{"model":"claude-q","system":"s","tools":[{{"name":"t"}}],"messages":[{odd}, {answer},{odd}]}}'
    )
    transcript = read_file(path)
    assert [raw.decode() for raw in transcript.messages] == [odd, answer, odd]
    assert (transcript.model, transcript.system, transcript.tools) == (
        "anthropic/claude-q",
        b'"s"',
        (b'{"name":"t"}',),
    )
    assert [(c.messages, c.response) for c in transcript.calls] == [(1, 1), (3, None)]
    assert transcript.calls[1].time_ms - transcript.calls[0].time_ms == 20_000
    bare = READERS["anthropic"](f"[{odd}]".encode(), "n")
    assert (len(bare.calls), bare.system, bare.session_id) == (1, None, "n")


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (lines(*CLAUDE), "claude-code"),
        (lines(*PI), "pi"),
        (lines(*CODEX), "codex"),
        (lines(CODEX[0]), "codex"),
        (json.dumps(opencode_export()).encode(), "opencode"),
        (b'[{"role":"user","content":"x"}]', "anthropic"),
        (b'{"messages":[{"role":"user","content":"x"}]}', "anthropic"),
    ],
)
def test_formats_are_told_apart_by_content(data: bytes, name: str) -> None:
    assert detect(data) == name


@pytest.mark.parametrize("data", [b"", b"hello", b'{"a":1}', b"[1,2]", b'{"messages":[{"x":1}]}', b"[[[["])
def test_what_is_no_recording_is_refused(data: bytes) -> None:
    with pytest.raises(TranscriptError):
        detect(data)


@pytest.mark.parametrize("name", sorted(READERS))
@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"type":"user"}', b"\xff\xfe"])
def test_a_reader_refuses_what_holds_no_call(name: str, data: bytes) -> None:
    with pytest.raises(TranscriptError):
        READERS[name](data, "n")
