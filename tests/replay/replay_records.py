"""A short recording of every format, made by hand, with what bites in each."""

import json
from typing import Any

from magiccontext.replay.facts import facts_of
from magiccontext.replay.transcript import Transcript
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
