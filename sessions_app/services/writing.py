"""Writing to a session outside a pass (design section 5).

Tools, events, commands and the report of an overflow all go through here: the session's row is locked, its
version grows with the write, and both are committed together.  A pass that was computed meanwhile finds
another version and computes again; two copies of a rule about versions would be one too many.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from django.db import connection, transaction

from magiccontext.engine.state import PendingDrop, Vars
from sessions_app import models
from sessions_app.services.cache import states
from sessions_app.services.calls import Refused

LOCK_TIMEOUT = "5s"

SCALARS = ("engine_state", "version", "view_version", "lineage", "last_error")
"""The columns that :meth:`Session.store_vars` sets."""

UNKNOWN_SESSION = "No such session; it begins with its first transform."


def wait_for_locks() -> None:
    """Bound the wait for row locks in this transaction.  SQLite has its busy timeout for that."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")


@dataclass(slots=True)
class Writing:
    """The locked session.  Assign to ``vars`` what is to be stored.

    ``fields`` names further columns of the row that were set; ``queued`` drops that were added.
    ``reshaped``: rows of messages or tags changed, so that a snapshot has to be read again.
    """

    session: models.Session
    vars: Vars
    fields: list[str] = field(default_factory=list)
    queued: list[PendingDrop] = field(default_factory=list)
    reshaped: bool = False


@contextmanager
def exclusive(session_id: int) -> Iterator[Writing]:
    """One transaction that changes a session.  Hold its turn (:meth:`StateCache.turn`).

    Raises Refused ``unknown_session`` when the session is gone, OperationalError when the database is busy;
    then, as after any exception in the body, nothing is written.
    """
    with transaction.atomic():
        wait_for_locks()
        session = (
            models.Session.objects.select_for_update().filter(pk=session_id, cleanup_pending=False).first()
        )
        if session is None:
            raise Refused("unknown_session", UNKNOWN_SESSION)
        before = session.version
        writing = Writing(session, session.vars())
        yield writing
        after = replace(writing.vars, version=before + 1)
        session.store_vars(after)
        session.save(update_fields=[*SCALARS, *writing.fields])
    if writing.reshaped:
        states.forget(session_id)
    else:
        states.carry(session_id, before, after, writing.queued)
