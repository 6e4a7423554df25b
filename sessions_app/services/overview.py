"""What the pages show, as rows of plain values; the same rows leave as JSON.

Everybody sees their own sessions, staff sees all.  Sessions that are being deleted are nowhere.  Every
function says how many queries it costs, and none costs more with more rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from magiccontext.engine.schedule import force_band
from sessions_app.models import Incident, Pass, PendingDrop, Session, Tag, UsageEvent
from sessions_app.models.session import HARNESSES
from sessions_app.services.marks import MARKS, in_words
from sessions_app.services.timeline import SLOTS, Lane, Moment, lane

LIVE = timedelta(days=1)
LANES = 8
"""Sessions with a lane on the overview."""

DAYS = (1, 7, 30)
PENDING_SHOWN = 200

# What a row never needs of its session.
BULK = ("session__engine_state", "session__capabilities")

# Name in the query string → column.  Each is read off an index, or sorts the rows of one owner or session.
SESSION_ORDER = {"seen": "last_seen", "usage": "usage_percentage", "tokens": "input_tokens", "model": "model"}
PASS_ORDER = {"id": "id", "usage": "usage_percentage", "dropped": "dropped_tokens", "ms": "milliseconds"}


class BadFilter(ValueError):
    """A part of the query string that is none of its known values."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What the query string narrows a page to; empty means everything."""

    harness: str = ""
    level: str = ""
    days: int = 0

    @classmethod
    def of(cls, query: Any) -> Filters:
        """Raises BadFilter naming the parameter."""
        return cls(
            harness=_one_of(query, "harness", HARNESSES),
            level=_one_of(query, "level", MARKS),
            days=int(_one_of(query, "days", [str(days) for days in DAYS]) or 0),
        )

    def since(self, now: datetime) -> datetime | None:
        return now - timedelta(days=self.days) if self.days else None


def _one_of(query: Any, name: str, known: Iterable[str]) -> str:
    value: str = query.get(name, "")
    if value and value not in known:
        raise BadFilter(f"{name}: {value[:40]!r} is none of {', '.join(known)}")
    return value


def order_by(query: Any, columns: dict[str, str], default: str) -> tuple[str, list[Any]]:
    """The ``sort`` of a query string (``-`` in front: largest first) and what to order by.

    Raises BadFilter for a column that cannot be sorted by.
    """
    asked = query.get("sort", "") or default
    column = columns.get(asked.removeprefix("-"))
    if column is None:
        raise BadFilter(f"sort: {asked[:40]!r} is none of {', '.join(columns)}")
    descending = asked.startswith("-")
    first = F(column).desc(nulls_last=True) if descending else F(column).asc(nulls_last=True)
    return asked, [first] if column == "id" else [first, "-id"]


# who sees what


def visible(user: Any) -> QuerySet[Session]:
    """The sessions this person may see, without the big columns."""
    sessions = Session.objects.filter(cleanup_pending=False).defer("engine_state", "capabilities")
    return sessions if user.is_staff else sessions.filter(owner=user)


def _of_visible(user: Any, rows: QuerySet[Any]) -> QuerySet[Any]:
    rows = rows.filter(session__cleanup_pending=False)
    return rows if user.is_staff else rows.filter(session__owner=user)


def _narrowed(rows: QuerySet[Any], filters: Filters, now: datetime) -> QuerySet[Any]:
    if filters.harness:
        rows = rows.filter(session__harness=filters.harness)
    since = filters.since(now)
    return rows if since is None else rows.filter(time__gte=since)


def sessions(user: Any, filters: Filters, now: datetime) -> QuerySet[Session]:
    """Sessions under the filters, with what a row needs."""
    rows = visible(user).select_related("owner", "project")
    if filters.harness:
        rows = rows.filter(harness=filters.harness)
    since = filters.since(now)
    return rows if since is None else rows.filter(last_seen__gte=since)


def passes(user: Any, filters: Filters, now: datetime) -> QuerySet[Pass]:
    """Passes under the filters, newest first, without their clauses."""
    rows = _narrowed(_of_visible(user, Pass.objects.all()), filters, now).order_by("-id")
    if filters.level:
        rows = rows.filter(level=filters.level)
    return rows.select_related("session").defer(*BULK, "clauses")


def with_clauses(rows: QuerySet[Pass]) -> QuerySet[Pass]:
    """The same passes with the clauses a proof is made from."""
    return rows.defer(None).defer(*BULK)


