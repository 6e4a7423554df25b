"""Where the messages of a session's present conversation stand (hosts section 2.5).

A rewind opens a new lineage that shares its parent's ordinals up to a point, so an ordinal alone says
nothing: it is looked up along the chain of lineages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sessions_app import models


@dataclass(frozen=True, slots=True)
class Place:
    """One message, as far as ranges are concerned.  ``links``: [is call, call id, part, owner's mid]."""

    ordinal: int
    mid: str
    links: list[list[object]]
    created: datetime


def reach(session: models.Session) -> dict[int, int | None]:
    """Lineage → its last ordinal that still counts, None for all; present lineage first.  One query."""
    shares = {
        number: (parent, through)
        for number, parent, through in models.Lineage.objects.filter(session=session).values_list(
            "number", "parent", "through_ordinal"
        )
    }
    found: dict[int, int | None] = {}
    current: int | None = session.lineage
    limit: int | None = None
    while current is not None and current not in found:
        found[current] = limit
        parent, through = shares.get(current, (None, 0))
        limit = through if limit is None else min(limit, through)
        current = parent
    return found


def places(session: models.Session) -> dict[int, Place]:
    """Every message of the present lineage by ordinal, newest revision of each.  Two queries."""
    reached = reach(session)
    order = {number: depth for depth, number in enumerate(reached)}
    best: dict[int, tuple[int, Place]] = {}
    rows = (
        models.RawMessage.objects.filter(session=session, lineage__in=list(reached))
        .order_by("ordinal", "revision")
        .values_list("lineage", "ordinal", "mid", "links", "created")
    )
    for lineage, ordinal, mid, links, created in rows:
        limit = reached[lineage]
        if limit is not None and ordinal > limit:
            continue
        kept = best.get(ordinal)
        if kept is None or order[lineage] <= kept[0]:
            best[ordinal] = (order[lineage], Place(ordinal, mid, links, created))
    return {ordinal: place for ordinal, (_, place) in sorted(best.items())}


def unresolved(session: models.Session, rows: Iterable[models.Compartment]) -> set[int]:
    """Sequences of the rows whose ends are not in the present lineage.  One query, two after a rewind.

    A message that came back under its old identity and ordinal counts as there.
    """
    reached = reach(session)
    doubtful = [row for row in rows if not _within(row, reached)]
    if not doubtful:
        return set()
    here = {ordinal: place.mid for ordinal, place in places(session).items()}
    return {
        row.sequence
        for row in doubtful
        if here.get(row.start) != row.start_mid or here.get(row.end) != row.end_mid
    }


def _within(row: models.Compartment, reached: dict[int, int | None]) -> bool:
    if row.lineage not in reached:
        return False
    limit = reached[row.lineage]
    return limit is None or row.end <= limit
