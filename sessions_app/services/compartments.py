"""Writing compartments (historian.md section 9; history-render.md sections 5 and 7).

Publication appends and touches nothing that is served: it raises a signal that a later pass with permission
takes up.  Everything else here changes history that may have been served, so it leaves a row in the
session's structural log and clears the cached pair in the same transaction: the next head is a first one.

Each function takes the session's turn itself; call none of them while holding it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from memory_app.services import memories
from sessions_app import models
from sessions_app.services.cache import states
from sessions_app.services.clock import to_ms
from sessions_app.services.drafts import TIERS, Draft, Event, Text, check_ranges, checked_text
from sessions_app.services.line import Place, places
from sessions_app.services.sessions import BadRequest
from sessions_app.services.writing import Writing, exclusive

MOST_ROWS = 1_000

Type = models.M0Mutation.Type


@dataclass(frozen=True, slots=True)
class Published:
    """The new rows in order, and what became of each fact that was taken."""

    rows: list[models.Compartment]
    facts: list[memories.Added]

    @property
    def last_end(self) -> int:
        return self.rows[-1].end


def publish(
    session: models.Session,
    drafts: Sequence[Draft],
    facts: Iterable[tuple[str, str]] = (),
    *,
    now: datetime,
    events: Iterable[Event] = (),
    producer: str = "",
) -> Published:
    """Append compartments, promote facts (category, text) and raise the deferred signal; all or nothing.

    Raises BadRequest naming the draft: out of order, overlapping, outside of the conversation, ending
    between a call and its result, unstorable text.  Gaps are legal.  Facts of a session without a project
    are left out.
    """
    if not 0 < len(drafts) <= MOST_ROWS:
        raise BadRequest("compartments", f"needs 1 to {MOST_ROWS}")
    texts = [checked_text(draft.text, f"compartments.{index}") for index, draft in enumerate(drafts)]
    with _locked(session) as writing:
        row = writing.session
        here = places(row)
        stored = list(models.Compartment.objects.filter(session=row).order_by("sequence"))
        check_ranges(drafts, stored, here)
        first = stored[-1].sequence + 1 if stored else 0
        rows = [
            _row(row, first + index, draft, text, here, now, producer)
            for index, (draft, text) in enumerate(zip(drafts, texts, strict=True))
        ]
        for compartment in rows:
            compartment.save()
        models.CompartmentEvent.objects.bulk_create(_event(row, event, rows, now) for event in events)
        added = (
            memories.promote(row.project, facts, now=now, source_session=str(row))
            if row.project is not None
            else []
        )
        head, _ = models.HeadState.objects.get_or_create(session=row)
        head.published_pending = True
        head.pending_marker = {"ordinal": rows[-1].end, "mid": rows[-1].end_mid, "time": to_ms(now)}
        head.save(update_fields=["published_pending", "pending_marker"])
    return Published(rows, added)


def delete(session: models.Session, sequences: Iterable[int], *, now: datetime) -> None:
    """Remove compartments.  Raw messages behind the last one that is left come back into the prompt; those
    of a removed one in the middle stay behind the cut.  Raises BadRequest for an unknown sequence.
    """
    with _locked(session) as writing:
        rows = _rows(writing, sequences)
        for row in rows:
            _log(writing, Type.DELETE, row.sequence, now)
        models.Compartment.objects.filter(pk__in=[row.pk for row in rows]).delete()
        clear_head(writing)


def revert(session: models.Session, through: int, *, now: datetime) -> list[int]:
    """After a rewind: remove what reaches past ordinal ``through``; the sequences that went.

    Without any, nothing is written but the session's version.
    """
    with _locked(session) as writing:
        rows = models.Compartment.objects.filter(session=writing.session, end__gt=through)
        gone = sorted(rows.values_list("sequence", flat=True))
        if gone:
            rows.delete()
            _log(writing, Type.BOUNDARY, gone[0], now)
            clear_head(writing)
    return gone


def merge(
    session: models.Session, first: int, last: int, text: Text, *, now: datetime, producer: str = ""
) -> models.Compartment:
    """One compartment in place of those from sequence ``first`` to ``last``, over their whole range.

    It keeps the first sequence.  Raises BadRequest for fewer than two.
    """
    text = checked_text(text, "compartment")
    with _locked(session) as writing:
        rows = list(
            models.Compartment.objects.select_for_update()
            .filter(session=writing.session, sequence__range=(first, last))
            .order_by("sequence")
        )
        if len(rows) < 2 or rows[0].sequence != first or rows[-1].sequence != last:
            raise BadRequest("sequences", "must begin and end with two different compartments")
        kept, tail = rows[0], rows[-1]
        models.Compartment.objects.filter(pk__in=[row.pk for row in rows[1:]]).delete()
        kept.end, kept.end_mid = tail.end, tail.end_mid
        kept.end_block, kept.ended_at = tail.end_block, tail.ended_at
        kept.lineage = tail.lineage
        kept.created, kept.producer = now, producer
        _set_text(kept, text)
        kept.save()
        _log(writing, Type.MERGE, kept.sequence, now)
        clear_head(writing)
    return kept


def rewrite(
    session: models.Session, sequence: int, text: Text, *, now: datetime, producer: str = ""
) -> models.Compartment:
    """Other words for the same range.  Raises BadRequest for an unknown sequence or unstorable text."""
    text = checked_text(text, "")
    with _locked(session) as writing:
        (row,) = _rows(writing, [sequence])
        row.producer = producer
        _set_text(row, text)
        row.save()
        _log(writing, Type.UPGRADE, sequence, now)
        clear_head(writing)
    return row


def clear_head(writing: Writing) -> None:
    """Forget the cached pair of the locked session; its other signals stay."""
    head = models.HeadState.objects.filter(session=writing.session).first()
    if head is not None:
        head.clear_pair()
        head.save()


@contextmanager
def _locked(session: models.Session) -> Iterator[Writing]:
    turn = (session.owner_id, session.harness, session.sid)
    with states.turn(turn), exclusive(session.pk) as writing:
        writing.reshaped = True  # a snapshot holds what a head is made from
        yield writing


def _row(
    session: models.Session,
    sequence: int,
    draft: Draft,
    text: Text,
    here: dict[int, Place],
    now: datetime,
    producer: str,
) -> models.Compartment:
    first, last = here[draft.start], here[draft.end]
    row = models.Compartment(
        session=session,
        sequence=sequence,
        lineage=session.lineage,
        start=draft.start,
        end=draft.end,
        start_mid=first.mid,
        end_mid=last.mid,
        start_block=draft.start_block,
        end_block=draft.end_block,
        producer=producer,
        started_at=first.created,
        ended_at=last.created,
        created=now,
    )
    _set_text(row, text)
    return row


def _set_text(row: models.Compartment, text: Text) -> None:
    for name in ("title", "content", *TIERS, "importance", "episode_type"):
        setattr(row, name, getattr(text, name))
    says_something = any((value or "").strip() for value in (text.title, text.content, *_tiers(text)))
    row.legacy = text.p1 is None and says_something


def _tiers(text: Text) -> tuple[str | None, ...]:
    return text.p1, text.p2, text.p3, text.p4


def _event(
    session: models.Session, event: Event, rows: list[models.Compartment], now: datetime
) -> models.CompartmentEvent:
    anchored = event.at is not None and 1 <= event.at <= len(rows)
    return models.CompartmentEvent(
        session=session,
        compartment=rows[event.at - 1] if anchored and event.at is not None else None,
        kind=event.kind[:64],
        at_compartment=event.at,
        fields=event.fields,
        created=now,
    )


def _rows(writing: Writing, sequences: Iterable[int]) -> list[models.Compartment]:
    wanted = sorted(set(sequences))
    rows = {
        row.sequence: row
        for row in models.Compartment.objects.filter(session=writing.session, sequence__in=wanted)
    }
    missing = [sequence for sequence in wanted if sequence not in rows]
    if missing or not wanted:
        raise BadRequest("sequences", f"no compartment {', '.join(map(str, missing))}".rstrip())
    return [rows[sequence] for sequence in wanted]


def _log(writing: Writing, type: str, target: int, now: datetime) -> None:
    models.M0Mutation.objects.create(session=writing.session, type=type, target=target, time=now)
