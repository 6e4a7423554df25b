"""What the host saw (hosts section 10.4): each event is applied once, in a transaction of its own.

The receipt of an event is written with what it did.  Events of one call are independent: one that cannot be
applied answers with why, and the others still are.  Only a busy database ends the call; sent again, it goes
on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import transaction

from magiccontext.engine import usage
from magiccontext.engine.request import UsageReport
from sessions_app import models
from sessions_app.services import directives, lifecycle, overflow, records
from sessions_app.services.cache import states
from sessions_app.services.calls import Refused
from sessions_app.services.clock import from_ms
from sessions_app.services.fork import fork
from sessions_app.services.retries import Reply, Retry, answer_text
from sessions_app.services.sessions import BadRequest, SessionKey, find
from sessions_app.services.writing import UNKNOWN_SESSION, Writing, exclusive


@dataclass(frozen=True, slots=True)
class Event:
    """What every event has.  An event of this very class is one whose type is not known here."""

    type: str
    event_id: str


@dataclass(frozen=True, slots=True)
class Response(Event):
    """A model answered, or its provider refused; ``report`` is None without usage."""

    report: UsageReport | None = None
    reports_cache: bool = True
    finish: str = ""
    model: str = ""
    error: overflow.ProviderError | None = None


@dataclass(frozen=True, slots=True)
class MessageRemoved(Event):
    """``message_id`` is the host's, or ours where the format has none."""

    message_id: str = ""


@dataclass(frozen=True, slots=True)
class HostCompacted(Event):
    """The host compacted the conversation by itself; it was done at ``completed_ms``."""

    completed_ms: int = 0


@dataclass(frozen=True, slots=True)
class Forked(Event):
    """This session begins as a copy of ``parent`` up to ``through`` (ordinal or identity; None: all)."""

    parent: str = ""
    through: int | str | None = None


@dataclass(frozen=True, slots=True)
class Deleted(Event):
    """The host deleted the session."""


@dataclass(frozen=True, slots=True)
class ModelChanged(Event):
    """The person chose another model; nothing has been asked of it yet."""

    model: str = ""


@dataclass(frozen=True, slots=True)
class SwitchedAway(Event):
    """The person left the session, and may come back."""


@dataclass(frozen=True, slots=True)
class DirectiveDone(Event):
    """The host carried out a directive."""

    directive_id: str = ""
    at_ms: int = 0


Result = dict[str, Any]


def applied(**members: Any) -> Result:
    return {"status": "applied", **members}


def ignored(detail: str) -> Result:
    """Nothing was to be done; the event counts as applied all the same."""
    return {"status": "ignored", "detail": detail}


def failed(code: str, detail: str) -> Result:
    """The event was not applied, and is not remembered: it may be sent again."""
    return {"status": "error", "code": code, "detail": detail}


# What an event does to a session that is there.


def _response(writing: Writing, event: Response) -> Result:
    """Usage and an overflow of one response (reclaim-core sections 4.1 and 8.2)."""
    session = writing.session
    if event.report is not None:
        report = event.report if event.report.model else replace(event.report, model=session.model)
        report = records.locate(session, writing.vars, report)
        before = writing.vars
        writing.vars = usage.record(before, report, before.last_limit)
        if writing.vars is not before and before.last_limit > 0:
            session.input_tokens = report.pressure
            session.usage_percentage = report.pressure / before.last_limit * 100
            writing.fields += ["input_tokens", "usage_percentage"]
        records.store_usage(session, report, event.reports_cache, finish=event.finish)
    if event.error is not None:
        return applied(overflow=overflow.learn(writing, event.error, event.model))
    return applied()


def _message_removed(writing: Writing, event: MessageRemoved) -> Result:
    if lifecycle.remove_message(writing, event.message_id):
        return applied()
    return ignored("no message of that id")


