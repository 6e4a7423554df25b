"""What has to be tidied now and then; once an hour, in the background (design section 5).

Every step is small, tries once, and leaves to the next run what it could not do.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models import Count
from django.utils import timezone

from sessions_app import models
from sessions_app.services.lifecycle import finish_delete

logger = logging.getLogger(__name__)

RECEIPT_AGE = timedelta(hours=24)
"""How long a request may be repeated (hosts section 10.1)."""

PASSES_KEPT = 2_000
"""Newest passes kept of each session; their usage stays, it is what costs are summed from."""

BATCH = 500

SCHEDULE_NAME = "sessions: housekeeping"
TASK = "sessions_app.services.housekeeping.run"


def run() -> dict[str, int]:
    """The scheduled task: everything once.  Returns how much each step did."""
    done = {
        "sessions_cleared": finish_deletions(),
        "receipts_deleted": delete_receipts(timezone.now() - RECEIPT_AGE),
        "passes_deleted": trim_passes(PASSES_KEPT),
    }
    if any(done.values()):
        logger.info("housekeeping: %s", ", ".join(f"{name} {count}" for name, count in done.items()))
    return done


def finish_deletions() -> int:
    """Clear the rows of sessions whose deletion found the database busy."""
    marked = models.Session.objects.filter(cleanup_pending=True).values_list("pk", flat=True)
    return sum(finish_delete(session_id) for session_id in list(marked))


def delete_receipts(before: datetime) -> int:
    """Delete the receipts of requests, events and tool calls made before that time."""
    deleted = 0
    for receipts in (models.RequestReceipt, models.EventReceipt, models.ToolReceipt):
        while keys := list(receipts.objects.filter(created__lt=before).values_list("pk", flat=True)[:BATCH]):
            receipts.objects.filter(pk__in=keys).delete()
            deleted += len(keys)
    return deleted


def trim_passes(keep: int) -> int:
    """Delete all but the newest ``keep`` passes of each session."""
    crowded = (
        models.Pass.objects.values("session").annotate(count=Count("pk")).filter(count__gt=keep).order_by()
    )
    deleted = 0
    for session_id in [row["session"] for row in crowded]:
        passes = models.Pass.objects.filter(session=session_id)
        oldest_kept = passes.order_by("-pk").values_list("pk", flat=True)[keep - 1]
        while keys := list(passes.filter(pk__lt=oldest_kept).values_list("pk", flat=True)[:BATCH]):
            models.Pass.objects.filter(pk__in=keys).delete()
            deleted += len(keys)
    return deleted


def schedule(sender: AppConfig, using: str, **_: Any) -> None:
    """After migrations: have the task run hourly.  A schedule a person changed stays as it is."""
    from django_q.models import Schedule  # type: ignore[import-untyped]

    if Schedule._meta.db_table in connections[using].introspection.table_names():
        Schedule.objects.using(using).get_or_create(
            name=SCHEDULE_NAME, defaults={"func": TASK, "schedule_type": Schedule.HOURLY}
        )
