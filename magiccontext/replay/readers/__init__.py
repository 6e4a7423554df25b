"""Reads recorded sessions: one module per format, detected by content or named.

Every reader takes the file's bytes and its name and returns a Transcript, or raises TranscriptError.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from magiccontext.replay.readers import anthropic_json, claude_code, codex, opencode, pi
from magiccontext.replay.readers.jsonl import records
from magiccontext.replay.transcript import Transcript, TranscriptError, decode

READERS: dict[str, Callable[[bytes, str], Transcript]] = {
    "claude-code": claude_code.read,
    "pi": pi.read,
    "codex": codex.read,
    "opencode": opencode.read,
    "anthropic": anthropic_json.read,
}

CODEX_TYPES = {"session_meta", "response_item", "turn_context", "event_msg"}
CLAUDE_CODE_KEYS = {"parentUuid", "isSidechain", "sessionId"}


def read_file(path: Path, source_format: str | None = None) -> Transcript:
    """The session recorded in `path`. Raises OSError or TranscriptError; KeyError for an unknown format."""
    data = path.read_bytes()
    return READERS[source_format or detect(data)](data, path.stem)


def detect(data: bytes) -> str:
    """The format of a recording, from its content. Raises TranscriptError when it is none of ours."""
    try:
        whole = decode(data)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, list) or (isinstance(whole, dict) and isinstance(whole.get("messages"), list)):
        return _of_document(whole)
    found, _ = records(data, most=200)
    for record in found:
        kind = _of_record(record)
        if kind is not None:
            return kind
    raise TranscriptError(f"none of the known formats ({', '.join(READERS)}); name it with --format")


def _of_document(whole: Any) -> str:
    messages = whole if isinstance(whole, list) else whole["messages"]
    first = messages[0] if messages else None
    if isinstance(first, dict) and "info" in first and "parts" in first:
        return "opencode"
    if isinstance(first, dict) and "role" in first:
        return "anthropic"
    raise TranscriptError("a JSON document whose messages have neither a role nor info and parts")


def _of_record(record: dict[str, Any]) -> str | None:
    kind = record.get("type")
    if kind in CODEX_TYPES and "payload" in record:
        return "codex"
    if CLAUDE_CODE_KEYS & record.keys():
        return "claude-code"
    if kind == "session" or (kind == "message" and isinstance(record.get("message"), dict)):
        return "pi"
    return None
