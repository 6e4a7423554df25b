"""Every recording format on a few handmade lines, with what bites in each (hosts sections 2.3 and 6.2)."""

import json
from pathlib import Path
from typing import Any

import pytest

from magiccontext.replay.assemble import NO_RESULT, OPENING, Assembly
from magiccontext.replay.facts import facts_of
from magiccontext.replay.readers import READERS, detect, read_file
from magiccontext.replay.transcript import Transcript, TranscriptError, Usage
from magiccontext.replay.verify import check_conversation

Json = dict[str, Any]


def lines(*records: Json) -> bytes:
    return b"\n".join(json.dumps(record).encode() for record in records) + b"\n"


def messages(transcript: Transcript) -> list[Json]:
    return [json.loads(raw) for raw in transcript.messages]


def assert_playable(transcript: Transcript) -> None:
    """Requests only grow, go forward in time, and each is a conversation a provider takes."""
    facts = [facts_of(raw) for raw in transcript.messages]
    for before, call in zip(transcript.calls, transcript.calls[1:], strict=False):
        assert before.messages <= call.messages
        assert before.done_ms <= call.time_ms
    for call in transcript.calls:
        assert check_conversation(call.index, facts[: call.messages]) == []
        assert call.time_ms <= call.done_ms
        if call.response is not None:
            assert facts[call.response].role == "assistant"


# --- Claude Code -----------------------------------------------------------------------------------------


def claude(kind: str, uuid: str, parent: str | None, content: Any, second: int, **more: Any) -> Json:
    message: Json = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": more.pop("id"), "model": more.pop("model", "claude-x")}
        if "usage" in more:
            message["usage"] = more.pop("usage")
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "sess",
        "timestamp": f"2026-01-01T00:00:{second:02d}.000Z",
        "message": message,
        **more,
    }


def used(output: int) -> Json:
    return {
        "input_tokens": 3,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 10,
        "output_tokens": output,
    }


def call(name: str) -> Json:
    return {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": name}}


def outcome(name: str) -> Json:
    return {"type": "tool_result", "tool_use_id": name, "content": f"out {name}"}


THINKING = {"type": "thinking", "thinking": "hm", "signature": "sig"}

CLAUDE = (
    {"type": "file-history-snapshot", "messageId": "x"},
    claude("user", "u1", None, "hello", 1),
    claude("assistant", "a1", "u1", [THINKING], 2, id="m1", usage=used(2)),
    claude("assistant", "a2", "a1", [call("t1")], 3, id="m1", usage=used(2)),
    claude("user", "u2", "a2", [outcome("t1")], 4),
    claude("assistant", "a3", "a2", [call("t2")], 5, id="m1", usage=used(40)),
    {"type": "progress", "uuid": "p1", "parentUuid": "a3", "timestamp": "2026-01-01T00:00:05Z"},
    claude("user", "u3", "p1", [outcome("t2")], 6),
    claude("user", "u4", "u3", "and quickly", 7),
    claude("assistant", "a4", "u4", [{"type": "text", "text": "done"}], 9, id="m2", usage=used(5)),
)


def test_claude_code_merges_the_records_of_a_response_and_counts_it_once(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines(*CLAUDE))
    transcript = read_file(path)
    assert (transcript.source_format, transcript.session_id, transcript.subagent) == (
        "claude-code",
        "sess",
        False,
    )
    said = messages(transcript)
    assert [message["role"] for message in said] == ["user", "assistant", "user", "assistant"]
    assert said[0]["content"] == "hello"
    assert said[1]["content"] == [THINKING, call("t1"), call("t2")]
    assert said[2]["content"] == [outcome("t1"), outcome("t2"), {"type": "text", "text": "and quickly"}]
    assert [c.messages for c in transcript.calls] == [1, 3]
    assert transcript.calls[0].usage == Usage(3, 20, 10, 40)
    assert transcript.calls[0].model == "anthropic/claude-x"
    assert transcript.calls[1].time_ms - transcript.calls[0].done_ms == 2000
    assert_playable(transcript)


def test_claude_code_goes_on_behind_a_compaction_with_the_raw_history() -> None:
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b1",
        "parentUuid": None,
        "logicalParentUuid": "a4",
        "sessionId": "sess",
    }
    summary = claude("user", "c1", "b1", "summary of it all", 20, isCompactSummary=True)
    shown = claude("user", "c2", "c1", "shown only", 21, isVisibleInTranscriptOnly=True)
    after = (
        claude("user", "u9", "c2", "next", 22),
        claude("assistant", "a9", "u9", [{"type": "text", "text": "ok"}], 23, id="m9"),
    )
    transcript = READERS["claude-code"](lines(*CLAUDE, boundary, summary, shown, *after), "n")
    assert "summary" not in str(messages(transcript))
    assert [c.messages for c in transcript.calls] == [1, 3, 5]
    assert transcript.notes == ("compaction summaries and display-only records, left out: 2",)


