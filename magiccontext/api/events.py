"""``POST /sessions/{harness}/{sid}/events``: what the host saw (hosts section 10.4).

The body is a list of events, or an object that holds it as ``events``.  It is read whole before anything of
it is applied: one event that does not fit, and nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request

from magiccontext.api.body import NOTICE_LIMIT, Envelope, invalid, milliseconds, now_ms, read_bytes
from magiccontext.api.problems import ProblemError
from magiccontext.api.schemas import EVENTS_ANSWER, EVENTS_BODY
from magiccontext.api.session_view import SessionView
from magiccontext.api.usage import Usage
from magiccontext.engine.wire.spans import InvalidJson, read_array
from sessions_app.services import events
from sessions_app.services.clock import from_ms

MOST_EVENTS = 1_000


def _response(envelope: Envelope, event: events.Event, at_ms: int) -> events.Response:
    usage: Usage | None = envelope.get("usage", Usage)
    model = envelope.label("model", "")
    pass_id: int | None = envelope.get("pass_id", int)
    message_id = envelope.label("message_id", "")
    completed = envelope.get("completed_at", str)
    completed_ms = None if completed is None else milliseconds(completed, "completed_at")
    if pass_id is not None and not 0 <= pass_id < 2**63:
        raise invalid("pass_id", "is not the id of a pass")
    report = None
    if usage is not None:
        report = usage.report("usage", at_ms, model)
        report = replace(
            report,
            pass_id=report.pass_id if pass_id is None else pass_id,
            message_id=message_id or report.message_id,
            completed_ms=report.completed_ms if completed_ms is None else min(completed_ms, at_ms),
        )
    return events.Response(
        event.type,
        event.event_id,
        report=report,
        reports_cache=usage.reports_cache if usage is not None else True,
        finish=envelope.label("finish", ""),
        model=model,
        error=_error(envelope),
    )


def _error(envelope: Envelope) -> str | dict[str, Any] | None:
    error = envelope.value("error")
    if error is None or isinstance(error, str | dict):
        return error
    raise invalid("error", "must be a text or an object")


def _message_removed(envelope: Envelope, event: events.Event, at_ms: int) -> events.MessageRemoved:
    return events.MessageRemoved(event.type, event.event_id, envelope.label("message_id"))


def _forked(envelope: Envelope, event: events.Event, at_ms: int) -> events.Forked:
    through: int | str | None = envelope.get("through", int | str)
    return events.Forked(event.type, event.event_id, envelope.label("parent"), through)


def _model_changed(envelope: Envelope, event: events.Event, at_ms: int) -> events.ModelChanged:
    return events.ModelChanged(event.type, event.event_id, envelope.label("model"))


def _directive_done(envelope: Envelope, event: events.Event, at_ms: int) -> events.DirectiveDone:
    return events.DirectiveDone(event.type, event.event_id, envelope.label("directive_id"), at_ms)


def _host_compacted(envelope: Envelope, event: events.Event, at_ms: int) -> events.HostCompacted:
    """Without a time, or with one that is still to come, it happened now."""
    completed = envelope.get("completed_at", str)
    completed_ms = at_ms if completed is None else milliseconds(completed, "completed_at")
    return events.HostCompacted(event.type, event.event_id, min(completed_ms, at_ms))


def _bare(kind: type[events.Event]) -> Callable[[Envelope, events.Event, int], events.Event]:
    """A type with no members of its own."""
    return lambda envelope, event, at_ms: kind(event.type, event.event_id)


READERS: dict[str, Callable[[Envelope, events.Event, int], events.Event]] = {
    "response": _response,
    "message_removed": _message_removed,
    "host_compacted": _host_compacted,
    "forked": _forked,
    "deleted": _bare(events.Deleted),
    "model_changed": _model_changed,
    "switched_away": _bare(events.SwitchedAway),
    "directive_done": _directive_done,
}


def read_events(body: bytes, *, replay_scope: bool) -> tuple[list[events.Event], int]:
    """The events of a body and the time it is.  Raises ``invalid_params`` naming ``events[i].member``.

    A type that is not known is no fault of the body: the event is kept as it is, and answered as such.
    """
    at_ms = now_ms()
    if body.lstrip()[:1] == b"[":
        try:
            items = read_array(body, 0)
        except InvalidJson as error:
            raise invalid(
                "", f"The body is no JSON array: {error.detail} at byte {error.position}."
            ) from None
    else:
        envelope = Envelope(body)
        at_ms = envelope.moment("at", at_ms, allowed=replay_scope)
        items = envelope.array("events")
    if len(items) > MOST_EVENTS:
        raise invalid("events", f"at most {MOST_EVENTS} events in one call")
    return [_read(item, index, at_ms) for index, item in enumerate(items)], at_ms


def _read(item: bytes, index: int, at_ms: int) -> events.Event:
    place = f"events[{index}]"
    if item.lstrip()[:1] != b"{":
        raise invalid(place, "must be an object")
    try:
        envelope = Envelope(item)
        event = events.Event(envelope.label("type"), envelope.label("event_id"))
        reader = READERS.get(event.type)
        return event if reader is None else reader(envelope, event, at_ms)
    except ProblemError as error:
        detail = (
            error.problem_detail.removeprefix(f"{error.field}: ") if error.field else error.problem_detail
        )
        raise invalid(f"{place}.{error.field}" if error.field else place, detail) from None


class EventsView(SessionView):
    """Apply events."""

    @extend_schema(
        operation_id="session_events",
        request={"application/json": EVENTS_BODY},
        responses={202: OpenApiResponse(EVENTS_ANSWER, description="One result for each event, in order.")},
    )
    def post(self, request: Request, harness: str, sid: str) -> HttpResponse:
        key = self.session_key(request, harness, sid)
        body = read_bytes(request._request, NOTICE_LIMIT)
        retry = self.retry(request, body)
        listed, at_ms = read_events(body, replay_scope=request.auth.has_scope("replay"))
        return self.replied(retry, lambda: events.apply_events(key, listed, retry, from_ms(at_ms)))
