"""The ctx tools: which a session has, and one call of one of them (hosts sections 8 and 10.4).

A call comes with ``call_key`` when the host may repeat it; the first answer is written in the transaction
of what the call did, so a repeated call changes nothing.  What the agent did wrong is an answer that begins
with ``Error:``; only a call that cannot be made at all is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from django.db import IntegrityError

from sessions_app import models
from sessions_app.services.cache import states
from sessions_app.services.calls import Refused
from sessions_app.services.expand import ctx_expand
from sessions_app.services.reduce import ctx_reduce
from sessions_app.services.retries import Reply
from sessions_app.services.sessions import SessionKey, find
from sessions_app.services.settings import engine_settings
from sessions_app.services.tool_call import ToolCall
from sessions_app.services.writing import UNKNOWN_SESSION


class Shape(StrEnum):
    """A primary session is a head, a subagent a worker or reader (hosts section 1)."""

    HEAD = "head"
    WORKER = "worker"


CATALOGUE: dict[tuple[Shape, bool], tuple[str, ...]] = {
    (Shape.HEAD, True): ("ctx_reduce", "ctx_expand", "ctx_note", "ctx_memory", "ctx_search"),
    (Shape.HEAD, False): ("ctx_expand", "ctx_note", "ctx_memory", "ctx_search"),
    (Shape.WORKER, True): ("ctx_reduce", "ctx_expand", "ctx_search"),
    (Shape.WORKER, False): (),
}
"""Hosts section 8: (shape, compaction on) → the tools a session has."""

TOOLS: dict[str, Callable[[models.Session, ToolCall], Reply]] = {
    "ctx_reduce": ctx_reduce,
    "ctx_expand": ctx_expand,
}
"""Those of the catalogue that this server has."""


def offered(session: models.Session) -> tuple[str, ...]:
    """The tools this session may call now, in the order of the catalogue."""
    shape = Shape.WORKER if session.role == models.Session.Role.SUBAGENT else Shape.HEAD
    named = CATALOGUE[shape, engine_settings(session.model).compaction]
    return tuple(name for name in named if name in TOOLS)


def run_tool(key: SessionKey, call: ToolCall) -> Reply:
    """Run one call, or repeat its first answer.

    Raises Refused: ``unknown_session``, ``unknown_tool`` (before anything is changed),
    ``idempotency_conflict``.  Raises OperationalError when receipts cannot be written.
    """
    with states.turn(key.turn):
        session = find(key)
        if session is None:
            raise Refused("unknown_session", UNKNOWN_SESSION)
        names = offered(session)
        if call.tool not in names:
            raise Refused(
                "unknown_tool",
                f"This session has no tool of that name; it has {', '.join(names) or 'none'}.",
            )
        earlier = call.earlier(session)
        if earlier is not None:
            return earlier
        try:
            return TOOLS[call.tool](session, call)
        except IntegrityError:
            # Another process answered a copy of this call first.
            earlier = call.earlier(session)
            if earlier is None:
                raise
            return earlier
