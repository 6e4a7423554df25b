"""The head in a pass: what is due, whether it may be made, what was made (history-render sections 5 to 7).

Everything here happens off the wire and before any lane runs.  A fold that is due waits for nothing but a
hold; a refresh waits for a permission, because a refreshed m[1] is stored and would change bytes on the next
defer pass (reclaim-core section 5.3).  Only what came out is a signal: a fold that reproduced the served
bytes gives no lane permission, unless its reason means that the provider's cache is gone.

The pair and its boundary are one choice.  What the boundary covers leaves the array with the pass that
serves the pair, never before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from magiccontext.engine.draft import Draft
from magiccontext.engine.head import budgets as allowance
from magiccontext.engine.head.cut import Cut, Row, boundary_of, cut
from magiccontext.engine.head.m0 import served_m0
from magiccontext.engine.head.materialize import (
    PRESSURE_REASON,
    Due,
    Signals,
    adopted,
    bust,
    due,
    pressure_refold,
)
from magiccontext.engine.head.model import Boundary, Budgets, Pair
from magiccontext.engine.head.render import render_fold, render_refresh
from magiccontext.engine.permission import Facts, Verdict, decide
from magiccontext.engine.request import HeadRequest, PassRequest, Settings
from magiccontext.engine.schedule import parse_ttl
from magiccontext.engine.state import CUT, HEAD_MIDS, FormChange, Msg, TagStatus, Why
from magiccontext.engine.transcript import Kind, Role
from magiccontext.engine.view import Form, Level

PROFILE_BUDGET = 4_000


@dataclass(frozen=True, slots=True)
class Heading:
    """The head of this pass.  ``pair`` None: the session has no head.

    ``level`` is how far the pair's bytes changed, ``folded`` that m[0] was rendered anew, ``taken`` that
    whatever was published is in the pair now.
    """

    pair: Pair | None
    facts: Facts
    verdict: Verdict
    level: Level = Level.DEFER  # first render included
    folded: bool = False
    taken: bool = False
    boundary: Boundary | None = None

    @property
    def permission(self) -> Level:
        """The highest level of the pass.  Without compaction a fold is all that may change (section 6)."""
        additive = self.facts.compaction_off and self.folded
        return Level.HARD if additive else self.verdict.permission


def without_head(facts: Facts) -> Heading:
    return Heading(None, facts, decide(facts))


def prepare(
    draft: Draft, request: PassRequest, settings: Settings, facts: Facts, threshold: float, ttl: str
) -> Heading:
    """Decide the head.  ``facts`` are those of the pass without it."""
    head = request.head
    if head is None:
        return without_head(facts)
    before = _served(draft, facts)
    budgets = _budgets(draft, settings, facts, threshold)
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
    cause = due(before, head.source, budgets, signals)
    if cause is not None and not facts.hold:
        return _folded(settings, head, facts, budgets, signals, before, cause)
    if before is None or not before.complete:
        return without_head(facts)
    before = adopted(before, head.source, signals)
    return _refreshed(draft, settings, head, facts, budgets, signals, before)


def _served(draft: Draft, facts: Facts) -> Pair | None:
    """The pair served so far.  Turning compaction on or off forgets it (section 6)."""
    return draft.state.head if draft.vars.head_additive == facts.compaction_off else None


def _budgets(draft: Draft, settings: Settings, facts: Facts, threshold: float) -> Budgets:
    memory = allowance.memory_budget(settings.memory_budget)
    return Budgets(
        history=allowance.history_budget(facts.usable_tokens, threshold, settings.history_share),
        memory=memory,
        profile=PROFILE_BUDGET,
        ratio=draft.vars.ratios[2],
        policy=allowance.policy_identity(
            memory, settings.history_share, allowance.ThresholdKind.PERCENTAGE, threshold
        ),
    )


def _folded(
    settings: Settings,
    head: HeadRequest,
    facts: Facts,
    budgets: Budgets,
    signals: Signals,
    before: Pair | None,
    cause: Due,
) -> Heading:
    after = render_fold(head.source, budgets, settings.count, signals, before=before)
    first = before is None or not before.complete
    facts = replace(
        facts, first_render=first, fold=not first and bust(cause, before, after), fold_reason=cause.reason
    )
    return Heading(
        after,
        facts,
        decide(facts),
        _level(before, after),
        folded=True,
        taken=not facts.compaction_off,
        boundary=after.boundary,
    )


def _refreshed(
    draft: Draft,
    settings: Settings,
    head: HeadRequest,
    facts: Facts,
    budgets: Budgets,
    signals: Signals,
    before: Pair,
) -> Heading:
    """Replay the pair, or its m[1] anew where the pass may change something anyway."""
    replayed = Heading(before, facts, decide(facts), boundary=before.boundary)
    consumable = draft.state.published and (facts.scheduler_execute or facts.in_force_band)
    if not decide(replace(facts, history_due=consumable)).permitted or facts.compaction_off:
        return replayed
    after = render_refresh(before, head.source, budgets, settings.count)
    changed = after.m1 != before.m1
    if not changed and not replayed.verdict.permitted:
        # Equal bytes are no refresh; a boundary may only move on a pass that rebuilds (section 6).
        return replayed
    facts = replace(facts, history_due=consumable and changed, m1_changed=changed and not consumable)
    if decide(facts).permitted and pressure_refold(after, budgets, settings.count):
        return _folded(settings, head, facts, budgets, signals, before, Due(PRESSURE_REASON, False))
    return Heading(after, facts, decide(facts), _level(before, after), taken=True, boundary=after.boundary)


def _level(before: Pair | None, after: Pair) -> Level:
    if before is None or served_m0(before) != served_m0(after) or before.mural != after.mural:
        return Level.HARD
    return Level.SOFT if before.m1 != after.m1 else Level.DEFER


def head_forms(draft: Draft, heading: Heading) -> list[FormChange]:
    """The two messages of a changed pair, under the identities of the head."""
    if heading.pair is None or heading.level is Level.DEFER:
        return []
    image = heading.pair.mural.data_url if heading.pair.mural is not None else ""
    bodies = (
        draft.codec.user_message(served_m0(heading.pair), image),
        draft.codec.user_message(heading.pair.m1),
    )
    old = draft.state.head_bodies
    return [
        FormChange(mid, Form((), body), Why.CHANGED if old else Why.FIRST)
        for index, (mid, body) in enumerate(zip(HEAD_MIDS, bodies, strict=True))
        if not old or old[index] != body
    ]


def head_tokens(heading: Heading, settings: Settings) -> int:
    """Local tokens of the pair's two texts."""
    if heading.pair is None:
        return 0
    return sum(settings.count([served_m0(heading.pair), heading.pair.m1])) + 8


