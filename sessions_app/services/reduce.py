"""``ctx_reduce``: queue what the agent wants dropped (reclaim-core section 2).

The array is not touched and no rebuild is asked for; a later pass lands the drops.
"""

from __future__ import annotations

from collections.abc import Callable

from django.db import InterfaceError, OperationalError

from magiccontext.engine.draft import Draft, Route
from magiccontext.engine.lanes.eligibility import Eligibility
from magiccontext.engine.reduce import (
    ReduceError,
    ReducePlan,
    TagFacts,
    parse_drop,
    plan_reduce,
    storage_failure,
)
from magiccontext.engine.state import Arrival, PendingDrop, SessionState
from magiccontext.engine.wire import codec_for
from sessions_app import models
from sessions_app.services.cache import states
from sessions_app.services.clock import from_ms
from sessions_app.services.retries import Reply
from sessions_app.services.tool_call import ToolAnswer, ToolCall
from sessions_app.services.writing import exclusive


def ctx_reduce(session: models.Session, call: ToolCall) -> Reply:
    """Queue the tags named by ``drop``.  Hold the session's turn.

    A busy database is the tool's own error here, not a refusal: nothing was queued, nothing is remembered,
    and the agent may call again.
    """
    # Read before the writer is taken: a cold session takes longer to read than the queue to write.
    states.get(session)
    try:
        with exclusive(session.pk) as writing:
            earlier = call.earlier(writing.session)
            if earlier is not None:
                return earlier
            # The row is locked, so the snapshot of its version is what the database holds.
            state = states.get(writing.session)
            answer, queue = _plan(state, writing.session, call)
            drops = [PendingDrop(number, call.now_ms) for number in queue]
            models.PendingDrop.objects.bulk_create(
                [
                    models.PendingDrop(
                        session=writing.session, number=drop.number, queued_at=from_ms(drop.queued_ms)
                    )
                    for drop in drops
                ],
                ignore_conflicts=True,
            )
            writing.queued = drops
            reply = answer.reply
            call.keep(writing.session, reply)
    except (OperationalError, InterfaceError):
        return ToolAnswer(
            storage_failure("the storage is busy. Nothing was queued; call again."), is_error=True
        ).reply
    return reply


def _plan(state: SessionState, session: models.Session, call: ToolCall) -> tuple[ToolAnswer, tuple[int, ...]]:
    try:
        numbers = parse_drop(call.arguments)
    except ReduceError as error:
        return ToolAnswer(error.text, is_error=True, data={"error": str(error.kind)}), ()
    plan = plan_reduce(numbers, _lookup(state, session, call.now_ms))
    return ToolAnswer(plan.text, is_error=plan.error, data=_data(plan)), plan.queue


def _lookup(state: SessionState, session: models.Session, now_ms: int) -> Callable[[int], TagFacts | None]:
    """What each number means now.  A tag whose message the person has undone is not known (cases 6)."""
    in_line = {message.mid for message in state.line if not message.removed}
    draft = Draft(state, Arrival(), codec_for(session.format), Route.of(state.vars.model), now_ms)
    eligibility = Eligibility(draft, emergency=False)

    def facts(number: int) -> TagFacts | None:
        tag = state.tags.get(number)
        if tag is None or tag.mid not in in_line:
            return None
        return TagFacts(
            status=tag.status,
            tool_name=tag.tool_name or None,
            inert=tag.inert,
            queued=number in state.pending,
            held=bool(eligibility.reason(tag)),
        )

    return facts


def _data(plan: ReducePlan) -> dict[str, list[int]]:
    return {
        "queued": list(plan.queue),
        "held": list(plan.held),
        "already": list(plan.already),
        "not_queued": sorted((*plan.refused_reduce_calls, *plan.inert)),
    }