def incidents(user: Any, filters: Filters, now: datetime) -> QuerySet[Incident]:
    """Refusals and faults under the filters, newest first."""
    rows = _narrowed(_of_visible(user, Incident.objects.all()), filters, now).order_by("-id")
    if filters.level in Incident.Kind.values:
        rows = rows.filter(kind=filters.level)
    return rows.select_related("session").defer(*BULK)


# figures


class HitShare(NamedTuple):
    """Read ÷ (read + write + input) in percent, None with ``note`` saying why.

    ``sessions`` are in it; ``silent`` sessions never read from a cache and are in no total.
    """

    percent: float | None
    note: str
    sessions: int
    silent: int


def figures(user: Any, filters: Filters, now: datetime) -> dict[str, Any]:
    """The four figures.  Four queries.

    A bust of ours is a pass that changed bytes already sent.
    """
    known = sessions(user, filters, now).aggregate(
        live=Count("pk", filter=Q(last_seen__gt=now - LIVE)), all=Count("pk")
    )
    levels = {f"at_{level}": Count("pk", filter=Q(level=level)) for level in Pass.Level.values}
    plain = Filters(filters.harness, "", filters.days)
    counted = (
        passes(user, plain, now)
        .order_by()
        .aggregate(all=Count("pk"), busts=Count("pk", filter=Q(first_changed__isnull=False)), **levels)
    )
    went_wrong = (
        incidents(user, plain, now)
        .order_by()
        .aggregate(**{kind: Count("pk", filter=Q(kind=kind)) for kind in Incident.Kind.values})
    )
    return {
        "sessions_live": known["live"],
        "sessions": known["all"],
        "passes": counted["all"],
        "levels": {level: counted[f"at_{level}"] for level in Pass.Level.values},
        "own_busts": counted["busts"],
        "own_busts_per_100": round(100 * counted["busts"] / counted["all"], 1) if counted["all"] else None,
        "incidents": went_wrong,
        "hit_share": hit_share(user, plain, now)._asdict(),
    }


def hit_share(user: Any, filters: Filters, now: datetime) -> HitShare:
    """Over the responses that report cache numbers.  One query.

    A provider that reports none enters no total, nor does a session that never read (dashboard-cli 4.1
    rule 1): zero percent would be a claim nobody made.
    """
    rows = _narrowed(_of_visible(user, UsageEvent.objects.all()), filters, now).order_by()
    per_session = rows.values("session").annotate(
        reporting=Count("pk", filter=Q(reports_cache=True)),
        read=Coalesce(Sum("cache_read", filter=Q(reports_cache=True)), 0),
        prompt=Coalesce(
            Sum(F("cache_read") + F("cache_write") + F("input_tokens"), filter=Q(reports_cache=True)), 0
        ),
    )
    total = per_session.aggregate(
        all=Count("session"),
        told=Count("session", filter=Q(reporting__gt=0)),
        sessions=Count("session", filter=Q(read__gt=0)),
        read_sum=Sum("read"),
        prompt_sum=Sum("prompt", filter=Q(read__gt=0)),
    )
    silent = total["all"] - total["sessions"]
    if total["sessions"]:
        return HitShare(
            round(100 * total["read_sum"] / total["prompt_sum"], 1), "", total["sessions"], silent
        )
    note = "no cache reads" if total["told"] else "not reported" if total["all"] else "no usage yet"
    return HitShare(None, note, 0, silent)


# timeline


def lanes(user: Any, filters: Filters, now: datetime) -> list[tuple[dict[str, Any], Lane]]:
    """The newest sessions with the drawing of their newest 100 passes and incidents.  Three queries."""
    newest = list(
        sessions(user, filters, now)
        .annotate(pass_floor=_nth_newest(Pass), incident_floor=_nth_newest(Incident))
        .order_by(F("last_seen").desc(nulls_last=True), "-id")[:LANES]
    )
    if not newest:
        return []
    since = filters.since(now)
    moments: dict[int, list[Moment]] = {session.pk: [] for session in newest}
    for record in _from_floor(Pass, "pass_floor", newest, since).only(
        "session_id", "level", "time", "usage_percentage", "model", "reasons", "dropped_tokens"
    ):
        moments[record.session_id].append(
            Moment(
                record.level,
                record.time,
                record.usage_percentage,
                record.pk,
                record.model,
                record.reasons,
                record.dropped_tokens,
            )
        )
    for incident in _from_floor(Incident, "incident_floor", newest, since):
        moments[incident.session_id].append(
            Moment(incident.kind, incident.time, 100.0, detail=f"{incident.code}: {incident.detail}")
        )
    return [
        (
            session_facts(session),
            # Sorting is stable: passes of one moment keep the order in which they were committed.
            lane(sorted(moments[session.pk], key=lambda m: m.time), session.threshold, filters.level),
        )
        for session in newest
    ]


