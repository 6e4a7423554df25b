"""A pass, from a request to an answer (design section 5).

    read the session and its snapshot, no lock
    compute
    take the writer, compare the version, write everything, commit
    answer

Another writer in between means: roll back and compute again, four times at most.  A writer that cannot be
had at all means: the last view over the messages it covers, or a refusal; never an unmanaged prompt.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, transaction

from magiccontext.engine.identity import digest_of
from magiccontext.engine.passes import run_pass
from magiccontext.engine.request import PassRequest
from magiccontext.engine.result import NotReady, Outcome, PassResult
from magiccontext.engine.state import HEAD_MIDS, Msg, SessionState, Vars, Why
from magiccontext.engine.transcript import InvalidMessage
from magiccontext.engine.wire import codec_for
from magiccontext.engine.wire.base import Codec
from magiccontext.engine.wire.spans import InvalidJson
from sessions_app import models
from sessions_app.services import directives, heading, last_good, overflow, receipts, records, store
from sessions_app.services.cache import states
from sessions_app.services.calls import Answer, PassSummary, Refused, TransformCall
from sessions_app.services.clock import from_ms
from sessions_app.services.serving import serve, serve_plain, view_json, with_head
from sessions_app.services.sessions import BadRequest, SessionKey, create, find, project_for
from sessions_app.services.settings import engine_settings
from sessions_app.services.writing import wait_for_locks

logger = logging.getLogger(__name__)

T = TypeVar("T")

RECOMPUTE_AT_MOST = 4
WRITER_WAITS = (0.5, 1.0)
"""Seconds between attempts to take the writer; each attempt itself waits for the busy timeout."""


class _Overtaken(Exception):
    """Another writer committed first: the snapshot is old."""


class _Busy(Exception):
    """The writer could not be had within every attempt."""


def transform(key: SessionKey, call: TransformCall) -> Answer:
    """Run one pass and answer it.

    Raises BadRequest for what does not fit (nothing is stored), and Refused with a code of hosts section
    10.5 for what must not be sent.
    """
    if call.utility:
        return Answer(None, 0, list(call.messages), outcome="utility")
    codec = _codec(call)
    plain = _undecorated(codec, call.messages)
    digests = [digest_of(bare) for bare in plain]
    with states.turn((key.owner.pk, key.harness, key.sid)):
        answer = _serialised(key, call, codec, plain, digests)
        answer.directives = _offer_directives(key, call)
    return answer


def _codec(call: TransformCall) -> Codec:
    try:
        return codec_for(call.format)
    except KeyError:
        raise BadRequest("format", f"unknown format {call.format!r}") from None


def _undecorated(codec: Codec, slices: list[bytes]) -> list[bytes]:
    plain = []
    for index, raw in enumerate(slices):
        try:
            plain.append(codec.undecorate(raw))
        except (InvalidMessage, InvalidJson) as error:
            raise BadRequest(f"messages[{index}]", error.detail) from None
    return plain


def _serialised(
    key: SessionKey, call: TransformCall, codec: Codec, plain: list[bytes], digests: list[bytes]
) -> Answer:
    started = time.perf_counter()
    reported = call.provider_error is None
    overtaken = ""
    for _ in range(RECOMPUTE_AT_MOST):
        session = find(key)
        if call.idempotency_key:
            receipt = receipts.find(key.owner, call.idempotency_key, call.body_digest)
            if receipt is not None and session is not None:
                return _again(session, receipt, call, codec, plain)
        if session is not None and session.format != call.format:
            raise BadRequest("format", f"this session speaks {session.format}; a session keeps its format")
        if session is not None and not reported:
            _learn_reported(session, call)
            session, reported = find(key), True
        state = states.get(session) if session is not None else _unseen(call)
        try:
            return _attempt(key, session, state, call, codec, plain, digests, started)
        except _Overtaken as error:
            overtaken = str(error) or "another writer committed first"
            continue
        except _Busy:
            break
    else:
        logger.warning(
            "session %s/%s: overtaken %d times, last: %s", key.harness, key.sid, RECOMPUTE_AT_MOST, overtaken
        )
    return _without_writing(find(key), call, codec, plain, digests, "storage_busy")


def _learn_reported(session: models.Session, call: TransformCall) -> None:
    """An overflow the host reports is stored before anything else is decided (reclaim-core section 8.2)."""
    assert call.provider_error is not None
    error = call.provider_error
    try:
        _write(lambda: overflow.store_reported(session, error))
    except _Busy:
        raise Refused(
            "storage_busy",
            "The provider's error could not be stored. Report it again with the next request.",
            retry_after=2,
        ) from None


def _unseen(call: TransformCall) -> SessionState:
    """A session nothing is stored of.  What its host reports is stored with the first pass."""
    if call.provider_error is None:
        return SessionState()
    return SessionState(
        records.overflowed(
            Vars(),
            call.provider_error,
            call.model,
            primary=not call.subagent,
            compaction=engine_settings(call.model).compaction,
        )
    )


def _attempt(
    key: SessionKey,
    session: models.Session | None,
    state: SessionState,
    call: TransformCall,
    codec: Codec,
    plain: list[bytes],
    digests: list[bytes],
    started: float,
) -> Answer:
    base = _base(state, call)
    settings = engine_settings(call.model)
    subagent = call.subagent if session is None else session.role == models.Session.Role.SUBAGENT
    head, revision = heading.request_for(key, session, state, call, subagent)
    request = PassRequest(
        codec=codec,
        now_ms=call.at_ms,
        slices=plain,
        digests=digests,
        base=base,
        model=call.model,
        context_limit=call.context_limit,
        output_limit=call.output_limit,
        subagent=subagent,
        head=head,
        reduce_callable=call.reduce_callable,
        can_remove=call.can_remove,
        overhead_tokens=call.overhead_bytes // 4,
        estimate_tokens=call.estimate_tokens,
        usage=records.measured(session, state, call),
        raw_from=_raw_from(session, call),
    )
    try:
        result = run_pass(state, request, settings)
    except (InvalidMessage, InvalidJson) as error:
        field = error.field if isinstance(error, InvalidMessage) else "messages"
        raise BadRequest(field, error.detail) from None
    except NotReady as error:
        raise Refused(error.code, error.detail) from None
    except Exception as error:
        logger.exception("pass of %s/%s failed", key.harness, key.sid)
        _note_error(session, error)
        return _without_writing(session, call, codec, plain, digests, "degraded_pass")

    now = from_ms(call.at_ms)
    milliseconds = (time.perf_counter() - started) * 1000
    session, record = _write(
        lambda: _commit(key, session, state, call, codec, result, revision, now, milliseconds)
    )
    if result.outcome is Outcome.REFUSE:
        states.forget(session.pk)
        raise Refused("context_refused", f"{result.ending.text} ({result.ending.code})")
    if result.outcome is Outcome.FAULT:
        states.forget(session.pk)
        logger.error("engine fault in %s/%s: %s", key.harness, key.sid, result.fault)
        return _without_writing(find(key), call, codec, plain, digests, "degraded_pass")

    before_version = state.vars.view_version
    first_served = {change.mid for change in result.changes.forms if change.why is Why.FIRST}
    only_new = len(first_served) == len(result.changes.forms) and result.changes.arrival.path is None
    state = state.advanced(result.changes)
    states.put(session.pk, state)
    states.raw_settled(session.pk)
    assert record is not None
    saved = state.vars.raw_bytes - state.vars.served_bytes
    answer = Answer(
        PassSummary.of(record.pk, result, saved, milliseconds),
        state.vars.view_version,
        [],
        mids=result.changes.arrival.mids,
        chain=state.chain_at(len(state.path)),
        notices=_offer_notices(session, now),
        outcome="passthrough" if result.outcome is Outcome.PASSTHROUGH else "serve",
    )
    if result.outcome is Outcome.PASSTHROUGH:
        raw = serve_plain(state.path[:base]) + list(call.messages)
        answer.messages = with_head(codec, state.head_bodies, raw)
    elif call.want_edits:
        knows = call.last_sent.view_version if call.last_sent is not None else -1
        delta = only_new and knows == before_version and before_version > 0
        changed = [(c.mid, c.form.edits) for c in result.changes.forms if c.form.edits] if delta else None
        answer.view = view_json(
            state.vars.view_version,
            state.vars.lineage,
            result.level.word,
            state.path,
            changed,
            before_version if delta else None,
            state.head_bodies,
        )
    else:
        served = serve_plain(state.path[:base]) + serve(codec, state.path[base:], call.messages, plain)
        answer.messages = with_head(codec, state.head_bodies, served)
    return answer


def _base(state: SessionState, call: TransformCall) -> int:
    if call.sync is None:
        return 0
    count = call.sync.count
    if count > len(state.path) or state.chain_at(count) != call.sync.chain:
        raise Refused(
            "need_full_sync",
            "The server does not hold that front of the conversation. Send the whole array, with a new "
            "Idempotency-Key.",
        )
    return count


def _raw_from(session: models.Session | None, call: TransformCall) -> int | str | None:
    if call.last_sent is not None:
        return call.last_sent.raw_from
    return states.raw_from(session.pk) if session is not None else None


def _write(commit: Callable[[], T]) -> T:
    """Take the writer: three attempts, as reclaim-core section 9.2 has it."""
    for wait in (*WRITER_WAITS, None):
        try:
            return commit()
        except IntegrityError as error:
            # A race that was lost, unless it stays: the caller reports it when computing again did not help.
            raise _Overtaken(str(error)) from error
        except (OperationalError, InterfaceError) as error:
            if wait is None:
                raise _Busy from error
            time.sleep(wait)
    raise _Busy


def _commit(
    key: SessionKey,
    session: models.Session | None,
    state: SessionState,
    call: TransformCall,
    codec: Codec,
    result: PassResult,
    revision: int,
    now: datetime,
    milliseconds: float,
) -> tuple[models.Session, models.Pass | None]:
    with transaction.atomic():
        wait_for_locks()
        if session is None:
            session = create(
                key,
                format=call.format,
                role=models.Session.Role.SUBAGENT if call.subagent else models.Session.Role.PRIMARY,
                parent_sid=call.parent_session,
                project=project_for(key.owner, call.project, now),
                capabilities=call.capabilities,
            )
        locked = models.Session.objects.select_for_update().filter(pk=session.pk)
        version = locked.values_list("version", flat=True).first()
        if version != state.vars.version:
            raise _Overtaken
        if result.changes.folded and heading.knowledge_revision(key.owner.pk) != revision:
            raise _Overtaken  # what m[0] was rendered from moved meanwhile (history-render section 7)
        record = records.write_pass(session, call, result, now, milliseconds)
        vars = result.changes.vars
        if record is not None and result.outcome in (Outcome.SERVE, Outcome.PASSTHROUGH):
            vars = records.bind(vars, record)
            result.changes.vars = vars
            store.save(session, state, result.changes, now)
            heading.store(session, result.changes)
            directives.drain(session, state, result.changes, call, codec, now)
        records.write_usage(session, call, now)
        if result.outcome is not Outcome.FAULT:
            records.write_session(session, call, result, vars, now)
        if call.idempotency_key and record is not None:
            receipts.write_pass(key.owner, call, session, record, vars.view_version)
    return session, record


def _offer_notices(session: models.Session, now: datetime) -> list[dict[str, Any]]:
    """Notices to go with an answer.  The pass is committed: a busy database only postpones them."""
    try:
        return records.offer_notices(session, now)
    except (OperationalError, InterfaceError):
        return []


def _offer_directives(key: SessionKey, call: TransformCall) -> list[dict[str, Any]]:
    """What the host still has to do.  A busy database postpones it to the next answer."""
    try:
        return directives.offered(key, call)
    except (OperationalError, InterfaceError):
        return []


def _note_error(session: models.Session | None, error: Exception) -> None:
    """Keep what failed for the status page; only when it changed (reclaim-core section 9.1)."""
    text = f"{type(error).__name__} in a pass"[:240]
    if session is not None and session.last_error != text:
        try:
            models.Session.objects.filter(pk=session.pk).update(last_error=text)
        except DatabaseError:
            logger.warning("could not store the last error of session %s", session.pk)


def _without_writing(
    session: models.Session | None,
    call: TransformCall,
    codec: Codec,
    plain: list[bytes],
    digests: list[bytes],
    code: str,
) -> Answer:
    """Last-good replay, or the refusal ``code`` (reclaim-core section 9.3)."""
    settings = engine_settings(call.model)
    if not settings.compaction:
        return Answer(None, 0, list(call.messages), outcome="passthrough")
    if session is None:
        raise Refused(code, "Nothing of this session could be stored. Send the request again.", retry_after=2)
    state = states.get(session)
    replay = last_good.replay(state, call, codec, plain, digests)
    if replay.decline:
        raise Refused(
            code,
            "The pass could not be completed and the last good request cannot stand in for it. Send the "
            "request again.",
            retry_after=2,
            reason=replay.decline,
        )
    if replay.raw_from is not None:
        states.note_raw(session.pk, replay.raw_from)
    return Answer(
        None,
        state.vars.view_version,
        with_head(codec, state.head_bodies, serve(codec, replay.messages, call.messages, plain)),
        mids=[m.mid for m in replay.messages],
        raw_from=replay.raw_from,
        replayed=code,
        outcome="replay",
    )


def _again(
    session: models.Session,
    receipt: models.RequestReceipt,
    call: TransformCall,
    codec: Codec,
    plain: list[bytes],
) -> Answer:
    """Answer a retried request from the view version its first answer had."""
    record = receipt.pass_record
    assert record is not None
    state = states.get(session)
    base = _base(state, call)
    forms = store.forms_at(session, receipt.view_version)
    bodies = tuple(body for mid in HEAD_MIDS if mid in forms and (body := forms[mid].body))
    named: list[Msg] = last_good.named(state, codec, plain, base)
    messages = last_good.with_view(named, forms)
    answer = Answer(
        records.summary_of(record),
        receipt.view_version,
        [],
        mids=[m.mid for m in messages],
        chain=state.chain_at(base + len(plain)) if base + len(plain) <= len(state.path) else b"",
    )
    if call.want_edits:
        front = last_good.with_view(state.path[:base], forms)
        answer.view = view_json(
            receipt.view_version, state.vars.lineage, record.level, front + messages, None, None, bodies
        )
    else:
        served = serve_plain(last_good.with_view(state.path[:base], forms))
        served += serve(codec, messages, call.messages, plain)
        answer.messages = with_head(codec, bodies, served)
    return answer
