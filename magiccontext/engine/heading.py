"""The head in a pass: what is due, whether it may be made, what was made (history-render sections 5 to 7).

Everything here happens off the wire and before any lane runs.  A fold that is due waits for nothing but a
hold; a refresh waits for a permission, because a refreshed m[1] is stored and would change bytes on the
next defer pass (reclaim-core section 5.3).  Only what came out is a signal: a fold that reproduced the
served bytes gives no lane permission, unless the provider's cache is gone anyway.

The pair and its boundary are one choice.  What the boundary covers leaves the array with the pass that
serves the pair, never before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from magiccontext.engine import calibration, cutting
from magiccontext.engine.draft import Draft
from magiccontext.engine.head import budgets as allowance
from magiccontext.engine.head.m0 import served_m0
from magiccontext.engine.head.materialize import (
    NOTHING,
    PRESSURE_REASON,
    TRIGGERS,
    Due,
    Signals,
    Standing,
    adopted,
    bust,
    due,
    pressure_refold,
)
from magiccontext.engine.head.model import Budgets, HeadSource, Pair
from magiccontext.engine.head.render import render_fold, render_refresh
from magiccontext.engine.measure import served_tokens
from magiccontext.engine.permission import Facts, Verdict, decide
from magiccontext.engine.request import HeadRequest, PassRequest, Settings
from magiccontext.engine.schedule import parse_ttl
from magiccontext.engine.state import CUT, HEAD_MIDS, FormChange, Why
from magiccontext.engine.view import Edit, Form, Level, Op
from magiccontext.engine.window import Window

GONE = Form((Edit(Op.REMOVE_MESSAGE),), None)
"""The form of a head message of a session that has no head any more."""

WITHDRAWN = "head_withdrawn"
"""Recorded where a session that had a head has none any more."""

FRAME_TOKENS = 8
"""What two messages cost beside their texts."""


@dataclass(frozen=True, slots=True)
class Heading:
    """The head of this pass.

    ``pair`` None: nothing is stored of one; ``bodies`` are still what is served.  ``level`` is how far the
    served bytes changed, ``folded`` that m[0] was rendered anew, ``taken`` that whatever was published is
    in the pair now, ``leaves`` that a head that was served is no more.
    """

    pair: Pair | None
    facts: Facts
    verdict: Verdict
    bodies: tuple[bytes, ...] = ()
    level: Level = Level.DEFER  # first render included
    folded: bool = False
    taken: bool = False
    leaves: bool = False

    @property
    def permission(self) -> Level:
        """The highest level of the pass.  Without compaction a fold is all that may change (section 6)."""
        additive = self.facts.compaction_off and self.folded
        return Level.HARD if additive or self.leaves else self.verdict.permission

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the pass may change what was served."""
        if self.leaves:
            return (WITHDRAWN, *self.verdict.reasons)
        if self.facts.compaction_off:
            return (self.facts.fold_reason,) if self.folded else ()
        return self.verdict.reasons


@dataclass(frozen=True, slots=True)
class _Made:
    """What every step of preparing needs."""

    draft: Draft
    settings: Settings
    head: HeadRequest
    budgets: Budgets
    signals: Signals

    @property
    def source(self) -> HeadSource:
        return self.head.source


def prepare(
    draft: Draft,
    request: PassRequest,
    settings: Settings,
    facts: Facts,
    window: Window,
    threshold: float,
    ttl: str,
) -> Heading:
    """Decide the head.  ``facts`` are those of the pass without it."""
    head = request.head
    if head is None or (request.subagent and settings.compaction):
        served = bool(draft.state.head_bodies)
        level = Level.HARD if served else Level.DEFER
        return Heading(None, facts, decide(facts), level=level, leaves=served)
    before = _served(draft, facts)
    signals = Signals(
        now_ms=request.now_ms,
        last_response_ms=draft.vars.last_response_ms,
        ttl_ms=parse_ttl(ttl).ms,
        model_key=request.model,
        system_hash=head.system_hash,
        tool_fingerprint=head.tool_fingerprint,
        host_compaction_ms=head.host_compaction_ms,
        canonical=settings.canonical_model,
    )
    budgets = _budgets(draft, settings, window, threshold, before, signals)
    made = _Made(draft, settings, head, budgets, signals)
    if _frozen(facts, before, head.source):
        return Heading(before, facts, decide(facts), draft.state.head_bodies)
    cause = _due(made, before)
    if cause is not None:
        return _folded(made, facts, before, cause)
    assert before is not None  # nothing rendered yet is the first of the triggers
    return _refreshed(made, facts, adopted(before, head.source, signals))


