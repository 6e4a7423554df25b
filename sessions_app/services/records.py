"""What a pass leaves besides its content: pass record, usage, incidents, notices, the session's row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction

from magiccontext.engine.overflow import parse_overflow
from magiccontext.engine.recovery import learn_overflow
from magiccontext.engine.request import UsageReport
from magiccontext.engine.result import NoticeText, Outcome, PassResult
from magiccontext.engine.state import SessionState, Vars
from sessions_app import models
from sessions_app.services.calls import PassSummary, TransformCall
from sessions_app.services.clock import from_ms


def measured(session: models.Session | None, state: SessionState, call: TransformCall) -> UsageReport | None:
    """The reported usage with the array it was measured on.

    A report about the last pass needs no look-up; one about an earlier pass costs a query.
    """
    report = call.usage
    if report is None:
        return None
    return locate(session, state.vars, report)


def locate(session: models.Session | None, vars: Vars, report: UsageReport) -> UsageReport:
    """Find the array that an older pass was about; its own estimate is no longer known then."""
    if session is None or report.pass_id in (0, vars.last_pass_id):
        return report
    mid = (
        models.Pass.objects.filter(session=session, pk=report.pass_id)
        .values_list("last_mid", flat=True)
        .first()
    )
    return replace(report, measured_mid=mid or "", measured_wire=vars.last_pass_wire_tokens)


def bind(vars: Vars, record: models.Pass) -> Vars:
    return replace(vars, last_pass_id=record.pk)


def write_pass(
    session: models.Session, call: TransformCall, result: PassResult, now: datetime, milliseconds: float
) -> models.Pass | None:
    """The record of a committed pass; for a refusal or a fault, the incident instead."""
    if result.outcome in (Outcome.REFUSE, Outcome.FAULT):
        models.Incident.objects.create(
            session=session,
            kind=models.Incident.Kind.REFUSAL
            if result.outcome is Outcome.REFUSE
            else models.Incident.Kind.FAULT,
            code=result.ending.code or "engine_fault",
            detail=result.ending.text or result.fault,
            time=now,
            view_version=session.view_version,
        )
        return None
    vars = result.changes.vars
    return models.Pass.objects.create(
        session=session,
        view_version=vars.view_version,
        time=now,
        decision="passthrough" if result.outcome is Outcome.PASSTHROUGH else str(result.scheduler),
        level=result.level.word,
        permitted=result.permitted.word,
        reasons=list(result.reasons),
        clauses=[[c.name, c.value, c.section, c.deciding] for c in result.clauses],
        lanes=result.lanes,
        model=call.model,
        emergency=result.emergency,
        usage_percentage=result.percentage,
        input_tokens=result.input_tokens,
        context_limit=result.window.usable_soft,
        dropped_count=sum(result.lanes.values()),
        dropped_tokens=result.dropped_tokens,
        first_changed=result.first_changed,
        message_count=len(result.changes.arrival.mids),
        last_mid=vars.last_pass_mid,
        bytes_in=vars.raw_bytes,
        bytes_out=vars.served_bytes,
        milliseconds=milliseconds,
    )


def summary_of(record: models.Pass) -> PassSummary:
    """The ``pass`` member of an answer, from the stored record."""
    return PassSummary(
        record.pk,
        record.level,
        record.permitted,
        record.decision,
        list(record.reasons),
        round(record.usage_percentage, 2),
        record.first_changed,
        dict(record.lanes),
        record.bytes_in - record.bytes_out,
        round(record.milliseconds, 2),
    )


def write_usage(session: models.Session, call: TransformCall, now: datetime) -> None:
    if call.usage is not None:
        store_usage(session, call.usage, call.usage_reports_cache)


def response_key(report: UsageReport) -> str:
    """What makes a response one: its pass, else its message, else its time of completion."""
    if report.pass_id:
        return f"pass:{report.pass_id}"
    return f"message:{report.message_id}" if report.message_id else f"time:{report.completed_ms}"


def _counted(session: models.Session, report: UsageReport) -> bool:
    """Whether a response is known under its other name: by message once, by pass the other time.

    The same name twice is the unique key's matter, so a host that always sends both pays one look-up.
    """
    if not report.message_id:
        return False
    rows = models.UsageEvent.objects.filter(session=session)
    if report.pass_id:
        return rows.filter(response_key=f"message:{report.message_id}").exists()
    return rows.filter(message_id=report.message_id).exists()


def store_usage(
    session: models.Session, report: UsageReport, reports_cache: bool, *, finish: str = ""
) -> None:
    """One row per response, however often it is reported."""
    if _counted(session, report):
        return
    record = None
    if report.pass_id:
        record = models.Pass.objects.filter(session=session, pk=report.pass_id).first()
    models.UsageEvent.objects.bulk_create(
        [
            models.UsageEvent(
                session=session,
                pass_record=record,
                response_key=response_key(report),
                message_id=report.message_id[:255],
                time=from_ms(report.completed_ms),
                model=report.model,
                input_tokens=report.input_tokens,
                cache_read=report.cache_read_input_tokens,
                cache_write=report.cache_creation_input_tokens,
                output_tokens=report.output_tokens,
                reports_cache=reports_cache,
                finish=finish[:64],
                context_limit=session.usable_limit,
            )
        ],
        ignore_conflicts=True,
    )
    if record is not None and report.message_id and not record.message_id:
        models.Pass.objects.filter(pk=record.pk).update(message_id=report.message_id[:255])


def write_session(
    session: models.Session, call: TransformCall, result: PassResult, vars: Vars, now: datetime
) -> None:
    session.store_vars(vars)
    session.model = call.model
    session.context_limit = result.window.context
    session.usable_limit = result.window.usable_soft
    session.threshold = result.threshold
    session.usage_percentage = result.percentage
    session.input_tokens = result.input_tokens
    session.last_seen = now
    fields = [
        "engine_state", "version", "view_version", "lineage", "last_error", "model", "context_limit",
        "usable_limit", "threshold", "usage_percentage", "input_tokens", "last_seen",
    ]  # fmt: skip
    if call.capabilities and call.capabilities != session.capabilities:
        session.capabilities = call.capabilities
        fields.append("capabilities")
    session.save(update_fields=fields)
    add_notices(session, result.notices, now)


def add_notices(session: models.Session, notices: Iterable[NoticeText], now: datetime) -> None:
    """Keep texts for the person until the host has been offered them.  Call inside a transaction."""
    rows = [
        models.Notice(session=session, level=n.level, code=n.code, text=n.text, created=now) for n in notices
    ]
    if rows:
        models.Notice.objects.bulk_create(rows)
        models.Session.objects.filter(pk=session.pk).update(notices_waiting=True)
        session.notices_waiting = True


def offer_notices(session: models.Session, now: datetime) -> list[dict[str, Any]]:
    """Notices nobody has been offered yet; each is offered once.  No query when there are none."""
    if not session.notices_waiting:
        return []
    with transaction.atomic():
        waiting = list(models.Notice.objects.filter(session=session, offered=None).order_by("pk"))
        models.Notice.objects.filter(pk__in=[n.pk for n in waiting]).update(offered=now)
        models.Session.objects.filter(pk=session.pk).update(notices_waiting=False)
    return [
        {"id": n.pk, "level": n.level, "text": n.text, **({"code": n.code} if n.code else {})}
        for n in waiting
    ]


def overflowed(
    vars: Vars, error: str | dict[str, Any], model: str, *, primary: bool, compaction: bool
) -> Vars:
    """``vars`` after the host reported a provider's error; unchanged when it is not about size."""
    found = parse_overflow(error)
    if not found.is_overflow:
        return vars
    return learn_overflow(vars, found, model, primary=primary, compaction=compaction)
