"""Gauging a request: window, usage, and every fact the permission asks for (reclaim-core section 5.6).

Policy that decides bytes is a copy in the session, taken over here on its first pass and, by the pass
itself, whenever there is a permission.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from magiccontext.engine import calibration, usage
from magiccontext.engine.draft import Draft, Route
from magiccontext.engine.lanes.drops import DropBatch
from magiccontext.engine.lanes.eligibility import Eligibility
from magiccontext.engine.lanes.emergency import LatchFacts, When, next_latch
from magiccontext.engine.lanes.protection import merge_protected_tools, protection_floor
from magiccontext.engine.lanes.queued_drops import removable_tokens
from magiccontext.engine.measure import served_tokens
from magiccontext.engine.overflow import Provenance
from magiccontext.engine.permission import Facts, FlushRequest, SessionKind
from magiccontext.engine.recovery import treats_as_emergency
from magiccontext.engine.request import PassRequest, Settings
from magiccontext.engine.schedule import (
    EMERGENCY,
    Decision,
    Episode,
    Moment,
    expired,
    force_band,
    next_episode,
    parse_ttl,
    scheduler,
)
from magiccontext.engine.state import Vars
from magiccontext.engine.window import Detected, Window, WindowSource, geometry


@dataclass(frozen=True, slots=True)
class Reading:
    """What the request was found to be.  ``threshold`` is the execute threshold in percent."""

    window: Window
    gauge: usage.Gauge
    threshold: float


def read_gauge(draft: Draft, request: PassRequest, settings: Settings) -> Reading:
    """Usage and window of the request before any lane ran; usage, model and latch move on in the draft."""
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
        adopt_policy(draft, settings, window)
        vars = draft.vars
    if draft.arrival.path is None:
        wire = vars.wire_tokens + sum(message.tokens for message in draft.arrival.new)
    else:
        wire = vars.head_tokens + sum(served_tokens(draft, message) for message in draft.arrival.path)
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
    return Reading(window, gauge, threshold)


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


def adopt_policy(draft: Draft, settings: Settings, window: Window) -> None:
    """Take over policy that decides bytes; only on a session's first pass and on permitted passes."""
    ratios = calibration.lookup(draft.route.provider, draft.route.model).ratios
    draft.vars = replace(
        draft.vars,
        protected_tokens=protection_floor(settings.protected_tokens, window.usable_soft),
        protected_tools=tuple(sorted(merge_protected_tools(settings.protected_tools).items())),
        ratios=(ratios.system, ratios.tools, ratios.prose),
    )


def facts_of(
    draft: Draft, request: PassRequest, settings: Settings, reading: Reading
) -> tuple[Facts, Decision]:
    """The facts of the permission, and what the scheduler says; the episode moves on in the draft."""
    gauge, threshold = reading.gauge, reading.threshold
    ttl = parse_ttl(ttl_of(draft, request, settings)).ms
    decision = scheduler(
        Moment(
            percentage=gauge.percentage,
            threshold=threshold,
            last_response_ms=draft.vars.last_response_ms,
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
            draft, DropBatch(draft), Eligibility(draft, emergency=gauge.emergency_percentage >= EMERGENCY)
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
            usable_tokens=reading.window.usable_soft,
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


def ttl_of(draft: Draft, request: PassRequest, settings: Settings) -> str:
    """The assumed cache lifetime; a built-in value is frozen per session and model (config section 10.2)."""
    if settings.ttl_is_policy:
        return settings.cache_ttl
    frozen = dict(draft.vars.frozen_ttl)
    if request.model not in frozen:
        frozen[request.model] = settings.cache_ttl
        draft.vars = replace(draft.vars, frozen_ttl=tuple(frozen.items()))
    return frozen[request.model]
