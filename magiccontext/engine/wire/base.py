"""What a wire format must offer (hosts section 2).  One codec per format, stateless."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from magiccontext.engine.transcript import Parsed
from magiccontext.engine.view import Edit

MAX_DEPTH = 256
"""Deepest nesting of arrays and objects a body may have; deeper is refused with the place named.

Providers and hosts stay far below; the bound keeps every reader of the bytes away from its own
recursion limit."""


class Codec(Protocol):
    """Reads and splices the messages of one wire format.  All methods are pure."""

    format: str
    has_ids: bool  # the format carries a message id of the host

    def undecorate(self, raw: bytes) -> bytes:
        """``raw`` without per-request decorations.  Returns the same object when there are none."""
        ...

    def parse(self, raw: bytes) -> Parsed:
        """Describe one undecorated message.  Raises InvalidMessage naming the field below the message."""
        ...

    def encode(self, raw: bytes, edits: Sequence[Edit]) -> bytes | None:
        """``raw`` with ``edits`` applied by splicing; every untouched value keeps its bytes.

        None when the message is removed, or nothing is left of it.  ``raw`` may be decorated: markers
        stay where they were; one on a removed block moves to the last remaining block that can carry it.
        """
        ...

    def user_message(self, text: str, image: str = "") -> bytes:
        """A user message of our own with one text and, behind it, an image given as a ``data:`` URL."""
        ...

    def is_leading_system(self, parsed: Parsed) -> bool:
        """True for a message that must stay first and is never edited or cut (design section 12 item 6)."""
        ...
