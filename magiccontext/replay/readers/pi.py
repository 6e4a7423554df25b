"""Pi's session JSONL: messages with the results of tools as messages of their own, calls that were aborted.

Newer files are trees (`id`, `parentId`): the conversation is the chain of parents of the last entry.
Compactions are skipped, the raw history goes on behind them. Reasoning without a signature is what is left
of an aborted stream; no provider takes it back, so it is left out.
"""

from __future__ import annotations

from typing import Any

from magiccontext.replay.assemble import Assembly
from magiccontext.replay.readers.jsonl import blocks_of, call_name, count, records, time_ms
from magiccontext.replay.transcript import Transcript, Usage

Entry = dict[str, Any]


def read(data: bytes, name: str) -> Transcript:
    found, broken = records(data)
    assembly = Assembly(merge_user=False)
    assembly.note("lines that could not be read", broken)
    session = next((entry for entry in found if entry.get("type") == "session"), {})
    for entry in _branch(found, assembly):
        kind = entry.get("type")
        if kind == "message" and isinstance(entry.get("message"), dict):
            _message(assembly, entry)
        elif kind == "custom_message":
            assembly.said(_content(entry.get("content")), time_ms(entry.get("timestamp")))
        elif kind in ("compaction", "branch_summary"):
            assembly.note("compactions and branch summaries, left out")
    return assembly.build(source_format="pi", session_id=str(session.get("id") or name))


def _branch(found: list[Entry], assembly: Assembly) -> list[Entry]:
    entries = [entry for entry in found if entry.get("type") != "session"]
    if not entries or not all("id" in entry for entry in entries):
        return entries
    by_id = {entry["id"]: entry for entry in entries}
    chain: list[Entry] = []
    taken: set[str] = set()
    current: Entry | None = entries[-1]
    while current is not None and current["id"] not in taken:
        taken.add(current["id"])
        chain.append(current)
        current = by_id.get(current.get("parentId"))
    assembly.note("entries of abandoned branches, left out", len(entries) - len(chain))
    return chain[::-1]


def _message(assembly: Assembly, entry: Entry) -> None:
    message = entry["message"]
    moment = time_ms(entry.get("timestamp")) or time_ms(message.get("timestamp"))
    role = message.get("role")
    if role == "user":
        assembly.said(_content(message.get("content")), moment)
    elif role == "assistant":
        _assistant(assembly, message, moment)
    elif role == "toolResult":
        call_id = call_name(message.get("toolCallId"))
        block: Entry = {
            "type": "tool_result",
            "tool_use_id": call_id,
            "content": _content(message.get("content")),
        }
        if message.get("isError"):
            block["is_error"] = True
        assembly.returned(call_id, block, moment)
    elif role == "bashExecution":
        if not message.get("excludeFromContext"):
            assembly.said(_shell(message), moment)
    else:
        assembly.note(f"messages of role {role}, left out")


def _assistant(assembly: Assembly, message: Entry, moment: int) -> None:
    blocks: list[Entry] = []
    for block in blocks_of(message.get("content")):
        kind = block.get("type")
        if kind == "text":
            blocks.append({"type": "text", "text": str(block.get("text", ""))})
        elif kind == "thinking" and block.get("redacted"):
            blocks.append({"type": "redacted_thinking", "data": str(block.get("thinkingSignature", ""))})
        elif kind == "thinking" and block.get("thinkingSignature"):
            thinking, signature = str(block.get("thinking", "")), str(block["thinkingSignature"])
            blocks.append({"type": "thinking", "thinking": thinking, "signature": signature})
        elif kind == "toolCall":
            arguments = block.get("arguments")
            blocks.append(
                {
                    "type": "tool_use",
                    "id": call_name(block.get("id")),
                    "name": str(block.get("name", "")),
                    "input": arguments if isinstance(arguments, dict) else {},
                }
            )
        else:
            assembly.note("reasoning without a signature and unknown blocks, left out")
    reported = message.get("usage")
    usage = None
    # An aborted call reports zeros: that is no measurement.
    if isinstance(reported, dict) and any(
        count(reported.get(k)) for k in ("input", "cacheRead", "cacheWrite")
    ):
        usage = Usage(
            count(reported.get("input")),
            count(reported.get("cacheRead")),
            count(reported.get("cacheWrite")),
            count(reported.get("output")),
        )
    model = f"{message.get('provider') or 'unknown'}/{message.get('model') or 'unknown'}"
    assembly.answered(blocks, moment, model, usage)


def _content(content: Any) -> str | list[Entry]:
    """Pi's text and image blocks as Anthropic's; a string stays a string."""
    if isinstance(content, str):
        return content
    blocks: list[Entry] = []
    for block in blocks_of(content):
        if block.get("type") == "text":
            blocks.append({"type": "text", "text": str(block.get("text", ""))})
        elif block.get("type") == "image":
            source = {
                "type": "base64",
                "media_type": str(block.get("mimeType", "image/png")),
                "data": str(block.get("data", "")),
            }
            blocks.append({"type": "image", "source": source})
    return blocks


def _shell(message: Entry) -> str:
    ended = "" if message.get("exitCode") in (0, None) else f"\n(exit code {message['exitCode']})"
    return f"$ {message.get('command', '')}\n{message.get('output', '')}{ended}"
