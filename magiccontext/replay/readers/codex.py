"""Codex's rollout JSONL: response items of OpenAI's Responses API between event messages.

One response is spread over several items and not marked as such. Its end is the next `token_count` that
carries numbers; the outputs of its calls may come before or after that. Reasoning is encrypted for another
provider family, so it is left out. Cached tokens are part of `input_tokens` here and are subtracted.
"""

from __future__ import annotations

from typing import Any

from magiccontext.replay.assemble import Assembly, Block
from magiccontext.replay.readers.jsonl import call_name, count, records, time_ms
from magiccontext.replay.transcript import Transcript, Usage, decode, encode

CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
OUTPUTS = {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}


def read(data: bytes, name: str) -> Transcript:
    found, broken = records(data)
    reading = _Reading()
    reading.assembly.note("lines that could not be read", broken)
    reading.counted = any(_usage(record.get("payload")) is not None for record in found)
    for record in found:
        payload = record.get("payload")
        if isinstance(payload, dict):
            reading.take(str(record.get("type")), payload, time_ms(record.get("timestamp")))
    reading.close()
    session: dict[str, Any] = next((r["payload"] for r in found if r.get("type") == "session_meta"), {})
    return reading.assembly.build(
        source_format="codex",
        session_id=str(session.get("id") or name),
        system=encode("\n\n".join(reading.system)) if reading.system else None,
    )


class _Reading:
    """The response being collected, and what is known about the session so far."""

    def __init__(self) -> None:
        self.assembly = Assembly(merge_user=False)
        self.counted = False
        self.system: list[str] = []
        self._model = "openai/unknown"
        self._provider = "openai"
        self._blocks: list[Block] = []
        self._ended_ms = 0
        self._usage: Usage | None = None
        self._complete = False
        self._waiting: list[tuple[str, Block, int]] = []
        self._started = False

    def take(self, kind: str, payload: dict[str, Any], moment: int) -> None:
        item = payload.get("type")
        if kind == "session_meta":
            self._provider = str(payload.get("model_provider") or "openai")
            base = payload.get("base_instructions")
            if isinstance(base, dict) and isinstance(base.get("text"), str):
                self.system.append(base["text"])
        elif kind == "turn_context" and payload.get("model"):
            self._model = f"{self._provider}/{payload['model']}"
        elif kind == "event_msg":
            usage = _usage(payload)
            if usage is not None and self._blocks and self._usage is None:
                self._usage, self._complete = usage, True
        elif kind == "compacted":
            self.assembly.note("compactions, left out")
        elif kind != "response_item":
            return
        elif item == "message":
            self._message(payload, moment)
        elif item in CALLS:
            self._block(_call(payload, CALLS[item]), moment)
        elif item in OUTPUTS:
            call_id = call_name(payload.get("call_id"))
            self._waiting.append((call_id, _result(call_id, payload.get("output")), moment))
            self._complete = self._complete or not self.counted
        elif item == "reasoning":
            self.assembly.note("encrypted reasoning, left out")
            self._begin(moment)
        else:
            self.assembly.note(f"items of type {item}, left out")

    def _message(self, payload: dict[str, Any], moment: int) -> None:
        blocks = _texts(payload.get("content"))
        role = payload.get("role")
        if role == "assistant":
            for block in blocks:
                self._block(block, moment)
        elif role in ("developer", "system") and not self._started:
            self.system.extend(block["text"] for block in blocks if block["type"] == "text")
        else:
            # An instruction in mid-conversation has no place of its own in this format; what the model saw
            # there it still sees there.
            if role != "user":
                self.assembly.note(f"later {role} messages, kept as user messages")
            self._started = True
            self.close()
            self.assembly.said(blocks, moment)

    def _begin(self, moment: int) -> None:
        if self._complete:
            self.close()
        self._ended_ms = max(self._ended_ms, moment)

    def _block(self, block: Block, moment: int) -> None:
        self._begin(moment)
        self._started = True
        self._blocks.append(block)

    def close(self) -> None:
        """The response collected so far is over; hand it and the outputs of its calls on."""
        if self._blocks:
            self.assembly.answered(self._blocks, self._ended_ms, self._model, self._usage)
        for waiting in self._waiting:
            self.assembly.returned(*waiting)
        self._blocks, self._waiting, self._usage, self._complete = [], [], None, False
        self._ended_ms = 0


def _usage(payload: Any) -> Usage | None:
    if not isinstance(payload, dict) or payload.get("type") != "token_count":
        return None
    info = payload.get("info")
    last = info.get("last_token_usage") if isinstance(info, dict) else None
    if not isinstance(last, dict) or not count(last.get("input_tokens")):
        return None
    cached = min(count(last.get("cached_input_tokens")), count(last["input_tokens"]))
    return Usage(count(last["input_tokens"]) - cached, cached, 0, count(last.get("output_tokens")))


def _call(payload: dict[str, Any], field: str) -> Block:
    value = payload.get(field)
    if isinstance(value, str):
        try:
            value = decode(value)
        except ValueError:
            value = {field: value}
    arguments = value if isinstance(value, dict) else {field: value}
    name = str(payload.get("name") or "shell")
    return {"type": "tool_use", "id": call_name(payload.get("call_id")), "name": name, "input": arguments}


def _result(call_id: str, output: Any) -> Block:
    failed = False
    if isinstance(output, dict):
        failed = output.get("success") is False
        output = output.get("content")
    content: str | list[Block] = output if isinstance(output, str) else _texts(output)
    block: Block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    if failed:
        block["is_error"] = True
    return block


def _texts(content: Any) -> list[Block]:
    """Text and image items as Anthropic blocks; a data URL becomes inline data, another address stays one."""
    blocks: list[Block] = []
    for item in content if isinstance(content, list) else []:
        if not isinstance(item, dict):
            continue
        if isinstance(item.get("text"), str):
            blocks.append({"type": "text", "text": item["text"]})
        elif isinstance(item.get("image_url"), str):
            blocks.append({"type": "image", "source": image_source(item["image_url"])})
    return blocks


def image_source(url: str) -> dict[str, str]:
    """Anthropic's `source` of an image given by an address or a data URL."""
    head, _, body = url.partition(",")
    if head.startswith("data:") and head.endswith(";base64"):
        return {"type": "base64", "media_type": head[5:-7] or "image/png", "data": body}
    return {"type": "url", "url": url}