def apply_cut(draft: Draft, heading: Heading) -> None:
    """What the served pair stands for leaves the array; tags of it are compacted (section 7).

    Evaluated when the boundary moved, when the host rearranged its array, and on every rebuild; otherwise
    the array only grew behind the boundary, and nothing can have changed.
    """
    state = draft.state
    moved = heading.boundary != (state.head.boundary if state.head is not None else None)
    if heading.pair is None or not (moved or heading.verdict.permitted or draft.arrival.path is not None):
        return
    path = list(draft.path)
    rows = [Row(m.mid, m.ordinal, m.role, m.links) for m in path]
    boundary = _before_prompt(draft, path, boundary_of(heading.pair, ()))
    found = cut(boundary, rows, compaction_off=heading.facts.compaction_off)
    _mark(draft, path, found, rearranged=draft.arrival.path is not None and not moved)


def _before_prompt(draft: Draft, path: list[Msg], boundary: Boundary | None) -> Boundary | None:
    """The newest prompt and what follows it is never cut (hosts section 2.2 item 7)."""
    if boundary is None:
        return None
    at = next((index for index, m in enumerate(path) if m.mid == boundary.mid), -1)
    newest = next(
        (
            index
            for index in range(len(path) - 1, -1, -1)
            if path[index].role is Role.USER and draft.parsed(path[index]).has(Kind.TEXT, Kind.MEDIA)
        ),
        len(path) - 1,
    )
    if at < newest:
        return boundary
    before = path[newest - 1] if newest > 0 else None
    return Boundary(before.mid, before.ordinal) if before is not None else None


def _mark(draft: Draft, path: list[Msg], found: Cut, *, rearranged: bool) -> None:
    removed = {path[index].mid for index in found.removed}
    draft.cut = frozenset(removed)
    draft.severed = {}
    for index, part in found.severed:
        draft.severed.setdefault(path[index].mid, set()).add(part)
    was_cut = {m.mid for m in path if m.form == CUT}
    back = was_cut - removed
    draft.touched |= (removed - was_cut) | back | set(draft.severed)
    if rearranged:
        draft.uncut = frozenset(back)
    for mid in removed - was_cut:
        for tag in draft.tags_of(mid):
            _compact(draft, tag.number, removed)
    for mid in back:
        for tag in draft.tags_of(mid):
            current = draft.tag(tag.number)
            if current is not None and current.status is TagStatus.COMPACTED:
                draft.move_tag(replace(current, status=TagStatus.ACTIVE))


def _compact(draft: Draft, number: int, removed: set[str]) -> None:
    tag = draft.tag(number)
    if tag is None or tag.mid not in removed:
        return
    draft.ops_removed.update({number} & draft.state.pending.keys())
    if tag.status is TagStatus.ACTIVE:
        draft.move_tag(replace(tag, status=TagStatus.COMPACTED))
