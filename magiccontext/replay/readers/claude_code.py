"""Claude Code's JSONL (hosts section 6.2): one record per content block, most lines no messages at all.

Records of one `message.id` are one response; its input and cache numbers repeat, its output number grows. A
rewound branch stays in the file, so the conversation is the chain of parents of the last message; tool
results hang beside that chain and are found by their call. Compaction summaries are not followed: the raw
history goes on behind them.
"""

from __future__ import annotations

from typing import Any

from magiccontext.replay.assemble import Assembly
from magiccontext.replay.readers.jsonl import blocks_of, count, records, time_ms
from magiccontext.replay.transcript import Transcript, TranscriptError, Usage

SKIPPED_FLAGS = ("isCompactSummary", "isVisibleInTranscriptOnly")
SYNTHETIC_MODEL = "<synthetic>"

Record = dict[str, Any]


def read(data: bytes, name: str) -> Transcript:
    """The main conversation of a session file, or the subagent's own if the file is a subagent's."""
    found, broken = records(data)
    assembly = Assembly(merge_user=True)
    assembly.note("lines that could not be read", broken)
    messages = [
        r for r in found if r.get("type") in ("user", "assistant") and isinstance(r.get("message"), dict)
    ]
    subagent = bool(messages) and all(r.get("isSidechain") for r in messages)
    if not subagent:
        own = [r for r in messages if not r.get("isSidechain")]
        assembly.note("records of subagents, left out", len(messages) - len(own))
        messages = own
    if not messages:
        raise TranscriptError("no message record in this Claude Code file")
    kept = _on_the_chain(found, messages)
    assembly.note("records of abandoned branches, left out", len(messages) - len(kept))
    responses = _merge(kept)
    seen: set[str] = set()
    for record in kept:
        if any(record.get(flag) for flag in SKIPPED_FLAGS):
            assembly.note("compaction summaries and display-only records, left out")
        elif record["type"] == "user":
            _user(assembly, record)
        elif _response_id(record) not in seen:
            seen.add(_response_id(record))
            _assistant(assembly, responses[_response_id(record)])
    session = next((str(r["sessionId"]) for r in messages if r.get("sessionId")), name)
    return assembly.build(source_format="claude-code", session_id=session, subagent=subagent)


def _on_the_chain(found: list[Record], messages: list[Record]) -> list[Record]:
    """The message records that belong to the branch the session ended on, in file order."""
    by_uuid: dict[str, Record] = {}
    place: dict[int, int] = {}
    for number, record in enumerate(found):
        place[id(record)] = number
        if record.get("uuid"):
            by_uuid.setdefault(record["uuid"], record)
    # A session that resumes another file names a parent this file does not hold: whatever was written before
    # it here is then its past.
    chain: set[int] = set()
    current: Record | None = messages[-1]
    while current is not None and id(current) not in chain:
        chain.add(id(current))
        parent = by_uuid.get(str(current.get("parentUuid") or current.get("logicalParentUuid")))
        if parent is None:
            before = place[id(current)]
            parent = next((m for m in reversed(messages) if place[id(m)] < before), None)
        current = parent
    responses = {_response_id(r) for r in messages if r["type"] == "assistant" and id(r) in chain}
    calls = {
        block.get("id")
        for record in messages
        if record["type"] == "assistant" and _response_id(record) in responses
        for block in blocks_of(record["message"].get("content"))
        if block.get("type") == "tool_use"
    }
    kept = []
    for record in messages:
        if record["type"] == "assistant":
            belongs = _response_id(record) in responses
        else:
            belongs = id(record) in chain or any(
                block.get("type") == "tool_result" and block.get("tool_use_id") in calls
                for block in blocks_of(record["message"].get("content"))
            )
        if belongs:
            kept.append(record)
    return kept


def _response_id(record: Record) -> str:
    return str(record["message"].get("id") or record.get("uuid"))


def _merge(kept: list[Record]) -> dict[str, list[Record]]:
    responses: dict[str, list[Record]] = {}
    for record in kept:
        if record["type"] == "assistant":
            responses.setdefault(_response_id(record), []).append(record)
    return responses


def _user(assembly: Assembly, record: Record) -> None:
    moment = time_ms(record.get("timestamp"))
    content = record["message"].get("content")
    meta = bool(record.get("isMeta"))
    if isinstance(content, str):
        assembly.said(content, moment, meta=meta)
        return
    said: list[Record] = []
    for block in blocks_of(content):
        if block.get("type") == "tool_result":
            assembly.returned(str(block.get("tool_use_id", "")), block, moment)
        else:
            said.append(block)
    assembly.said(said, moment, meta=meta)


def _assistant(assembly: Assembly, parts: list[Record]) -> None:
    if any(part["message"].get("model") == SYNTHETIC_MODEL for part in parts):
        assembly.note("error messages of the client, left out", len(parts))
        return
    blocks = [block for part in parts for block in blocks_of(part["message"].get("content"))]
    usages = [part["message"]["usage"] for part in parts if isinstance(part["message"].get("usage"), dict)]
    usage = None
    if usages:
        usage = Usage(
            max(count(u.get("input_tokens")) for u in usages),
            max(count(u.get("cache_read_input_tokens")) for u in usages),
            max(count(u.get("cache_creation_input_tokens")) for u in usages),
            max(count(u.get("output_tokens")) for u in usages),
        )
    model = f"anthropic/{parts[0]['message'].get('model') or 'unknown'}"
    # The records of one response are written while its tools already run; its own end is the last block's.
    assembly.answered(blocks, max(time_ms(part.get("timestamp")) for part in parts), model, usage)
