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

from dataclasses import replace

from magiccontext.engine import calibration, tags, usage
from magiccontext.engine.draft import Draft, Route
from magiccontext.engine.forms import Shown, form_of
from magiccontext.engine.identity import arrive
from magiccontext.engine.lanes.drops import DropBatch
from magiccontext.engine.lanes.eligibility import Eligibility
from magiccontext.engine.lanes.emergency import LatchFacts, When, next_latch
from magiccontext.engine.lanes.protection import merge_protected_tools, protection_floor
from magiccontext.engine.lanes.queued_drops import removable_tokens
from magiccontext.engine.measure import served_tokens, totals
from magiccontext.engine.overflow import Provenance
from magiccontext.engine.permission import Facts, FlushRequest, SessionKind, Verdict, decide, next_held_count
from magiccontext.engine.reclaim import Reclaimed, reclaim
from magiccontext.engine.recovery import (
    NO_HEAD_NOTICE,
    Ending,
    FinalCheck,
    count_no_head,
    final_check,
    treats_as_emergency,
)
from magiccontext.engine.request import PassRequest, Settings
from magiccontext.engine.result import NoticeText, NotReady, Outcome, PassResult
from magiccontext.engine.schedule import (
    Decision,
    Episode,
    Moment,
    expired,
    force_band,
    next_episode,
    parse_ttl,
    scheduler,
)
from magiccontext.engine.state import Arrival, Changes, FormChange, SessionState, TagStatus, Vars, Why
from magiccontext.engine.transcript import InvalidMessage, Role
from magiccontext.engine.view import Form, Level
from magiccontext.engine.window import Detected, Window, WindowSource, geometry


