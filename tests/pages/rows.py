"""Passes, responses and incidents as rows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from sessions_app.models import Incident, Pass, Session, UsageEvent

CLAUSES = [
    ["compaction off", False, "reclaim-core 5.3", False],
    ["scheduler execute", True, "reclaim-core 4.4", False],
    ["signal idle", True, "reclaim-core 5.2", True],
    ["bust", True, "reclaim-core 5.3", False],
    ["veto", False, "reclaim-core 5.3", False],
    ["permission", "soft_plus", "reclaim-core 5.3", False],
]


def make_pass(session: Session, **fields: Any) -> Pass:
    return Pass.objects.create(
        **{
            "session": session,
            "view_version": 1,
            "time": timezone.now(),
            "decision": "defer",
            "level": "defer",
            "permitted": "defer",
            "clauses": CLAUSES,
            "model": session.model,
            "usage_percentage": 40.0,
            "input_tokens": 64_000,
            "context_limit": 160_000,
            "bytes_in": 5_000,
            "bytes_out": 4_000,
            "milliseconds": 3.25,
            **fields,
        }
    )


def make_usage(
    session: Session, key: str, *, read: int, write: int = 0, fresh: int = 0, **fields: Any
) -> None:
    UsageEvent.objects.create(
        session=session,
        response_key=key,
        time=fields.pop("time", timezone.now()),
        cache_read=read,
        cache_write=write,
        input_tokens=fresh,
        **fields,
    )


def make_incident(session: Session, kind: str = "refusal", time: datetime | None = None) -> Incident:
    return Incident.objects.create(
        session=session,
        kind=kind,
        code="MC-H04",
        detail="Larger than the window.",
        time=time or timezone.now(),
    )


def days_ago(days: float) -> datetime:
    return timezone.now() - timedelta(days=days)
