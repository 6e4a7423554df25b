"""One pass: from a snapshot and a request to what the model should see (reclaim-core section 5.6).

    receive    name, parse and tag what is new
    gauge      usage, window, scheduler
    permit     signals, veto, hold: one permission for every lane
    reclaim    with permission, every lane that has work
    form       new messages get a form; on a rebuild, so do those whose decisions changed
    check      the level is derived from the forms and held against the permission

The head (m[0], m[1], the cut) has its place between ``gauge`` and ``permit``: what is due is found there,
and rendered only when neither veto nor hold stands in the way.

Two rules hold.  A form of an already sent message is only ever touched between ``reclaim`` and ``check``,
so a pass without permission cannot change one.  And the level is what the bytes say, never what a lane
claims; above the permission it is a fault, and nothing of the pass is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from magiccontext.engine import usage
from magiccontext.engine.draft import Draft
from magiccontext.engine.forms import Shown, form_of
from magiccontext.engine.gauging import Reading, adopt_policy, facts_of, read_gauge, ttl_of
from magiccontext.engine.heading import Heading, cut_for, freed_tokens, head_forms, note_head, prepare
from magiccontext.engine.lanes.eligibility import Eligibility
from magiccontext.engine.lanes.emergency import LatchFacts, When, next_latch
from magiccontext.engine.measure import totals
from magiccontext.engine.permission import Facts, next_held_count
from magiccontext.engine.receiving import receive
from magiccontext.engine.reclaim import Reclaimed, bring_back, reclaim
from magiccontext.engine.recovery import NO_HEAD_NOTICE, Ending, FinalCheck, count_no_head, final_check
from magiccontext.engine.request import PassRequest, Settings
from magiccontext.engine.result import NoticeText, NotReady, Outcome, PassResult
from magiccontext.engine.state import (
    HEAD_MIDS,
    Arrival,
    Changes,
    FormChange,
    Msg,
    SessionState,
    TagStatus,
    Vars,
    Why,
)
from magiccontext.engine.transcript import Role
from magiccontext.engine.view import Form, Level
from magiccontext.engine.window import Window


def run_pass(state: SessionState, request: PassRequest, settings: Settings) -> PassResult:
    """Decide one request.  Pure: ``state`` is not changed; commit ``changes`` to make it so.

    Raises InvalidMessage (the place named from the request's ``messages`` on) for what cannot be a
    conversation, and NotReady for an array that is not complete yet.
    """
    draft, raw = receive(state, request, settings)
    reading = read_gauge(draft, request, settings)
    window, gauge = reading.window, reading.gauge
    facts, decision = facts_of(draft, request, settings, reading)
    heading = prepare(
        draft, request, settings, facts, window, reading.threshold, ttl_of(draft, request, settings)
    )
    facts, verdict = heading.facts, heading.verdict
    if verdict.permitted:
        adopt_policy(draft, settings, window)
        bring_back(draft, settings)
    cut_for(draft, heading)
    note_head(draft, heading, settings)

    done = Reclaimed()
    if verdict.permitted:
        # The figure of the last response stands for what was in the window then; what a lane may take is
        # what is in it now, or a request that is merely repeated would lose more each time.
        current = gauge.trusted - round(freed_tokens(draft) * draft.vars.ratios[1])
        done = reclaim(draft, facts, current_tokens=current, smart_drops=settings.smart_drops)
    draft.vars = replace(
        draft.vars,
        held_execute=next_held_count(facts, landed=done.landed),
        emergency_sample=next_latch(
            draft.vars.emergency_sample,
            When.END,
            LatchFacts(
                percentage=gauge.percentage,
                force_band=facts.force_band,
                input_tokens=gauge.input_tokens or gauge.trusted,
                changed=done.changed,
            ),
        ),
    )

    sent_raw = {change.mid: change for change in raw}
    forms = [*head_forms(draft, heading), *_forms(draft, sent_raw)]
    level, first_changed = _level(draft, forms, sent_raw)
    if heading.level > level:
        level, first_changed = heading.level, 0
    fault = ""
    if level > heading.permission:
        first = next((change.mid for change in forms if change.why is Why.CHANGED), HEAD_MIDS[0])
        fault = f"derived level {level.word} above the permitted {heading.permission.word} at message {first}"
    _settle(draft, request, window, forms, heading)
    ending, notices = _ending(draft, request, facts, reading, heading)
    result = PassResult(
        outcome=Outcome.SERVE,
        changes=_changes(draft, forms, heading),
        level=level,
        permitted=heading.permission,
        scheduler=decision,
        reasons=_reasons(heading, level),
        clauses=verdict.clauses,
        lanes=done.lanes,
        window=window,
        threshold=reading.threshold,
        percentage=gauge.percentage,
        input_tokens=gauge.input_tokens,
        emergency=facts.in_emergency,
        dropped_tokens=done.tokens,
        first_changed=first_changed,
        ending=ending,
        notices=notices,
    )
    if fault:
        return replace(result, outcome=Outcome.FAULT, fault=fault, changes=_nothing(state, state.vars))
    if ending.refused:
        return replace(
            result, outcome=Outcome.REFUSE, changes=_nothing(state, _refused(state.vars, draft.vars))
        )
    return replace(result, outcome=Outcome.SERVE if settings.compaction else Outcome.PASSTHROUGH)


def _forms(draft: Draft, sent_raw: Mapping[str, FormChange]) -> list[FormChange]:
    """Forms that change with this pass.  ``sent_raw``: forms that the host, not we, decided, by identity.

    They are those of new messages, of messages that come back, and of what the lanes of a rebuild touched.
    Raises NotReady when the request would end with an assistant turn that the host's does not end with.
    """
    shown = Shown(prefixes=bool(draft.vars.reduce_verdict))
    forms: dict[str, FormChange] = {}
    for message in (*draft.arrival.new, *draft.arrival.revised):
        if message.form is None:
            raw = sent_raw.get(message.mid) if message.mid not in draft.touched else None
            forms[message.mid] = raw or FormChange(message.mid, form_of(draft, message, shown), Why.FIRST)
    for message in draft.returning():
        if message.mid not in draft.raw and (form := form_of(draft, message, shown)) != message.form:
            forms[message.mid] = FormChange(message.mid, form, Why.RETURNED)
    for message in _touched(draft):
        if message.mid in forms:
            continue
        form = form_of(draft, message, shown)
        if form != _sent_before(message, sent_raw):
            why = Why.FIRST if message.form is None else Why.CHANGED
            why = Why.RETURNED if message.mid in draft.uncut else why
            forms[message.mid] = FormChange(message.mid, form, why)
    forms.update({mid: change for mid, change in sent_raw.items() if mid not in forms})
    _check_end(draft, forms)
    return list(forms.values())


def _sent_before(message: Msg, sent_raw: Mapping[str, FormChange]) -> Form | None:
    """The form in which ``message`` was last sent, as far as anyone knows; None: never."""
    return sent_raw[message.mid].form if message.mid in sent_raw else message.form


def _touched(draft: Draft) -> list[Msg]:
    """The messages of the array that a lane touched, in its order; a call takes its results along, and
    a result its call."""
    if not draft.touched:
        return []
    calls = {
        (link.call_id, link.owner)
        for message in map(draft.message, draft.touched)
        for link in (message.links if message is not None else ())
    }
    return [
        message
        for message in draft.path
        if message.raw
        and (message.mid in draft.touched or any((k.call_id, k.owner) in calls for k in message.links))
    ]


def _check_end(draft: Draft, forms: Mapping[str, FormChange]) -> None:
    """A rewind may lead back to a result that was dropped whole when it was not the end (section 9.1)."""
    last = next(draft.last_messages())
    for message in draft.last_messages():
        form = forms[message.mid].form if message.mid in forms else message.form
        if form is not None and form.body is None:
            continue
        if message is last or message.role is not Role.ASSISTANT:
            return
        break
    raise NotReady(
        "assistant_terminal_retry",
        "the request would end with the assistant's own words, because the tool results behind them were "
        "dropped; call again with the next prompt",
    )


def _level(
    draft: Draft, forms: Sequence[FormChange], sent_raw: Mapping[str, FormChange]
) -> tuple[Level, int | None]:
    """The level the forms make (design section 3), and the place in the array of the first changed one."""
    changed = set()
    for change in forms:
        message = draft.message(change.mid)
        before = None if message is None else _sent_before(message, sent_raw)
        if (
            change.why is Why.CHANGED
            and change.mid not in HEAD_MIDS
            and before is not None
            and before.body != change.form.body
        ):
            changed.add(change.mid)
    if not changed:
        return Level.DEFER, None
    first = next((index for index, message in enumerate(draft.path) if message.mid in changed), None)
    return Level.SOFT_PLUS, first


def _settle(
    draft: Draft, request: PassRequest, window: Window, forms: list[FormChange], heading: Heading
) -> None:
    """Bring the stored totals up to the forms of this pass."""
    vars = draft.vars
    only_appends = draft.arrival.path is None and all(
        change.why is Why.FIRST and change.mid not in HEAD_MIDS for change in forms
    )
    formed = {change.mid: change.form for change in forms}
    wire, raw_bytes, served_bytes = totals(draft, draft.arrival.new if only_appends else draft.path, formed)
    if only_appends:
        wire += draft.state.vars.wire_tokens
        raw_bytes += vars.raw_bytes
        served_bytes += vars.served_bytes
    else:
        wire += vars.head_tokens
        served_bytes += sum(map(len, heading.bodies))
    last = next(draft.last_messages())
    dropped = [t.number for t in draft.changed_tags.values() if t.status is TagStatus.DROPPED]
    dropped += [t.number for t in draft.new_tags.values() if t.status is TagStatus.DROPPED]
    draft.vars = replace(
        vars,
        version=draft.state.vars.version + 1,
        view_version=vars.view_version + (1 if forms or vars.view_version == 0 else 0),
        lineage=draft.arrival.new_lineage[0] if draft.arrival.new_lineage else vars.lineage,
        message_counter=vars.message_counter + len(draft.arrival.new),
        tag_counter=draft.tag_counter,
        highest_dropped_tag=max([vars.highest_dropped_tag, *dropped]),
        wire_tokens=wire,
        raw_bytes=raw_bytes,
        served_bytes=served_bytes,
        last_limit=window.usable_soft,
        last_pass_mid=last.mid,
        last_pass_wire_tokens=wire,
        last_pass_ms=request.now_ms,
        last_error="",
    )


def _reasons(heading: Heading, level: Level) -> tuple[str, ...]:
    """Reasons of a rebuild.  A permission that changed nothing is a defer pass and has none to give."""
    return heading.reasons if level is not Level.DEFER else ()


def _ending(
    draft: Draft, request: PassRequest, facts: Facts, reading: Reading, heading: Heading
) -> tuple[Ending, tuple[NoticeText, ...]]:
    vars, gauge, window = draft.vars, reading.gauge, reading.window
    primary = not request.subagent
    notices: list[NoticeText] = []
    vars, tell = count_no_head(
        vars,
        primary=primary,
        eligible_head=request.historian.can_fire or request.historian.running,
        percentage=gauge.percentage,
    )
    if tell:
        notices.append(
            NoticeText(
                "warning",
                NO_HEAD_NOTICE,
                "The model's window is full and there is no old history left to summarise. Mark tool results "
                "that are no longer needed, choose a larger model, or start a new session.",
            )
        )
    trusted, lower = usage.estimates(
        vars,
        gauge.measured,
        wire_tokens=vars.wire_tokens,
        overhead_tokens=request.overhead_tokens,
        ratio=vars.ratios[1],
    )
    protected = 0
    if lower > window.usable_hard:
        eligibility = Eligibility(draft, emergency=False)
        protected = sum(
            tag.token_count
            for tag in draft.tags()
            if tag.status is TagStatus.ACTIVE and eligibility.reason(tag) and draft.on_path(tag.mid)
        )
    ending = final_check(
        FinalCheck(
            lower=0 if facts.compaction_off else lower,
            trusted=trusted,
            usable_hard=window.usable_hard,
            protected_tokens=protected,
            percentage=facts.emergency_percentage or 0.0,
            armed=vars.recovery_armed and primary and not facts.compaction_off,
            origin=vars.recovery_origin,
            proven_limit=vars.detected_limit if vars.detected_model == request.model else 0,
            folded=heading.folded and heading.taken and draft.state.published,
            unmanaged=draft.state.vars.highest_dropped_tag == 0
            and (draft.state.head is None or draft.state.head.boundary is None),
        )
    )
    if ending.disarm:
        vars = replace(vars, recovery_armed=False, recovery_origin="")
    draft.vars = vars
    return ending, tuple(notices)


def _changes(draft: Draft, forms: list[FormChange], heading: Heading) -> Changes:
    return Changes(
        vars=draft.vars,
        arrival=draft.arrival,
        new_tags=list(draft.new_tags.values()),
        changed_tags=list(draft.changed_tags.values()),
        ops_removed=sorted(draft.ops_removed),
        forms=forms,
        head=heading.pair if heading.pair != draft.state.head else None,
        folded=heading.folded,
        published_taken=heading.taken,
    )


def _refused(before: Vars, after: Vars) -> Vars:
    """What a refused pass leaves: usage and latches move on, everything about content stays."""
    return replace(
        before,
        version=before.version + 1,
        usage_input_tokens=after.usage_input_tokens,
        usage_limit=after.usage_limit,
        usage_model=after.usage_model,
        usage_pass_id=after.usage_pass_id,
        usage_message_id=after.usage_message_id,
        usage_mid=after.usage_mid,
        usage_wire_tokens=after.usage_wire_tokens,
        last_response_ms=after.last_response_ms,
        proven_safe_input=after.proven_safe_input,
        emergency_sample=next_latch(
            after.emergency_sample, When.REFUSED, LatchFacts(percentage=0, force_band=0)
        ),
        detected_limit=after.detected_limit,
        detected_model=after.detected_model,
        detected_provenance=after.detected_provenance,
        recovery_armed=after.recovery_armed,
        recovery_origin=after.recovery_origin,
        recovery_no_head=after.recovery_no_head,
    )


def _nothing(state: SessionState, vars: Vars) -> Changes:
    return Changes(vars=vars, arrival=Arrival(mids=[m.mid for m in state.path]))
