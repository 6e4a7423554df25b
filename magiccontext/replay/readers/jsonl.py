"""What the line-by-line formats share: records, times and token counts as they are really written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from magiccontext.replay.transcript import TranscriptError, decode


def records(data: bytes, most: int | None = None) -> tuple[list[dict[str, Any]], int]:
    """The JSON objects of a JSONL file in order, and how many lines could not be read.

    The last line of a session that is still being written is often cut off, so a bad line is counted, not
    fatal. Raises TranscriptError when no line holds an object.
    """
    found: list[dict[str, Any]] = []
    broken = 0
    for line in data.splitlines():
        if not line.strip():
            continue
        try:
            value = decode(line)
        except (ValueError, RecursionError):
            broken += 1
            continue
        if isinstance(value, dict):
            found.append(value)
            if most is not None and len(found) >= most:
                break
        else:
            broken += 1
    if not found:
        raise TranscriptError("no line of this file is a JSON object")
    return found, broken


def time_ms(value: Any) -> int:
    """Milliseconds since the epoch of an RFC 3339 text or a number of milliseconds; 0 when unknown."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return 0
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    return 0


def count(value: Any) -> int:
    """A token count; anything but a number at or above zero is 0."""
    return int(value) if isinstance(value, int | float) and value > 0 else 0


def blocks_of(content: Any) -> list[dict[str, Any]]:
    """The object items of a content list; text alone becomes one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []


def call_name(value: Any) -> str:
    """A call id that Anthropic's rules allow (letters, digits, `_`, `-`)."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in str(value)) or "call"
