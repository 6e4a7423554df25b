"""What leaves a session: a message the host took away, and at last all of it (reclaim-core section 1.5)."""

from __future__ import annotations

import logging
from dataclasses import replace

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F

from magiccontext.engine.state import Vars
from sessions_app import models
from sessions_app.services.cache import states
from sessions_app.services.writing import Writing, wait_for_locks

logger = logging.getLogger(__name__)

BATCH = 500


def remove_message(writing: Writing, mid: str) -> bool:
    """Take a message away: its tags go with their queued drops, its raw rows stay in their place, marked.

    Tags are those of its texts and files and those of the calls it made.  Returns False for an identity
    the session does not know.  Numbers are not given again: the counter stays.
    """
    session = writing.session
    known = models.RawMessage.objects.filter(session=session, mid=mid).update(removed=True)
    if not known:
        return False
    gone = models.Tag.objects.filter(session=session, mid=mid)
    numbers = list(gone.values_list("number", flat=True))
    for start in range(0, len(numbers), BATCH):
        models.PendingDrop.objects.filter(session=session, number__in=numbers[start : start + BATCH]).delete()
    gone.delete()
    writing.vars = clamped(writing.vars, highest_tag(session))
    writing.reshaped = True
    return True


def highest_tag(session: models.Session) -> int:
    """The highest tag number that still exists; 0 when there is none."""
    number = models.Tag.objects.filter(session=session).order_by("-number").values_list("number", flat=True)
    return number.first() or 0


def clamped(vars: Vars, highest: int) -> Vars:
    """``vars`` with no watermark above the highest tag there is."""
    return replace(
        vars,
        tool_reclaim_watermark=min(vars.tool_reclaim_watermark, highest),
        highest_dropped_tag=min(vars.highest_dropped_tag, highest),
    )


def mark_deleted(session_id: int) -> None:
    """The first half of a deletion: from its commit on nobody finds the session any more.

    Raises OperationalError when the mark cannot be stored; then nothing is deleted.
    """
    with transaction.atomic():
        wait_for_locks()
        models.Session.objects.filter(pk=session_id).update(cleanup_pending=True, version=F("version") + 1)
    states.forget(session_id)


def finish_delete(session_id: int) -> bool:
    """The second half: clear every row of a marked session in one transaction.

    Returns False when the database is busy: the mark stays, and housekeeping comes back to it.
    """
    try:
        with transaction.atomic():
            wait_for_locks()
            models.Session.objects.filter(pk=session_id, cleanup_pending=True).delete()
    except (OperationalError, InterfaceError):
        logger.warning("session %s is deleted, its rows wait for a free database", session_id)
        return False
    return True