def _served(draft: Draft, facts: Facts) -> Pair | None:
    """The pair served so far.  Turning compaction on or off forgets it (section 6)."""
    state = draft.state
    same_mode = draft.vars.head_additive == facts.compaction_off
    return state.head if same_mode and state.head_bodies else None


def _frozen(facts: Facts, before: Pair | None, source: HeadSource) -> bool:
    """Whether everything is replayed and every trigger stays armed (section 6, "Hold").

    So it is on a hold, and while the project of a complete pair cannot be told: what was read is not its.
    """
    unresolved = before is not None and before.complete and before.markers.project and not source.project
    return facts.hold or bool(unresolved)


def _budgets(
    draft: Draft, settings: Settings, window: Window, threshold: float, before: Pair | None, signals: Signals
) -> Budgets:
    memory = allowance.memory_budget(settings.memory_budget)
    selected = (
        (allowance.ThresholdKind.PERCENTAGE, threshold)
        if settings.threshold_tokens is None
        else (allowance.ThresholdKind.TOKENS, settings.threshold_tokens)
    )
    policy = allowance.policy_identity(memory, settings.history_share, *selected)
    history = allowance.history_budget(window.usable_soft, threshold, settings.history_share)
    if window.estimated and before is not None:
        # A window that only this request does not know is no smaller one.
        stored = before.markers
        same_model = signals.canonical(stored.model_key) == signals.canonical(signals.model_key)
        if same_model and stored.policy == policy:
            history = max(history, allowance.recorded_history(stored.allowances))
    return Budgets(
        history=history,
        memory=memory,
        profile=allowance.PROFILE,
        # Whatever is rendered here is served on a pass that adopts this model's ratios.
        ratio=calibration.lookup(draft.route.provider, draft.route.model).ratios.prose,
        policy=policy,
    )


def _due(made: _Made, before: Pair | None) -> Due | None:
    """The fold that is due.  Its reason is the first that fires; that the cache is lost, any may say."""
    cause = due(before, made.source, made.budgets, made.signals)
    if cause is None or cause.loses_cache:
        return cause
    standing = Standing(before or NOTHING, made.source, made.budgets, made.signals)
    return cause._replace(loses_cache=any(t.loses_cache and t.fires(standing) for t in TRIGGERS))


def _folded(made: _Made, facts: Facts, before: Pair | None, cause: Due) -> Heading:
    after = render_fold(made.source, made.budgets, made.settings.count, made.signals, before=before)
    first = before is None or not before.complete
    facts = replace(
        facts,
        first_render=first,
        fold=cause.reason != "first_render" and bust(cause, before, after),
        fold_reason=cause.reason,
    )
    verdict = decide(facts)
    taken = not facts.compaction_off
    if verdict.permitted:
        boundary = cutting.anchored(made.draft, made.source, before, after.boundary)
        after = replace(after, boundary=boundary)
    elif before is not None and after.boundary != before.boundary:
        # The same bytes for other messages: they leave with the next rebuild (section 6).
        after = replace(after, boundary=before.boundary)
        taken = False
    return _heading(made.draft, facts, verdict, after, folded=True, taken=taken)