def test_claude_code_leaves_out_subagents_meta_and_abandoned_branches() -> None:
    more = (
        claude("user", "s1", None, "sub", 10, isSidechain=True),
        claude("user", "x1", "a4", "a wrong turn", 11),
        claude("assistant", "x2", "x1", [call("t9")], 12, id="mx"),
        claude("user", "x3", "x2", [outcome("t9")], 13),
        claude("user", "g1", "a4", "a hook says", 14, isMeta=True),
        claude("user", "g2", "g1", "the right turn", 15),
        claude("assistant", "g3", "g2", [{"type": "text", "text": "ok"}], 16, id="mg"),
    )
    transcript = READERS["claude-code"](lines(*CLAUDE, *more), "n")
    assert [m["content"] for m in messages(transcript)[4:5]] == ["the right turn"]
    assert not any(word in str(messages(transcript)) for word in ("sub'", "wrong", "hook"))
    assert len(transcript.calls) == 3


def test_claude_code_keeps_a_meta_message_where_nothing_else_asks() -> None:
    more = (
        claude("user", "g1", "a4", "go on, says the hook", 14, isMeta=True),
        claude("assistant", "g3", "g1", [{"type": "text", "text": "ok"}], 16, id="mg"),
    )
    transcript = READERS["claude-code"](lines(*CLAUDE, *more), "n")
    assert messages(transcript)[4]["content"] == "go on, says the hook"
    assert_playable(transcript)


def test_a_claude_code_subagent_file_is_read_as_its_own() -> None:
    data = lines(*({**record, "isSidechain": True} for record in CLAUDE))
    transcript = READERS["claude-code"](data, "n")
    assert transcript.subagent
    assert len(transcript.calls) == 2


def test_a_broken_last_line_is_noted() -> None:
    transcript = READERS["claude-code"](lines(*CLAUDE) + b'{"type":"user","mess', "n")
    assert transcript.notes == ("lines that could not be read: 1",)


# --- Pi --------------------------------------------------------------------------------------------------


def pi(role: str, content: Any, second: int, **more: Any) -> Json:
    message = {"role": role, "content": content, **more}
    if role == "assistant":
        message = {"provider": "anthropic", "model": "claude-y", "stopReason": "stop", **message}
    return {"type": "message", "timestamp": f"2026-01-01T00:00:{second:02d}.000Z", "message": message}


def pi_usage(prompt: int) -> Json:
    return {"input": prompt, "output": 2, "cacheRead": 4, "cacheWrite": 5}


