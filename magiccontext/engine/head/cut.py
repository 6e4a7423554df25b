"""Which raw messages are no longer sent, because the pair stands for them (history-render section 7).

The cut is made at the boundary stored with the bytes that are served, never at the newest compartment:
otherwise a publication between two passes would remove messages that no served summary covers.  When the
boundary cannot be found where it must be, nothing is cut; too much is better than a gap.

A cut may separate a tool call from its result although compartments never end there, because hosts keep
results in messages of their own.  What is left of such a pair goes too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from magiccontext.engine.head.model import Boundary, Compartment, Pair
from magiccontext.engine.state import Link
from magiccontext.engine.transcript import Role


class Status(StrEnum):
    APPLIED = "applied"
    NOT_REQUIRED = "not-required"
    NOT_ATTEMPTED = "not-attempted"
    BOUNDARY_PRECEDES_WINDOW = "boundary-precedes-window"
    REFUSED = "refused"

    @property
    def degraded(self) -> bool:
        """Whether more is sent than the pair leaves to be sent."""
        return self is Status.REFUSED


@dataclass(frozen=True, slots=True)
class Row:
    """A message of the host's array.  The host's own insertions have neither ``mid`` nor ``ordinal``."""

    mid: str = ""
    ordinal: int = 0
    role: Role = Role.USER
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class Cut:
    """What leaves the array: whole messages by index, and parts of kept ones as (index, part)."""

    status: Status
    removed: tuple[int, ...] = ()
    severed: tuple[tuple[int, int], ...] = ()


def newest_boundary(
    compartments: Iterable[Compartment], visible: Collection[str] | None = None
) -> Boundary | None:
    """Where the newest compartment ends that has an end and still resolves.

    With ``visible``, the newest one whose end is among these message ids.
    """
    ends = [
        row
        for row in compartments
        if row.end_mid and row.resolves and (visible is None or row.end_mid in visible)
    ]
    if not ends:
        return None
    last = max(ends, key=lambda row: row.sequence)
    return Boundary(last.end_mid, last.end, last.end_block)


def boundary_of(pair: Pair | None, compartments: Iterable[Compartment]) -> Boundary | None:
    """Where to cut: at the served pair's boundary.  A session without a pair cuts at its newest end."""
    return pair.boundary if pair is not None and pair.m0 else newest_boundary(compartments)


def _sound(rows: Sequence[Row]) -> bool:
    """Whether ids and order can be trusted: every numbered row named once, ordinals ascending."""
    mids = [row.mid for row in rows if row.mid]
    ordinals = [row.ordinal for row in rows if row.ordinal]
    return (
        len(set(mids)) == len(mids)
        and all(row.mid for row in rows if row.ordinal)
        and all(before < after for before, after in pairwise(ordinals))
    )


def _locate(boundary: Boundary, rows: Sequence[Row]) -> int | Status:
    """The index of the boundary, or why there is none."""
    if not boundary.mid or not _sound(rows):
        return Status.REFUSED
    for index, row in enumerate(rows):
        if row.mid == boundary.mid:
            return index
    first = next((row.ordinal for row in rows if row.ordinal), None)
    starts_after = first is None or first > boundary.ordinal
    return Status.BOUNDARY_PRECEDES_WINDOW if starts_after else Status.REFUSED


def _covered(rows: Sequence[Row], end: int) -> list[int]:
    """Indexes before ``end`` that leave.  System messages never do; an insertion follows what precedes it."""
    leaving: list[int] = []
    follows = False
    for index, row in enumerate(rows):
        named = bool(row.mid)
        if named and index >= end:
            break
        if named or row.role is Role.SYSTEM:
            follows = row.role is not Role.SYSTEM
        if follows:
            leaving.append(index)
    return leaving


def _severed(rows: Sequence[Row], removed: Collection[int]) -> list[tuple[int, int]]:
    """Kept parts of calls and results of which something left.

    A pair is (owner, call id), so an id used again in a later turn is another pair.  All of a touched
    pair's parts go at once, which is the fixed point: no part of it is left to be orphaned.
    """
    gone = {(k.owner, k.call_id) for index in removed for k in rows[index].links}
    return [
        (index, link.part)
        for index, row in enumerate(rows)
        if index not in removed
        for link in row.links
        if (link.owner, link.call_id) in gone
    ]


def cut(boundary: Boundary | None, rows: Sequence[Row], *, compaction_off: bool = False) -> Cut:
    """What of ``rows`` the pair with this boundary stands for."""
    if compaction_off:
        return Cut(Status.NOT_ATTEMPTED)
    if boundary is None:
        return Cut(Status.NOT_REQUIRED)
    found = _locate(boundary, rows)
    if isinstance(found, Status):
        return Cut(found)
    # A message that is covered only in part stays whole.
    end = found + 1 if boundary.end_block is None else found
    removed = _covered(rows, end)
    return Cut(Status.APPLIED, tuple(removed), tuple(_severed(rows, frozenset(removed))))


DEGRADED_BEFORE_HEAL = 2


class Remedy(StrEnum):
    NONE = "none"
    REANCHOR = "reanchor"
    MATERIALIZE = "materialize"


class Healing(NamedTuple):
    """The new count of degraded passes, and what to do about them; ``boundary`` only for REANCHOR."""

    degraded: int
    remedy: Remedy = Remedy.NONE
    boundary: Boundary | None = None


def heal(
    degraded: int, status: Status, *, busting: bool, compartments_changed: bool, visible: Boundary | None
) -> Healing:
    """What a pass does about a boundary that keeps being refused.

    ``degraded`` counts the refused passes in a row before this one; it starts anew when the boundary is
    found and when compartments changed.  From the second on, a pass that busts anyway anchors at
    ``visible``, the newest compartment end still in the array, or asks for a fresh materialization.
    """
    if not status.degraded:
        return Healing(0)
    count = 1 if compartments_changed else degraded + 1
    if count < DEGRADED_BEFORE_HEAL or not busting:
        return Healing(count)
    if visible is None:
        return Healing(0, Remedy.MATERIALIZE)
    return Healing(0, Remedy.REANCHOR, visible)
