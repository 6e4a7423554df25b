"""The view: the only thing a pass produces (design section 3, hosts section 10.3).

A view is a set of edits keyed by (message identity, part index).  What one message looked like when it
was last sent is its :class:`Form`: the edits that made it and the bytes they made.  A defer pass adds
forms for new messages and leaves every other one alone, so a view can travel as a delta.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Level(IntEnum):
    """How far to the front a pass changed the request (reclaim-core section 5.1).  Ordered."""

    DEFER = 0
    SOFT_PLUS = 1
    SOFT = 2
    HARD = 3

    @property
    def word(self) -> str:
        return self.name.lower()


class Op(StrEnum):
    """Edit operations, named as on the wire.  Declaration order is the order of application."""

    REMOVE_MESSAGE = "remove_message"
    REMOVE = "remove"
    REPLACE_TEXT = "replace_text"
    REPLACE_OUTPUT = "replace_output"
    PREFIX = "prefix"
    APPEND = "append"


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of one part; ``part`` is None for REMOVE_MESSAGE only.

    PREFIX and APPEND act on the text of a text part or on the output of a tool result.  REPLACE_OUTPUT
    keeps the shape of the output (a string stays a string, a list becomes a list with one text block)
    and drops every attachment when ``drop_attachments`` is set.
    """

    op: Op
    part: int | None = None
    text: str = ""
    drop_attachments: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """The form in which a message is served.

    ``body`` holds the undecorated bytes, or None when the message is removed.  A form without edits
    serves the message's own bytes.
    """

    edits: tuple[Edit, ...]
    body: bytes | None
