"""Commands a person gives in the host (dashboard-cli section 6).

Answers are for the person and never part of the model's context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from magiccontext.engine.permission import FlushRequest
from sessions_app import models
from sessions_app.services.cache import states
from sessions_app.services.calls import Refused
from sessions_app.services.retries import Reply, Retry, answer_text
from sessions_app.services.sessions import SessionKey, find
from sessions_app.services.settings import engine_settings
from sessions_app.services.status import session_status, status_text
from sessions_app.services.writing import UNKNOWN_SESSION, exclusive

COMPACTION_OFF = "Unavailable: magic-context is in compaction-off mode (compaction.enabled=false)."
NOTHING_TO_FLUSH = "No pending operations to flush."


@dataclass(frozen=True, slots=True)
class CommandCall:
    """One command.  ``arguments`` are its own, ``confirm`` answers an earlier question of it."""

    name: str
    arguments: Mapping[str, Any]
    confirm: str
    now_ms: int
    retry: Retry


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    text: str
    data: dict[str, Any] = field(default_factory=dict)


def flush(session: models.Session, call: CommandCall) -> Reply:
    """Ask for a rebuild: held work lands on the next pass (reclaim-core section 5.2).

    The command itself changes no tag.  The request stands even with nothing queued, for what the other
    lanes have.
    """
    if not engine_settings(session.model).compaction:
        return _kept(call, CommandAnswer(COMPACTION_OFF, {"available": False}))
    with exclusive(session.pk) as writing:
        writing.vars = replace(writing.vars, flush=str(FlushRequest.EXPLICIT))
        waiting = models.PendingDrop.objects.filter(session=session).count()
        text = (
            f"Flushed: {waiting} dropped. Changes take effect on next message."
            if waiting
            else NOTHING_TO_FLUSH
        )
        return _kept(call, CommandAnswer(text, {"available": True, "drops": waiting}))


def status(session: models.Session, call: CommandCall) -> Reply:
    """What the session looks like now (dashboard-cli section 5.1)."""
    found = session_status(session, call.now_ms)
    diagnostics = bool(call.arguments.get("diagnostics"))
    return _kept(call, CommandAnswer(status_text(found, diagnostics=diagnostics), found))


def _kept(call: CommandCall, answer: CommandAnswer) -> Reply:
    reply = Reply(200, answer_text(asdict(answer)))
    call.retry.keep(reply)
    return reply


COMMANDS: dict[str, Callable[[models.Session, CommandCall], Reply]] = {"flush": flush, "status": status}


def run_command(key: SessionKey, call: CommandCall) -> Reply:
    """Run a command of a session.

    Raises Refused: ``not_found`` for a command that does not exist, ``unknown_session``.
    """
    command = COMMANDS.get(call.name)
    if command is None:
        raise Refused("not_found", f"No such command; there are {', '.join(COMMANDS)}.")
    with states.turn(key.turn):
        session = find(key)
        if session is None:
            raise Refused("unknown_session", UNKNOWN_SESSION)
        return command(session, call)