PI = (
    {"type": "session", "id": "pi-1", "timestamp": "2026-01-01T00:00:00.000Z"},
    pi("user", [{"type": "text", "text": "hi"}], 1),
    pi(
        "assistant",
        [
            {"type": "thinking", "thinking": "so", "thinkingSignature": "s"},
            {"type": "toolCall", "id": "c|1", "name": "read", "arguments": {"path": "p"}},
        ],
        2,
        usage=pi_usage(3),
    ),
    pi("toolResult", [{"type": "text", "text": "body"}], 3, toolCallId="c|1", toolName="read", isError=True),
    {"type": "compaction", "timestamp": "2026-01-01T00:00:04.000Z", "summary": "short"},
    pi("assistant", [], 5, usage={"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}),
    pi("user", "again", 6),
    pi(
        "assistant",
        [
            {"type": "thinking", "thinking": "cut", "thinkingSignature": ""},
            {"type": "toolCall", "id": "c2", "name": "write", "arguments": {}},
        ],
        7,
        stopReason="aborted",
        usage={"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    ),
    {"type": "message", "message": {"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 2}},
    pi("user", "third", 8),
    pi("assistant", [{"type": "text", "text": "yes"}], 9, usage=pi_usage(9)),
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


# --- Codex -----------------------------------------------------------------------------------------------


def codex(payload: Json, second: int, kind: str = "response_item") -> Json:
    return {"timestamp": f"2026-01-01T00:00:{second:02d}.000Z", "type": kind, "payload": payload}


def codex_message(role: str, text: str, second: int) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return codex({"type": "message", "role": role, "content": [{"type": kind, "text": text}]}, second)


def counted(prompt: int, cached: int, second: int) -> Json:
    last = {"input_tokens": prompt, "cached_input_tokens": cached, "output_tokens": 7}
    return codex({"type": "token_count", "info": {"last_token_usage": last}}, second, "event_msg")


def codex_call(name: str, second: int) -> Json:
    arguments = json.dumps({"cmd": name})
    return codex({"type": "function_call", "name": "sh", "arguments": arguments, "call_id": name}, second)


def codex_output(name: str, second: int) -> Json:
    return codex({"type": "function_call_output", "call_id": name, "output": f"out {name}"}, second)


CODEX = (
    codex({"id": "cx", "base_instructions": {"text": "be good"}}, 0, "session_meta"),
    codex_message("developer", "rules", 1),
    codex({"model": "gpt-5.4"}, 1, "turn_context"),
    codex_message("user", "go", 1),
    codex({"type": "token_count", "info": None}, 1, "event_msg"),
    codex({"type": "reasoning", "encrypted_content": "xyz"}, 2),
    codex_message("assistant", "looking", 3),
    codex_call("c1", 3),
    codex_call("c2", 3),
    counted(100, 60, 4),
    codex_output("c1", 4),
    codex_output("c2", 5),
    counted(100, 60, 5),
    codex({"type": "reasoning", "encrypted_content": "xyz"}, 6),
    codex_call("c3", 7),
    codex_output("c3", 8),
    codex_call("c4", 8),
    counted(200, 150, 9),
    codex_message("developer", "careful now", 10),
    codex_message("assistant", "end", 12),
    counted(300, 250, 12),
)


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


# --- OpenCode --------------------------------------------------------------------------------------------

TOKENS = {"input": 5, "output": 6, "reasoning": 1, "cache": {"read": 7, "write": 8}}


def opencode_export() -> Json:
    def tool(name: str, state: Json) -> Json:
        return {"type": "tool", "callID": name, "tool": "read", "state": {"input": {"f": name}, **state}}

    signed = {"anthropic": {"signature": "sg"}}
    return {
        "info": {"id": "ses_1", "parentID": "ses_0"},
        "messages": [
            {
                "info": {"id": "u", "role": "user", "time": {"created": 1000}},
                "parts": [
                    {"type": "text", "text": "hi"},
                    {"type": "text", "text": "hidden", "ignored": True},
                    {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA"},
                ],
            },
            {
                "info": {
                    "id": "a",
                    "role": "assistant",
                    "providerID": "anthropic",
                    "modelID": "claude-z",
                    "time": {"created": 1500, "completed": 9000},
                    "tokens": TOKENS,
                },
                "parts": [
                    {"type": "step-start"},
                    {
                        "type": "reasoning",
                        "text": "r",
                        "metadata": signed,
                        "time": {"start": 1600, "end": 1700},
                    },
                    tool("c1", {"status": "completed", "output": "o", "time": {"start": 2000, "end": 3000}}),
                    tool("c2", {"status": "error", "error": "e", "time": {"start": 2000, "end": 2500}}),
                    {"type": "step-finish", "tokens": TOKENS},
                    {"type": "step-start"},
                    {"type": "text", "text": "fin", "time": {"start": 4000, "end": 5000}},
                    tool("c3", {"status": "running", "time": {"start": 5000}}),
                    {"type": "step-finish", "tokens": TOKENS},
                ],
            },
            {
                "info": {"role": "assistant", "summary": True, "time": {"created": 9500}},
                "parts": [{"type": "text", "text": "a summary"}],
            },
            {
                "info": {"role": "user", "time": {"created": 9600}},
                "parts": [{"type": "compaction"}, {"type": "text", "text": "x"}],
            },
        ],
    }


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


# --- plain Anthropic JSON --------------------------------------------------------------------------------


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


# --- detection and assembly ------------------------------------------------------------------------------


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


def test_a_recording_that_starts_with_a_response_is_opened_with_a_line() -> None:
    assembly = Assembly(merge_user=False)
    assembly.answered([{"type": "text", "text": "so"}], 5, "m/x", None)
    transcript = assembly.build(source_format="t", session_id="s")
    assert messages(transcript)[0] == {"role": "user", "content": OPENING}
    assert_playable(transcript)


def test_a_response_with_nothing_new_before_it_is_no_call() -> None:
    assembly = Assembly(merge_user=False)
    assembly.said("hi", 1)
    assembly.answered([{"type": "text", "text": "one"}], 2, "m/x", None)
    assembly.answered([{"type": "text", "text": "two"}], 3, "m/x", None)
    transcript = assembly.build(source_format="t", session_id="s")
    assert (len(transcript.messages), len(transcript.calls)) == (3, 1)
    assert transcript.notes == ("responses with nothing new before them, not played as calls: 1",)


def test_a_reused_call_id_keeps_two_arcs_and_a_stray_result_is_left_out() -> None:
    assembly = Assembly(merge_user=False)
    assembly.said("hi", 1)
    assembly.returned("zz", outcome("zz"), 1)
    for number in (2, 4):
        assembly.answered([call("same")], number, "m/x", None)
        block = {"type": "tool_result", "tool_use_id": "same", "content": str(number)}
        assembly.returned("same", block, number + 1)
    assembly.answered([{"type": "text", "text": "end"}], 9, "m/x", None)
    transcript = assembly.build(source_format="t", session_id="s")
    assert [m["content"][0].get("content") for m in messages(transcript)[2::2]] == ["2", "4"]
    assert transcript.notes == ("tool results without a call, left out: 1",)
    assert_playable(transcript)


def test_lone_surrogates_and_huge_integers_are_written() -> None:
    assembly = Assembly(merge_user=False)
    assembly.said("half \ud83d", 1)
    assembly.answered([{**call("t"), "input": {"n": 10**30}}], 2, "m/x", None)
    transcript = assembly.build(source_format="t", session_id="s")
    assert messages(transcript)[0]["content"] == "half \ud83d"
    assert messages(transcript)[1]["content"][0]["input"]["n"] == 10**30
