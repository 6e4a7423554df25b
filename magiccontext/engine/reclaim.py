"""Step 7 of a pass: with permission, every lane with work lands on one rebuild (reclaim-core section 5.6).

The order is the spec's: queued drops, then the emergency drop on what is left, then the routine lanes, then
the age sweep and supersession, and last the age watermark.  Nothing here asks again whether it may.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from magiccontext.engine import tags
from magiccontext.engine.calibration import provider_tokens
from magiccontext.engine.draft import Draft
from magiccontext.engine.lanes.age_sweep import sweep
from magiccontext.engine.lanes.drops import DropBatch
from magiccontext.engine.lanes.duplicates import drop_duplicates
from magiccontext.engine.lanes.eligibility import Eligibility
from magiccontext.engine.lanes.emergency import (
    Candidate,
    LatchFacts,
    Pressure,
    When,
    ceiling_tokens,
    next_latch,
    select,
)
from magiccontext.engine.lanes.injection import strip_injections
from magiccontext.engine.lanes.queued_drops import drain, reclaimed_tokens
from magiccontext.engine.lanes.supersession import drop_superseded
from magiccontext.engine.permission import Facts, FlushRequest, routine_lanes
from magiccontext.engine.request import Settings
from magiccontext.engine.schedule import Episode, next_episode
from magiccontext.engine.state import Tag, TagStatus, TagType
from magiccontext.engine.transcript import Role


@dataclass(slots=True)
class Reclaimed:
    """What the lanes did: tags by lane, in the lanes' names; local tokens of what left."""

    lanes: dict[str, int] = field(default_factory=dict)
    tokens: int = 0
    landed: bool = False  # queued drops were applied
    routine: bool = False

    def note(self, lane: str, count: int, tokens: int = 0) -> None:
        if count:
            self.lanes[lane] = self.lanes.get(lane, 0) + count
            self.tokens += tokens

    @property
    def changed(self) -> bool:
        return bool(self.lanes)


def reclaim(draft: Draft, facts: Facts, *, current_tokens: int, smart_drops: bool) -> Reclaimed:
    """Run the lanes of a permitted pass.  ``current_tokens``: provider tokens of the request so far."""
    done = Reclaimed()
    eligibility = Eligibility(draft, emergency=facts.in_emergency)
    batch = DropBatch(draft)

    drained = drain(draft, batch, eligibility)
    done.landed = bool(drained.dropped)
    done.note("queued_drops", len(drained.dropped), drained.tokens)

    paid = (
        done.landed
        or facts.fold
        or facts.first_render
        or facts.idle
        or facts.history_due
        or facts.m1_changed
        or facts.flush_request is not FlushRequest.NONE
    )
    latch = LatchFacts(percentage=facts.percentage, force_band=facts.force_band, paid=paid)
    draft.vars = replace(
        draft.vars, emergency_sample=next_latch(draft.vars.emergency_sample, When.HEURISTICS, latch)
    )

    left = current_tokens - provider_tokens([(drained.tokens, draft.vars.ratios[1])])
    _emergency(draft, batch, eligibility, facts, done, left, paid)
    done.routine = routine_lanes(facts, paid, "emergency_drop" in done.lanes)
    if done.routine:
        done.note("injection_strip", len(strip_injections(draft, batch, eligibility)))
        _note_drops(draft, done, "dedup", drop_duplicates(draft, batch, eligibility))
    _note_drops(draft, done, "age_sweep", sweep(draft, batch, eligibility))
    if done.routine and smart_drops:
        _note_drops(draft, done, "supersession", drop_superseded(draft, batch, eligibility))

    draft.vars = replace(
        draft.vars,
        tool_reclaim_watermark=draft.tag_counter,
        flush="",
        episode=next_episode(
            Episode(draft.vars.in_episode, draft.vars.episode),
            percentage=facts.percentage,
            threshold=facts.threshold,
            routine_ran=done.routine,
        ).routine_ran,
    )
    return done


def bring_back(draft: Draft, settings: Settings) -> None:
    """On a rebuild: messages sent raw get their tags, edited ones their new text.

    Not the start of an answer: nothing may stand before what the model goes on from.
    """
    last = next(draft.last_messages())
    raw = [m for m in draft.path if m.raw_sent and m.raw and not (m is last and m.role is Role.ASSISTANT)]
    tags.allocate(draft, raw, settings.count)
    draft.touched.update(m.mid for m in raw)
    draft.touched.update(
        m.mid for m in draft.path if m.form is not None and m.revision and m.form.body != m.raw and m.raw
    )


def _note_drops(draft: Draft, done: Reclaimed, lane: str, dropped: list[Tag]) -> None:
    current = [draft.tag(tag.number) or tag for tag in dropped]
    done.note(lane, len(dropped), sum(reclaimed_tokens(tag, tag.drop_mode) for tag in current))


def _emergency(
    draft: Draft,
    batch: DropBatch,
    eligibility: Eligibility,
    facts: Facts,
    done: Reclaimed,
    current: int,
    paid: bool,
) -> None:
    if not (facts.in_force_band or facts.in_emergency):
        return
    tools_ratio, prose_ratio = draft.vars.ratios[1], draft.vars.ratios[2]
    candidates: list[Candidate] = []
    mass: list[tuple[float, float]] = []
    for tag in draft.tags():
        if tag.status is not TagStatus.ACTIVE or not draft.on_path(tag.mid):
            continue
        tool = tag.type is TagType.TOOL
        mass.append((tag.tokens, tools_ratio if tool else prose_ratio))
        if tool:
            mode = batch.mode(tag, emergency=facts.in_emergency)
            hold = eligibility.reason(tag)
            candidates.append(
                Candidate(
                    tag.number,
                    tag.tool_name,
                    provider_tokens([(reclaimed_tokens(tag, mode), tools_ratio)]),
                    droppable=hold in ("", "protection window"),
                    protected_tool=tag.number in eligibility.protected,
                )
            )
    plan = select(
        candidates,
        Pressure(
            current=current,
            ceiling=ceiling_tokens(facts.usable_tokens, facts.threshold),
            tail=provider_tokens(mass),
            in_force_band=facts.in_force_band,
            emergency=facts.in_emergency,
            latch=draft.vars.emergency_sample,
            paid=paid,
            cutoff=eligibility.cutoff,
        ),
    )
    dropped = []
    for number in plan.numbers:
        tag_now = draft.tag(number)
        if tag_now is not None:
            batch.apply(tag_now, emergency=facts.in_emergency)
            dropped.append(tag_now)
    _note_drops(draft, done, "emergency_drop", dropped)