def _host_compacted(writing: Writing, event: HostCompacted) -> Result:
    """The stored usage was measured on an array that will not come again (reclaim-core section 4.1), and
    the next pass folds (history-render section 5, row 12)."""
    session, completed = writing.session, from_ms(event.completed_ms)
    if session.host_compacted is None or session.host_compacted < completed:
        session.host_compacted = completed
        writing.fields.append("host_compacted")
    directives.forget_markers(session, completed)
    writing.vars = replace(
        writing.vars,
        usage_mid="",
        last_pass_mid="",
        emergency_sample=0,
    )
    writing.reshaped = True
    return applied()


def _model_changed(writing: Writing, event: ModelChanged) -> Result:
    """For the pages only: the next pass compares its model with the one that was measured."""
    writing.session.model = event.model
    writing.fields.append("model")
    return applied()


def _switched_away(writing: Writing, event: SwitchedAway) -> Result:
    """Memory only: the snapshot goes, here and, by the version, in every other process."""
    writing.reshaped = True
    return applied()


def _directive_done(writing: Writing, event: DirectiveDone) -> Result:
    undone = directives.done(writing.session, event.directive_id, from_ms(event.at_ms))
    return ignored(undone) if undone else applied()


APPLY: dict[type[Event], Callable[[Writing, Any], Result]] = {
    Response: _response,
    MessageRemoved: _message_removed,
    HostCompacted: _host_compacted,
    ModelChanged: _model_changed,
    SwitchedAway: _switched_away,
    DirectiveDone: _directive_done,
}
"""``forked`` and ``deleted`` are not here: they make and unmake the session itself."""

STATUS = 202


def apply_events(key: SessionKey, events: Sequence[Event], retry: Retry, now: datetime) -> Reply:
    """Apply ``events`` in order and answer with one result each.

    Raises Refused ``unknown_session`` when there is no session and the first event does not make one,
    BadRequest ``events[0]…`` for a fork that cannot be (behind other events it gets an error of its own),
    OperationalError when the database is busy.
    """
    with states.turn(key.turn):
        session = find(key)
        if session is None and not (events and isinstance(events[0], Forked)):
            raise Refused("unknown_session", UNKNOWN_SESSION)
        results: list[Result] = []
        for event in events:
            try:
                result = _apply(key, event, now)
            except BadRequest as error:
                if results:
                    # A refusal says that nothing happened; events before this one did.
                    result = failed("invalid_params", str(error) if error.field else error.detail)
                else:
                    place = f"events[0].{error.field}" if error.field else "events[0]"
                    raise BadRequest(place, error.detail) from None
            results.append({"event_id": event.event_id, "type": event.type, **result})
        reply = Reply(STATUS, answer_text({"results": results}))
        retry.keep(reply)
    return reply


def _apply(key: SessionKey, event: Event, now: datetime) -> Result:
    session = find(key)
    if session is not None and (earlier := _earlier(session, event)) is not None:
        return earlier
    if isinstance(event, Forked):
        return _forked(key, event, now)
    if session is None:
        return failed("unknown_session", UNKNOWN_SESSION)
    if isinstance(event, Deleted):
        lifecycle.mark_deleted(session.pk)
        return applied(cleared=lifecycle.finish_delete(session.pk))
    apply = APPLY.get(type(event))
    if apply is None:
        return failed("invalid_params", "unknown event type")
    with exclusive(session.pk) as writing:
        # Seen again under the lock: another process may have had the same event.
        earlier = _earlier(writing.session, event)
        result = earlier if earlier is not None else apply(writing, event)
        if earlier is None:
            _remember(writing.session, event, result)
    return result


def _forked(key: SessionKey, event: Forked, now: datetime) -> Result:
    with transaction.atomic():
        target = fork(key, event.parent, event.through, now)
        result = applied(tags=models.Tag.objects.filter(session=target).count())
        _remember(target, event, result)
    return result


def _earlier(session: models.Session, event: Event) -> Result | None:
    receipt = models.EventReceipt.objects.filter(session=session, event_id=event.event_id).first()
    return None if receipt is None else dict(receipt.result)


def _remember(session: models.Session, event: Event, result: Result) -> None:
    models.EventReceipt.objects.create(session=session, event_id=event.event_id, result=result)
