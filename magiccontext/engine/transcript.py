"""The canonical transcript: what every wire format becomes before a rule looks at it (hosts section 2).

A message keeps the bytes it came in.  Parsing yields a read-only description of its parts; whoever wants
to change something names the part by its *index in the message as the host delivered it* and describes
the change as an :class:`~magiccontext.engine.view.Edit`.  Only a codec turns edits into bytes.

Two rules hold everywhere:

* ``raw`` is never decoded and encoded again.  An edited message is spliced, an untouched one is passed on.
* ``raw`` is *undecorated*: per-request markers (cache breakpoints) are not part of a message
  (hosts section 2.2 item 6).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    OTHER = "other"


class Kind(StrEnum):
    """Part kinds of hosts section 2.1."""

    TEXT = "text"
    REASONING = "reasoning"
    REDACTED = "redacted_reasoning"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    MEDIA = "media"
    META = "meta"  # structure that the model does not see
    OPAQUE = "opaque"


class InvalidMessage(ValueError):
    """The host sent something that cannot be a message (HTTP 422, code ``invalid_params``).

    ``field`` is a path below the message, such as ``content[2].tool_use_id``; the caller prepends where
    the message stands.
    """

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field}: {detail}" if field else detail)
        self.field = field
        self.detail = detail

    def at(self, prefix: str) -> InvalidMessage:
        """The same error, located below ``prefix`` (for example ``messages[12]``)."""
        joined = f"{prefix}.{self.field}" if self.field else prefix
        return InvalidMessage(joined, self.detail)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message.  ``index`` is its position in the message's whole part list."""

    index: int
    kind: Kind
    # Text of a text or reasoning part; of a tool result the text of all its text blocks joined by "\n".
    # May hold lone surrogates: JavaScript hosts cut strings in the middle of a pair.
    text: str = ""
    call_id: str = ""
    name: str = ""  # tool name of a call; empty for results in formats that do not repeat it
    arguments: bytes = b""  # raw JSON of a call's arguments
    is_error: bool = False
    has_output: bool = False  # a tool result that carries a string or list output (it can take a prefix)
    attachments: int = 0  # images and files inside a tool result
    mime: str = ""  # of media
    data_size: int = 0  # bytes of inline data of media, or of all attachments of a tool result
    synthetic: bool = False
    ignored: bool = False
    signature: str = ""  # reasoning signature, or the data of redacted reasoning
    size: int = 0  # bytes of this part on the wire


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a codec reads from one undecorated message."""

    role: Role
    parts: tuple[Part, ...]
    host_id: str = ""  # the host's own message id, where the format has one
    created_ms: int | None = None  # the host's own times, where the format has them (milliseconds, UTC)
    completed_ms: int | None = None
    extras: dict[str, str] = field(default_factory=dict)

    def first(self, kind: Kind) -> Part | None:
        return next((part for part in self.parts if part.kind is kind), None)

    def has(self, *kinds: Kind) -> bool:
        return any(part.kind in kinds for part in self.parts)