def _nth_newest(model: type[Pass] | type[Incident]) -> Coalesce:
    """The id from which on the newest 100 rows of a session lie; read off the (session, -id) index."""
    rows = model._default_manager.filter(session=OuterRef("pk")).order_by("-id").values("id")
    return Coalesce(Subquery(rows[SLOTS - 1 : SLOTS]), 0)


def _from_floor(
    model: type[Any], floor: str, newest: Sequence[Session], since: datetime | None
) -> QuerySet[Any]:
    wanted = reduce(or_, (Q(session=s.pk, id__gte=getattr(s, floor)) for s in newest))
    rows = model.objects.filter(wanted).order_by("id")
    return rows if since is None else rows.filter(time__gte=since)


# one session


def tag_counts(session: Session) -> list[dict[str, Any]]:
    """Tags by type and status, with their tokens.  One query."""
    return list(
        Tag.objects.filter(session=session)
        .values("type", "status")
        .annotate(tags=Count("pk"), tokens=Sum(F("token_count") + F("input_token_count")))
        .order_by("type", "status")
    )


def pending(session: Session) -> dict[str, Any]:
    """Marks that have not landed: how many, and the oldest 200.  Two queries."""
    rows = PendingDrop.objects.filter(session=session)
    oldest = rows.order_by("queued_at", "number")[:PENDING_SHOWN]
    return {"count": rows.count(), "oldest": list(oldest.values("number", "operation", "queued_at"))}


# rows


def session_facts(session: Session) -> dict[str, Any]:
    """A session as a row; percentages are of the usable soft window.  Needs owner and project loaded."""
    return {
        "id": session.pk,
        "harness": session.harness,
        "sid": session.sid,
        "owner": session.owner.get_username(),
        "project": str(session.project) if session.project else None,
        "role": session.role,
        "parent_sid": session.parent_sid,
        "format": session.format,
        "model": session.model,
        "usage_percent": round(session.usage_percentage, 2),
        "input_tokens": session.input_tokens,
        "usable_limit": session.usable_limit,
        "context_limit": session.context_limit,
        "threshold": session.threshold,
        "force_band": round(force_band(session.threshold), 2) if session.threshold else None,
        "version": session.version,
        "view_version": session.view_version,
        "lineage": session.lineage,
        "last_error": session.last_error,
        "created": session.created,
        "last_seen": session.last_seen,
    }


def pass_facts(record: Pass) -> dict[str, Any]:
    """A pass as a row.  Needs its session loaded."""
    return {
        "id": record.pk,
        "session_id": record.session_id,
        "session": str(record.session),
        "time": record.time,
        "level": record.level,
        "permitted": record.permitted,
        "decision": record.decision,
        "reasons": record.reasons,
        "reasons_in_words": in_words(record.reasons),
        "model": record.model,
        "emergency": record.emergency,
        "usage_percent": round(record.usage_percentage, 2),
        "input_tokens": record.input_tokens,
        "usable_limit": record.context_limit,
        "lanes": record.lanes,
        "dropped_count": record.dropped_count,
        "dropped_tokens": record.dropped_tokens,
        "first_changed": record.first_changed,
        "messages": record.message_count,
        "bytes_in": record.bytes_in,
        "bytes_out": record.bytes_out,
        "bytes_saved": record.bytes_in - record.bytes_out,
        "milliseconds": round(record.milliseconds, 2),
        "view_version": record.view_version,
    }


def incident_facts(incident: Incident) -> dict[str, Any]:
    """A refusal or fault as a row.  Needs its session loaded."""
    return {
        "id": incident.pk,
        "session_id": incident.session_id,
        "session": str(incident.session),
        "kind": incident.kind,
        "code": incident.code,
        "detail": incident.detail,
        "time": incident.time,
        "view_version": incident.view_version,
    }


def usage_facts(event: UsageEvent) -> dict[str, Any]:
    """The usage of one response; cache numbers are None where the provider reported none."""
    told = event.reports_cache
    return {
        "response": event.response_key,
        "time": event.time,
        "model": event.model,
        "input_tokens": event.input_tokens,
        "cache_read": event.cache_read if told else None,
        "cache_write": event.cache_write if told else None,
        "output_tokens": event.output_tokens,
        "finish": event.finish,
    }
