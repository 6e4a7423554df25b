"""Pi and Codex recordings: aborted calls, calls without a result, responses that nothing marks."""

import json
from pathlib import Path

from magiccontext.replay.assemble import NO_RESULT
from magiccontext.replay.readers import READERS, read_file
from magiccontext.replay.transcript import Usage
from tests.replay.replay_records import (
    CODEX,
    PI,
    assert_playable,
    codex,
    codex_message,
    lines,
    messages,
    pi,
)


def test_pi_aborted_calls_and_calls_without_a_result(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines(*PI))
    transcript = read_file(path)
    assert (transcript.source_format, transcript.session_id) == ("pi", "pi-1")
    said = messages(transcript)
    assert said[1]["content"][0] == {"type": "thinking", "thinking": "so", "signature": "s"}
    assert said[2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "c_1",
            "content": [{"type": "text", "text": "body"}],
            "is_error": True,
        }
    ]
    assert said[3] == {"role": "user", "content": "again"}
    assert [block["type"] for block in said[4]["content"]] == ["tool_use"]
    assert said[5]["content"] == [
        {"type": "tool_result", "tool_use_id": "c2", "content": NO_RESULT, "is_error": True}
    ]
    assert said[6]["content"] == "$ ls\na\n(exit code 2)"
    assert said[7]["content"] == "third"
    assert [c.messages for c in transcript.calls] == [1, 4, 8]
    assert [c.usage for c in transcript.calls] == [Usage(3, 4, 5, 2), None, Usage(9, 4, 5, 2)]
    assert set(transcript.notes) == {
        "compactions and branch summaries, left out: 1",
        "responses without content, left out: 1",
        "reasoning without a signature and unknown blocks, left out: 1",
        "tool calls without a result, answered with an error: 1",
    }
    assert_playable(transcript)


def test_pi_trees_are_read_along_the_last_branch() -> None:
    entries = [
        {**pi("user", "one", 1), "id": "1", "parentId": None},
        {**pi("assistant", [{"type": "text", "text": "a"}], 2), "id": "2", "parentId": "1"},
        {**pi("user", "wrong", 3), "id": "3", "parentId": "2"},
        {**pi("user", "right", 4), "id": "4", "parentId": "2"},
        {**pi("assistant", [{"type": "text", "text": "b"}], 5), "id": "5", "parentId": "4"},
    ]
    transcript = READERS["pi"](lines({"type": "session", "id": "s"}, *entries), "n")
    assert [m["content"] for m in messages(transcript) if m["role"] == "user"] == ["one", "right"]


def test_codex_responses_end_at_their_token_count(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines(*CODEX))
    transcript = read_file(path)
    assert (transcript.source_format, transcript.session_id) == ("codex", "cx")
    assert transcript.model == "openai/gpt-5.4"
    assert json.loads(transcript.system or b"") == "be good\n\nrules"
    said = messages(transcript)
    assert said[0]["content"] == [{"type": "text", "text": "go"}]
    assert [b.get("id") or b["text"] for b in said[1]["content"]] == ["looking", "c1", "c2"]
    assert said[1]["content"][1]["input"] == {"cmd": "c1"}
    assert [b["content"] for b in said[2]["content"]] == ["out c1", "out c2"]
    assert [b["id"] for b in said[3]["content"]] == ["c3", "c4"]
    assert [b["content"] for b in said[4]["content"]] == ["out c3", NO_RESULT]
    assert said[5]["content"] == [{"type": "text", "text": "careful now"}]
    assert [c.usage for c in transcript.calls] == [
        Usage(40, 60, 0, 7),
        Usage(50, 150, 0, 7),
        Usage(50, 250, 0, 7),
    ]
    assert_playable(transcript)


def test_codex_without_token_counts_ends_a_response_where_its_outputs_end() -> None:
    kept = [r for r in CODEX if r["payload"].get("type") != "token_count"]
    transcript = READERS["codex"](lines(*kept), "n")
    assert [c.messages for c in transcript.calls] == [1, 3, 5, 8]
    assert_playable(transcript)


def test_codex_free_form_calls_and_structured_outputs() -> None:
    records = (
        CODEX[0],
        codex_message("user", "go", 1),
        codex({"type": "custom_tool_call", "name": "apply_patch", "input": "*** patch", "call_id": "p"}, 2),
        codex(
            {
                "type": "custom_tool_call_output",
                "call_id": "p",
                "output": {"content": "no", "success": False},
            },
            3,
        ),
        codex({"type": "local_shell_call", "action": {"command": ["ls"]}, "call_id": "q"}, 4),
        codex({"type": "local_shell_call_output", "call_id": "q", "output": [{"text": "a"}]}, 5),
        codex_message("assistant", "end", 6),
    )
    said = messages(READERS["codex"](lines(*records), "n"))
    assert said[1]["content"][0]["input"] == {"input": "*** patch"}
    assert said[2]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "p",
        "content": "no",
        "is_error": True,
    }
    assert said[3]["content"][0]["input"] == {"command": ["ls"]}
    assert said[4]["content"][0]["content"] == [{"type": "text", "text": "a"}]
