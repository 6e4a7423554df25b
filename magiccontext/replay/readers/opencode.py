"""OpenCode's export: `{info, messages: [{info, parts}]}` (hosts sections 2.3 and 3).

One part holds a tool call and its result; a message may hold several steps, each a model call of its own.
Text marked `ignored` was never sent; summaries of the host's own compaction are left out.
"""

from __future__ import annotations

from typing import Any

from magiccontext.replay.assemble import Assembly, Block
from magiccontext.replay.readers.codex import image_source
from magiccontext.replay.readers.jsonl import blocks_of, call_name, count, time_ms
from magiccontext.replay.transcript import Transcript, TranscriptError, Usage, decode

Part = dict[str, Any]


def read(data: bytes, name: str) -> Transcript:
    try:
        document = decode(data)
    except (ValueError, RecursionError) as error:
        raise TranscriptError(f"not an OpenCode export: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("messages"), list):
        raise TranscriptError("not an OpenCode export: it has no messages")
    session = _object(document.get("info"))
    assembly = Assembly(merge_user=False)
    for message in document["messages"]:
        info, parts = message.get("info") or {}, blocks_of(message.get("parts"))
        if info.get("summary") is True or any(part.get("type") == "compaction" for part in parts):
            assembly.note("compaction messages, left out")
        elif info.get("role") == "user":
            assembly.said(_user(parts), _created(info))
        elif info.get("role") == "assistant":
            _assistant(assembly, info, parts)
    return assembly.build(
        source_format="opencode",
        session_id=str(session.get("id") or name),
        subagent=bool(session.get("parentID")),
    )


def _object(value: Any) -> Part:
    return value if isinstance(value, dict) else {}


def _created(info: Part) -> int:
    return time_ms((info.get("time") or {}).get("created"))


def _user(parts: list[Part]) -> list[Block]:
    blocks: list[Block] = []
    for part in parts:
        if part.get("type") == "text" and not part.get("ignored"):
            blocks.append({"type": "text", "text": str(part.get("text", ""))})
        elif part.get("type") == "file":
            blocks.extend(_file(part))
    return blocks


def _file(part: Part) -> list[Block]:
    mime, url = str(part.get("mime", "")), str(part.get("url", ""))
    if mime.startswith("image/"):
        return [{"type": "image", "source": image_source(url)}]
    if mime == "application/pdf":
        return [{"type": "document", "source": image_source(url)}]
    return []


def _assistant(assembly: Assembly, info: Part, parts: list[Part]) -> None:
    model = f"{info.get('providerID') or 'unknown'}/{info.get('modelID') or 'unknown'}"
    steps: list[list[Part]] = [[]]
    for part in parts:
        if part.get("type") == "step-start" and steps[-1]:
            steps.append([])
        steps[-1].append(part)
    end = time_ms((info.get("time") or {}).get("completed")) or _created(info)
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        usage = next((_usage(part.get("tokens")) for part in step if part.get("type") == "step-finish"), None)
        blocks: list[Block] = []
        results: list[tuple[str, Block, int]] = []
        done = started = 0
        for part in step:
            block = _block(part)
            if block is None:
                continue
            blocks.append(block)
            moment = (part.get("time") or (part.get("state") or {}).get("time") or {}) if part else {}
            started = max(started, time_ms(moment.get("start")))
            done = max(done, time_ms(moment.get("end")))
            if part.get("type") == "tool":
                results.extend(_result(part, time_ms(moment.get("end")) or end))
        # A tool runs when its call has been written: the response is over when its last part has started.
        over = started or (min(end, done) if done else end)
        assembly.answered(blocks, over, model, usage or (_usage(info.get("tokens")) if last else None))
        for result in results:
            assembly.returned(*result)


def _block(part: Part) -> Block | None:
    kind = part.get("type")
    if kind == "text" and not part.get("ignored"):
        return {"type": "text", "text": str(part.get("text", ""))}
    if kind == "tool":
        arguments = (part.get("state") or {}).get("input")
        return {
            "type": "tool_use",
            "id": call_name(part.get("callID")),
            "name": str(part.get("tool", "")),
            "input": arguments if isinstance(arguments, dict) else {},
        }
    if kind == "reasoning":
        metadata = (part.get("metadata") or {}).get("anthropic") or {}
        if metadata.get("redactedData"):
            return {"type": "redacted_thinking", "data": str(metadata["redactedData"])}
        if metadata.get("signature"):
            thinking, signature = str(part.get("text", "")), str(metadata["signature"])
            return {"type": "thinking", "thinking": thinking, "signature": signature}
    return None


def _result(part: Part, moment: int) -> list[tuple[str, Block, int]]:
    """The result a tool part holds; none while its call never finished."""
    state = part.get("state") or {}
    call_id = call_name(part.get("callID"))
    block: Block = {"type": "tool_result", "tool_use_id": call_id}
    if state.get("status") == "completed":
        files = [block for file in blocks_of(state.get("attachments")) for block in _file(file)]
        text = str(state.get("output", ""))
        block["content"] = [{"type": "text", "text": text}, *files] if files else text
    elif state.get("status") == "error":
        block["content"] = str(state.get("error", ""))
        block["is_error"] = True
    else:
        return []
    return [(call_id, block, moment)]


def _usage(tokens: Any) -> Usage | None:
    if not isinstance(tokens, dict):
        return None
    cache = _object(tokens.get("cache"))
    usage = Usage(
        count(tokens.get("input")),
        count(cache.get("read")),
        count(cache.get("write")),
        count(tokens.get("output")) + count(tokens.get("reasoning")),
    )
    return usage if usage.prompt_tokens else None
