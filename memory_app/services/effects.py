"""How a change of a memory is told to running sessions (dashboard-cli.md section 2.3; memory-search.md 1.4).

It depends on who makes it.  A person's restore, pin or change of category raises the memory epoch of every
project that could render the row: their baselines are made anew.  Anything else leaves one row in the
mutation log and shows in m[1].  Epoch or row, never both; and what is saved as it was leaves neither.  An
addition leaves neither as well: it lies behind the highest id rendered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum, StrEnum

from memory_app.models import Memory


class Actor(StrEnum):
    """Who writes.  Only a person's changes come from outside of the sessions they affect."""

    AGENT = "agent"
    HISTORIAN = "historian"
    DREAMER = "dreamer"
    PERSON = "person"


SOURCES: dict[Actor, str] = {
    Actor.AGENT: Memory.Source.AGENT,
    Actor.HISTORIAN: Memory.Source.HISTORIAN,
    Actor.DREAMER: Memory.Source.DREAMER,
    Actor.PERSON: Memory.Source.USER,
}
"""Provenance follows from the writer; no agent can claim to be the user."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What is to be set; None leaves it.  With new ``content`` the row becomes private whatever is said."""

    content: str | None = None
    category: str | None = None
    status: str | None = None
    importance: int | None = None
    shareable: bool | None = None
    scope: str | None = None


class Effect(Enum):
    """How a change is told to running sessions."""

    NONE = "nothing"
    EPOCH = "memory epoch + 1 for every project of the workspace"
    ARCHIVE = "mutation row `archive`"
    UPDATE = "mutation row `update`"
    VISIBILITY = "mutation row that says the visibility changed"


@dataclass(frozen=True, slots=True)
class Difference:
    """What an edit really changes of one row."""

    archived: bool = False
    revived: bool = False
    repinned: bool = False
    recategorised: bool = False
    reworded: bool = False
    reshared: bool = False
    rescored: bool = False

    def any(self) -> bool:
        return any(getattr(self, part.name) for part in fields(self))


Row = tuple[Callable[[Difference], bool], Effect]

# First hit decides (dashboard-cli 2.3).  An epoch makes every affected baseline anew, new text included.
PERSON: tuple[Row, ...] = (
    (lambda d: d.archived, Effect.ARCHIVE),
    (lambda d: d.revived or d.repinned or d.recategorised, Effect.EPOCH),
    (lambda d: d.reworded, Effect.UPDATE),
    (lambda d: d.reshared, Effect.VISIBILITY),
)
# Inside a session: a row that comes back is a newly visible one, and pins are not on the wire.
IN_SESSION: tuple[Row, ...] = (
    (lambda d: d.archived, Effect.ARCHIVE),
    (lambda d: d.revived, Effect.VISIBILITY),
    (lambda d: d.reworded or d.recategorised, Effect.UPDATE),
    (lambda d: d.reshared, Effect.VISIBILITY),
)


def effect(difference: Difference, actor: Actor) -> Effect:
    table = PERSON if actor is Actor.PERSON else IN_SESSION
    return next((effect for hits, effect in table if hits(difference)), Effect.NONE)
