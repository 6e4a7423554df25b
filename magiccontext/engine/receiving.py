"""Receiving a request: its messages named, parsed, paired and tagged (reclaim-core section 5.6, step 5).

What comes out is a draft and the forms that are not ours to decide: those of messages the host had to send
raw, and of every message while compaction is off.
"""

from __future__ import annotations

from dataclasses import replace

from magiccontext.engine import tags
from magiccontext.engine.draft import Draft, Route
from magiccontext.engine.identity import arrive
from magiccontext.engine.request import PassRequest, Settings
from magiccontext.engine.result import NotReady
from magiccontext.engine.state import FormChange, Msg, SessionState, TagStatus, Why
from magiccontext.engine.transcript import InvalidMessage, Role
from magiccontext.engine.view import Form


def receive(state: SessionState, request: PassRequest, settings: Settings) -> tuple[Draft, list[FormChange]]:
    """The draft of a pass, and the forms in which messages went out, or will go out, as the host has them.

    Raises InvalidMessage naming the place from the request's ``messages`` on, and NotReady.
    """
    arrival = arrive(state, request.slices, request.digests, request.host_ids, base=request.base)
    draft = Draft(state, arrival, request.codec, Route.of(request.model), request.now_ms)
    fresh = [*arrival.new, *arrival.revised]
    for message in fresh:
        try:
            message.parsed = request.codec.parse(message.raw)
        except InvalidMessage as error:
            raise error.at(f"messages[{arrival.mids.index(message.mid)}]") from None
        message.role = message.parsed.role
        message.created_ms = message.parsed.created_ms or 0
    _check_complete(draft)
    tags.link_tools(draft, arrival, state.unpaired)
    if draft.vars.version == 0:
        draft.vars = replace(draft.vars, can_remove=request.can_remove)
    raw = _raw_sent(draft, request)
    if settings.compaction and _decide_reduce(draft, request):
        _tag(draft, fresh, raw, settings)
    else:
        tags.measure(draft, fresh, settings.count)
        raw |= {m.mid for m in fresh}
    if not settings.compaction:
        raw = {m.mid for m in draft.path}
    draft.raw = raw
    return draft, _raw_forms(draft)


def _tag(draft: Draft, fresh: list[Msg], raw: set[str], settings: Settings) -> None:
    """Tags of what is new; a message that comes back after it was sent raw has its first chance now."""
    for message in draft.arrival.revised:
        tags.rebind(draft, message)
    if draft.arrival.path is not None:
        tags.follow_tools(draft, draft.arrival.path)
    _keep_arcs_whole(draft, raw)
    fresh = fresh + [m for m in draft.returning() if m.raw_sent]
    tags.allocate(draft, [m for m in fresh if m.mid not in raw], settings.count)
    tags.measure(draft, [m for m in fresh if m.mid in raw], settings.count)


def _keep_arcs_whole(draft: Draft, raw: set[str]) -> None:
    """Take out of ``raw`` what would leave half of a dropped call in the request (hosts section 2.3)."""
    halves = True
    while halves:
        halves = False
        for mid in sorted(raw):
            message = draft.message(mid)
            for link in message.links if message is not None else ():
                tag = draft.tag_for_call(link.call_id, link.owner)
                if tag is None or tag.status is not TagStatus.DROPPED:
                    continue
                other = tag.result_mid if link.is_call else link.owner
                if draft.on_path(other) and other not in raw:
                    raw.discard(mid)
                    halves = True


def _raw_forms(draft: Draft) -> list[FormChange]:
    forms: list[FormChange] = []
    for mid in draft.raw:
        known = draft.message(mid)
        if known is not None and (known.form is None or known.form.body != known.raw):
            why = Why.FIRST if known.form is None else Why.REBASED
            forms.append(FormChange(mid, Form((), known.raw), why, raw_sent=True))
    return forms


def _check_complete(draft: Draft) -> None:
    last = next(draft.last_messages(), None)
    if last is None:
        raise NotReady(
            "incomplete_user_message", "the array holds no messages yet; call again with the prompt"
        )
    if last.role is Role.USER and not draft.parsed(last).parts:
        raise NotReady(
            "incomplete_user_message", "the newest user message has no content yet; call again when it has"
        )


def _raw_sent(draft: Draft, request: PassRequest) -> set[str]:
    """Identities that are in the provider's cache, or about to be, exactly as the host has them.

    A trailing assistant message is the start of the answer: the model goes on from its last character, so
    nothing may stand before it.  Of what the host had to send raw, everything up to the newest answer was
    in that request; what came after it is new.
    """
    raw: set[str] = set()
    last = next(draft.last_messages())
    if last.role is Role.ASSISTANT and (last.form is None or draft.returns(last)):
        raw.add(last.mid)
    if request.raw_from is None:
        return raw
    behind: list[str] = []
    answered = False
    place = draft.length - 1
    for message in draft.last_messages():
        answered = answered or message.role is Role.ASSISTANT
        if (answered and message.role is not Role.ASSISTANT) or behind:
            behind.append(message.mid)
        if request.raw_from in (message.mid, place):
            return raw | set(behind)
        place -= 1
    return raw


def _decide_reduce(draft: Draft, request: PassRequest) -> bool:
    """Freeze whether ctx_reduce is callable (reclaim-core 1.4).  False: no user message, nothing to keep."""
    if draft.vars.reduce_verdict is None:
        if not any(message.role is Role.USER for message in draft.path):
            return False
        verdict = True if request.reduce_callable is None else request.reduce_callable
        draft.vars = replace(draft.vars, reduce_verdict=verdict)
    return True