def _refreshed(made: _Made, facts: Facts, before: Pair) -> Heading:
    """Replay the pair, or its m[1] anew where the pass may change something anyway."""
    draft = made.draft
    alone = decide(facts)
    consumable = draft.state.published and (facts.scheduler_execute or facts.in_force_band)
    if facts.compaction_off or not decide(replace(facts, history_due=consumable)).permitted:
        return _heading(draft, facts, alone, before)
    after = render_refresh(before, made.source, made.budgets, made.settings.count)
    changed = after.m1 != before.m1
    if not changed and not alone.permitted:
        # Equal bytes are no refresh; a boundary may only move on a pass that rebuilds (section 6).
        return _heading(draft, facts, alone, before)
    facts = replace(facts, history_due=consumable and changed, m1_changed=changed and not consumable)
    if pressure_refold(after, made.budgets, made.settings.count):
        return _folded(made, facts, before, Due(PRESSURE_REASON, False))
    after = replace(after, boundary=cutting.anchored(draft, made.source, before, after.boundary))
    return _heading(draft, facts, decide(facts), after, taken=True)


def _heading(
    draft: Draft,
    facts: Facts,
    verdict: Verdict,
    pair: Pair,
    *,
    folded: bool = False,
    taken: bool = False,
) -> Heading:
    bodies = _bodies(draft, pair)
    level = _level(draft.state.head_bodies, bodies)
    return Heading(pair, facts, verdict, bodies, level, folded, taken)


def _bodies(draft: Draft, pair: Pair) -> tuple[bytes, ...]:
    """The two messages of ``pair``; those served already are never encoded again."""
    stored = draft.state.head
    if (
        draft.state.head_bodies
        and stored is not None
        and (stored.m0, stored.m1, stored.mural) == (pair.m0, pair.m1, pair.mural)
    ):
        return draft.state.head_bodies
    image = pair.mural.data_url if pair.mural is not None else ""
    return draft.codec.user_message(served_m0(pair), image), draft.codec.user_message(pair.m1)


def _level(old: tuple[bytes, ...], new: tuple[bytes, ...]) -> Level:
    if old == new:
        return Level.DEFER
    return Level.SOFT if old and old[0] == new[0] else Level.HARD


def head_forms(draft: Draft, heading: Heading) -> list[FormChange]:
    """The changed ones of the two messages, under the identities of the head."""
    old = draft.state.head_bodies
    if heading.leaves:
        return [FormChange(mid, GONE, Why.CHANGED) for mid in HEAD_MIDS]
    return [
        FormChange(mid, Form((), body), Why.CHANGED if old else Why.FIRST)
        for index, (mid, body) in enumerate(zip(HEAD_MIDS, heading.bodies, strict=False))
        if not old or old[index] != body
    ]


def note_head(draft: Draft, heading: Heading, settings: Settings) -> None:
    """Keep what the head costs, in local tokens, and in which mode it was made."""
    if heading.level is not Level.DEFER:
        tokens = 0
        if heading.pair is not None:
            tokens = sum(settings.count([served_m0(heading.pair), heading.pair.m1])) + FRAME_TOKENS
        draft.vars = replace(draft.vars, head_tokens=tokens)
    if heading.folded:
        draft.vars = replace(draft.vars, head_additive=heading.facts.compaction_off)


def cut_for(draft: Draft, heading: Heading) -> None:
    """Cut at the boundary of the pair.

    Evaluated when the boundary moved, when the host rearranged its array, and on every rebuild; otherwise
    the array only grew behind the boundary, and nothing can have changed.  Without a pair the cut stays as
    it is, unless the head leaves.
    """
    if heading.pair is None and not heading.leaves:
        return
    stored = draft.state.head
    boundary = heading.pair.boundary if heading.pair is not None else None
    moved = boundary != (stored.boundary if stored is not None else None) or heading.leaves
    permitted = heading.permission is not Level.DEFER
    if moved or permitted or draft.arrival.path is not None:
        cutting.apply_cut(
            draft, boundary, moved=moved, permitted=permitted, compaction_off=heading.facts.compaction_off
        )


def freed_tokens(draft: Draft) -> int:
    """Local tokens by which head and cut made the request smaller; below 0 when they made it larger.

    Ask after :func:`cut_for` and :func:`note_head`.
    """
    taken = sum(served_tokens(draft, m) for m in draft.path if m.mid in draft.cut)
    given = sum(
        m.tokens for m in draft.path if m.form == CUT and m.mid in draft.touched and m.mid not in draft.cut
    )
    return taken - given - (draft.vars.head_tokens - draft.state.vars.head_tokens)
