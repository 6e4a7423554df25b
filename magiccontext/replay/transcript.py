"""A recorded session as a replay plays it: messages that are only ever appended, and the calls made on them.

All formats end up as Anthropic Messages JSON. A message is encoded once, so it has the same bytes in every
call, and a call's request is simply the first `messages` of the transcript: the request of call k+1 starts
with the request of call k, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

import msgspec


class TranscriptError(ValueError):
    """The file is not a recorded session, or none of its calls can be played."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one response as its provider reported them; the three prompt parts do not overlap."""

    input_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int
    output_tokens: int

    @property
    def prompt_tokens(self) -> int:
        return self.input_tokens + self.cache_read_input_tokens + self.cache_creation_input_tokens


@dataclass(frozen=True, slots=True)
class Call:
    """One model call. Its request is the transcript's first `messages` messages.

    Times are milliseconds since the epoch, UTC, and never go back: `time_ms` is when the request was sent,
    `done_ms` when its response was complete. `response` is the index of the message the call produced, None
    when the recording ends with the request or nothing of the response was kept.
    """

    index: int
    time_ms: int
    done_ms: int
    messages: int
    model: str
    usage: Usage | None
    response: int | None


@dataclass(frozen=True, slots=True)
class Transcript:
    """`system` is a raw JSON value, `tools` raw JSON objects; both only where the format holds them.

    `notes` tell the person what was changed or left out while reading.
    """

    messages: tuple[bytes, ...]
    calls: tuple[Call, ...]
    model: str
    source_format: str
    session_id: str
    notes: tuple[str, ...] = ()
    system: bytes | None = None
    tools: tuple[bytes, ...] = field(default=())
    subagent: bool = False

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that name this content."""
        total = hashlib.sha256()
        for raw in self.messages:
            total.update(hashlib.sha256(raw).digest())
        return total.hexdigest()[:12]


def encode(value: Any) -> bytes:
    """`value` as compact JSON; lone surrogates become escapes, integers may exceed 64 bits."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def decode(raw: bytes | str) -> Any:
    """Any JSON a host really writes, lone surrogates included. Raises ValueError."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return json.loads(raw)