def run_pass(state: SessionState, request: PassRequest, settings: Settings) -> PassResult:
    """Decide one request.  Pure: ``state`` is not changed; commit ``changes`` to make it so.

    Raises InvalidMessage (the place named from the request's ``messages`` on) for what cannot be a
    conversation, and NotReady for an array that is not complete yet.
    """
    draft, rebased = _receive(state, request, settings)
    window, gauge, threshold = _gauge(draft, request, settings)
    facts, decision = _facts(draft, request, settings, window, gauge, threshold)
    verdict = decide(facts)

    done = Reclaimed()
    if verdict.permitted:
        _adopt_policy(draft, settings, window)
        _bring_back(draft, settings)
        done = reclaim(
            draft,
            facts,
            current_tokens=gauge.input_tokens or gauge.trusted,
            smart_drops=settings.smart_drops,
        )
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

    forms = _forms(draft, rebased)
    level, first_changed = _level(draft, forms)
    fault = ""
    if level > verdict.permission:
        first = next(change.mid for change in forms if change.why is Why.CHANGED)
        fault = f"derived level {level.word} above the permitted {verdict.permission.word} at message {first}"
    _settle(draft, request, window, forms)
    ending, notices = _ending(draft, request, facts, gauge, window, threshold)
    result = PassResult(
        outcome=Outcome.SERVE,
        changes=_changes(draft, forms),
        level=level,
        permitted=verdict.permission,
        scheduler=decision,
        reasons=_reasons(verdict, level),
        clauses=verdict.clauses,
        lanes=done.lanes,
        window=window,
        threshold=threshold,
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


# receive


def _receive(state: SessionState, request: PassRequest, settings: Settings) -> tuple[Draft, list[FormChange]]:
    """Name, parse, pair and tag.  Also what the host says it sent otherwise than we answered."""
    arrival = arrive(state, request.slices, request.digests, request.host_ids, base=request.base)
    draft = Draft(state, arrival, request.codec, Route.of(request.model), request.now_ms)
    fresh = [*arrival.new, *arrival.revised]
    place = {mid: index for index, mid in enumerate(arrival.mids)}
    for message in fresh:
        try:
            message.parsed = request.codec.parse(message.raw)
        except InvalidMessage as error:
            raise error.at(f"messages[{place[message.mid]}]") from None
        message.role = message.parsed.role
        message.created_ms = message.parsed.created_ms or 0
    _check_complete(draft)
    tags.link_tools(draft, arrival, state.unpaired)
    if draft.vars.version == 0:
        draft.vars = replace(draft.vars, can_remove=request.can_remove)
    raw = _raw_sent(draft, request)
    if settings.compaction and _decide_reduce(draft, request):
        for message in arrival.revised:
            tags.rebind(draft, message)
        tags.allocate(draft, [m for m in fresh if m.mid not in raw], settings.count)
        tags.measure(draft, [m for m in fresh if m.mid in raw], settings.count)
    else:
        tags.measure(draft, fresh, settings.count)
        raw |= {m.mid for m in fresh}
    rebased: list[FormChange] = []
    for mid in raw:
        known = draft.message(mid)
        if known is not None and (known.form is None or known.form.body != known.raw):
            why = Why.FIRST if known.form is None else Why.REBASED
            rebased.append(FormChange(mid, Form((), known.raw), why, raw_sent=True))
    if not settings.compaction:
        rebased += [
            FormChange(m.mid, Form((), m.raw), Why.REBASED, raw_sent=True)
            for m in state.path
            if m.form is not None and m.form.edits and m.mid not in raw and m.raw
        ]
    return draft, rebased


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
    backwards = draft.last_messages()
    last = next(backwards)
    if last.role is Role.ASSISTANT and last.form is None:
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


# gauge


def _gauge(draft: Draft, request: PassRequest, settings: Settings) -> tuple[Window, usage.Gauge, float]:
    vars = draft.vars
    if request.usage is not None:
        vars = usage.record(vars, request.usage, vars.last_limit)
    window = _window(vars, request, settings, draft.route)
    model_changed = bool(vars.usage_model) and vars.usage_model != request.model
    if model_changed:
        vars = usage.switch_model(vars, request.model, window.usable_soft)
        window = _window(vars, request, settings, draft.route)
    cut_at = draft.arrival.first_change
    if cut_at is not None and cut_at <= draft.state.position.get(vars.usage_mid, -1):
        vars = replace(vars, usage_mid="", emergency_sample=0)
    threshold = settings.threshold(window.usable_soft)
    if vars.protected_tokens == 0:
        draft.vars = vars
        _adopt_policy(draft, settings, window)
        vars = draft.vars
    if draft.arrival.path is None:
        wire = vars.wire_tokens + sum(message.tokens for message in draft.arrival.new)
    else:
        wire = sum(served_tokens(draft, message) for message in draft.arrival.path)
    primary = not request.subagent
    gauge = usage.gauge(
        vars,
        window,
        extends_measured=bool(vars.usage_mid) and draft.on_path(vars.usage_mid),
        wire_tokens=wire,
        overhead_tokens=request.overhead_tokens,
        ratio=vars.ratios[1],
        host_estimate=request.estimate_tokens,
        armed=treats_as_emergency(vars, primary=primary),
    )
    moment = LatchFacts(
        percentage=gauge.percentage, force_band=force_band(threshold), model_changed=model_changed
    )
    draft.vars = replace(
        vars,
        model=request.model,
        wire_tokens=wire,
        emergency_sample=next_latch(vars.emergency_sample, When.USAGE, moment),
    )
    return window, gauge, threshold


def _window(vars: Vars, request: PassRequest, settings: Settings, route: Route) -> Window:
    detected = None
    if vars.detected_limit and vars.detected_model == request.model:
        detected = Detected(vars.detected_limit, Provenance(vars.detected_provenance or Provenance.UNKNOWN))
    return geometry(
        route.provider,
        request.context_limit,
        output_limit=request.output_limit,
        output_reserve=settings.output_reserve,
        detected=detected,
        # The host resolved this window for the model it is about to call: a trusted wall.
        source=WindowSource.PROVIDER,
        proven_input=vars.proven_safe_input,
    )


def _adopt_policy(draft: Draft, settings: Settings, window: Window) -> None:
    """Take over policy that decides bytes; only on a session's first pass and on permitted passes."""
    ratios = calibration.lookup(draft.route.provider, draft.route.model).ratios
    draft.vars = replace(
        draft.vars,
        protected_tokens=protection_floor(settings.protected_tokens, window.usable_soft),
        protected_tools=tuple(sorted(merge_protected_tools(settings.protected_tools).items())),
        ratios=(ratios.system, ratios.tools, ratios.prose),
    )


# permit


def _facts(
    draft: Draft,
    request: PassRequest,
    settings: Settings,
    window: Window,
    gauge: usage.Gauge,
    threshold: float,
) -> tuple[Facts, Decision]:
    vars = draft.vars
    ttl = parse_ttl(_ttl(draft, request, settings)).ms
    decision = scheduler(
        Moment(
            percentage=gauge.percentage,
            threshold=threshold,
            last_response_ms=vars.last_response_ms,
            now_ms=request.now_ms,
            ttl_ms=ttl,
            compaction_off=not settings.compaction,
        )
    )
    vars = draft.vars
    episode = next_episode(
        Episode(vars.in_episode, vars.episode), percentage=gauge.percentage, threshold=threshold
    )
    draft.vars = vars = replace(vars, in_episode=episode.active, episode=episode.routine_ran)
    band = force_band(threshold)
    removable = 0
    if draft.state.pending and (decision is Decision.EXECUTE or gauge.percentage >= band):
        local = removable_tokens(
            draft, DropBatch(draft), Eligibility(draft, emergency=gauge.emergency_percentage >= 95.0)
        )
        removable = calibration.provider_tokens([(local, vars.ratios[1])])
    historian = request.historian
    return (
        Facts(
            percentage=gauge.percentage,
            emergency_percentage=gauge.emergency_percentage,
            threshold=threshold,
            force_band=band,
            kind=SessionKind.SUBAGENT if request.subagent else SessionKind.PRIMARY,
            usable_tokens=window.usable_soft,
            compaction_off=not settings.compaction,
            scheduler_execute=decision is Decision.EXECUTE,
            latch_set=vars.emergency_sample > 0,
            episode_flag=vars.episode,
            idle=expired(request.now_ms, vars.last_response_ms, ttl),
            flush_request=FlushRequest(vars.flush),
            historian_running=historian.running,
            historian_waiting=historian.waiting_to_publish,
            historian_can_fire=historian.can_fire,
            blocked_only_by_prompt=historian.blocked_only_by_prompt,
            floor_mark_pending=historian.floor_mark_pending,
            floor_mark_allowed=historian.floor_mark_allowed,
            removable_tokens=removable,
            held_count=vars.held_execute,
        ),
        decision,
    )


def _ttl(draft: Draft, request: PassRequest, settings: Settings) -> str:
    """The assumed cache lifetime; a built-in value is frozen per session and model (config section 10.2)."""
    if settings.ttl_is_policy:
        return settings.cache_ttl
    frozen = dict(draft.vars.frozen_ttl)
    if request.model not in frozen:
        frozen[request.model] = settings.cache_ttl
        draft.vars = replace(draft.vars, frozen_ttl=tuple(frozen.items()))
    return frozen[request.model]


def _reasons(verdict: Verdict, level: Level) -> tuple[str, ...]:
    """Reasons of a rebuild.  A permission that changed nothing is a defer pass and has none to give."""
    return verdict.reasons if level is not Level.DEFER else ()


# form


def _bring_back(draft: Draft, settings: Settings) -> None:
    """On a rebuild: messages sent raw get their tags, edited ones their new text."""
    raw = [m for m in draft.path if m.raw_sent and m.raw]
    tags.allocate(draft, raw, settings.count)
    draft.touched.update(m.mid for m in raw)
    draft.touched.update(
        m.mid for m in draft.path if m.form is not None and m.revision and m.form.body != m.raw and m.raw
    )


def _forms(draft: Draft, rebased: list[FormChange]) -> list[FormChange]:
    """Forms that change with this pass: every new message, and on a rebuild what the lanes touched."""
    shown = Shown(prefixes=bool(draft.vars.reduce_verdict))
    given = {change.mid: change for change in rebased}
    forms: list[FormChange] = []
    for message in (*draft.arrival.new, *(m for m in draft.arrival.revised if m.form is None)):
        change = given.pop(message.mid, None) if message.mid not in draft.touched else None
        given.pop(message.mid, None)
        forms.append(change or FormChange(message.mid, form_of(draft, message, shown), Why.FIRST))
    new = {change.mid for change in forms}
    for mid in sorted(draft.touched - new):
        touched = draft.message(mid)
        if touched is None or not touched.raw or not draft.on_path(mid):
            continue
        given.pop(mid, None)
        form = form_of(draft, touched, shown)
        if touched.form is None:
            forms.append(FormChange(mid, form, Why.FIRST))
        elif form.body != touched.form.body or form.edits != touched.form.edits:
            forms.append(FormChange(mid, form, Why.CHANGED))
    forms.extend(given.values())
    return forms


def _level(draft: Draft, forms: list[FormChange]) -> tuple[Level, int | None]:
    """Derive the level from the forms alone (design section 3)."""
    changed = set()
    for change in forms:
        message = draft.message(change.mid)
        before = message.form if message is not None else None
        if change.why is Why.CHANGED and before is not None and before.body != change.form.body:
            changed.add(change.mid)
    if not changed:
        return Level.DEFER, None
    first = next((index for index, message in enumerate(draft.path) if message.mid in changed), None)
    return Level.SOFT_PLUS, first


def _settle(draft: Draft, request: PassRequest, window: Window, forms: list[FormChange]) -> None:
    """Bring the stored totals up to the forms of this pass."""
    vars = draft.vars
    only_appends = draft.arrival.path is None and all(change.why is Why.FIRST for change in forms)
    formed = {change.mid: change.form for change in forms}
    wire, raw_bytes, served_bytes = totals(draft, draft.arrival.new if only_appends else draft.path, formed)
    if only_appends:
        wire += draft.state.vars.wire_tokens
        raw_bytes += vars.raw_bytes
        served_bytes += vars.served_bytes
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


# check


def _ending(
    draft: Draft,
    request: PassRequest,
    facts: Facts,
    gauge: usage.Gauge,
    window: Window,
    threshold: float,
) -> tuple[Ending, tuple[NoticeText, ...]]:
    vars = draft.vars
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
            lower=lower if facts.compaction_off is False else 0,
            trusted=trusted,
            usable_hard=window.usable_hard,
            protected_tokens=protected,
            percentage=facts.emergency_percentage or 0.0,
            armed=vars.recovery_armed and primary,
            origin=vars.recovery_origin,
            proven_limit=vars.detected_limit if vars.detected_model == request.model else 0,
            folded=False,
            unmanaged=draft.state.vars.highest_dropped_tag == 0,
        )
    )
    if ending.disarm:
        vars = replace(vars, recovery_armed=False, recovery_origin="")
    draft.vars = vars
    return ending, tuple(notices)


def _changes(draft: Draft, forms: list[FormChange]) -> Changes:
    return Changes(
        vars=draft.vars,
        arrival=draft.arrival,
        new_tags=list(draft.new_tags.values()),
        changed_tags=list(draft.changed_tags.values()),
        ops_removed=sorted(draft.ops_removed),
        forms=forms,
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
