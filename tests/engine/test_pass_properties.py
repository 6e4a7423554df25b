"""Whatever hosts, agents and people do to a session, a pass keeps its promises (design sections 3 to 5).

A history is a list of acts.  Playing it drives one session in either wire format: turns with parallel
calls, failed calls, thinking, images; rewinds, edits, host compactions and their undoing; idle time, usage
reports from what was really served, marks of the agent, flushes, other models and windows, passes that
were missed, compaction switched off.  After every pass each promise is checked.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from magiccontext.engine.lanes.injection import strip_injected
from magiccontext.engine.notation import is_placeholder_text, placeholder, prefix_for, strip_notation
from magiccontext.engine.passes import run_pass
from magiccontext.engine.result import NotReady, Outcome, PassResult
from magiccontext.engine.state import Msg, TagStatus, TagType, Why
from magiccontext.engine.transcript import Kind, Role
from magiccontext.engine.view import Level
from tests.engine.conversation import Session, reloaded
from tests.engine.histories import LIMITS, MODELS, Act, World, acts

HISTORIES = 3_000 if os.environ.get("HYPOTHESIS_PROFILE") == "ci" else 250

histories = st.lists(acts, min_size=4, max_size=28)


@dataclass
class Play(World):
    """A world in which every request is held against the promises."""

    owners: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    digests: dict[str, bytes] = field(default_factory=dict)

    def request(self) -> None:
        session = self.session
        session.raw = [raw for unit in self.units for raw in unit.messages]
        changes: dict[str, Any] = {}
        if self.used:
            changes["usage"] = replace(session.usage(self.used), completed_ms=self.answered_ms)
        if self.missing:
            known = {m.digest for m in session.state.path}
            fresh = [i for i, d in enumerate(session.request().digests) if d not in known]
            changes["raw_from"] = fresh[0] if fresh else None
        before = reloaded(session.state)
        request = session.request(**changes)
        try:
            result = run_pass(session.state, request, session.settings)
        except NotReady as error:
            assert error.code == "assistant_terminal_retry"
            assert self.ends_with_dropped_result(before)
            return
        self.same_elsewhere(before, request, result)
        self.within_permission(result)
        old_vars = before.vars
        before_path = {m.mid: m for m in before.path}
        sent = session.commit(result)
        if result.outcome is Outcome.REFUSE:
            assert not result.changes.forms and not result.changes.new_tags
            self.used = 0
            return
        self.missing = False
        self.numbers_only_grow(old_vars)
        self.defer_replays(result, before_path, sent.bodies)
        self.arcs_are_whole()
        self.person_is_heard()
        self.placeholders_name_their_tag()
        self.end_is_kept()
        self.forms_are_edits()
        self.totals_agree()
        self.served = True
        self.settles()
        self.used = sum(len(body) for body in sent.served) // 4 + 300
        self.answered_ms = session.now + 1

    # promises

    def same_elsewhere(self, before: Any, request: Any, result: PassResult) -> None:
        """Another process with the same rows decides the same (design section 5)."""
        other = run_pass(before, request, self.session.settings)
        assert other.changes.vars == result.changes.vars
        assert other.changes.forms == result.changes.forms
        assert other.changes.new_tags == result.changes.new_tags
        assert other.changes.changed_tags == result.changes.changed_tags
        assert other.changes.ops_removed == result.changes.ops_removed
        assert other.changes.arrival.mids == result.changes.arrival.mids
        assert (other.level, other.permitted) == (result.level, result.permitted)
        assert other.reasons == result.reasons

    def within_permission(self, result: PassResult) -> None:
        assert result.outcome is not Outcome.FAULT, result.fault
        assert result.level <= result.permitted
        assert bool(result.reasons) == (result.level is not Level.DEFER)

    def numbers_only_grow(self, old: Any) -> None:
        """Reclaim-core 1.1, hosts 2.5: no number and no identity is ever given to something else."""
        state = self.session.state
        vars = state.vars
        assert vars.version == old.version + 1
        assert vars.view_version >= old.view_version
        assert vars.tag_counter >= old.tag_counter and vars.message_counter >= old.message_counter
        assert vars.lineage >= old.lineage
        assert max(state.tags, default=0) <= vars.tag_counter
        for number, tag in state.tags.items():
            identity = (str(tag.type), tag.mid, tag.call_id or str(tag.part))
            assert self.owners.setdefault(number, identity) == identity
        assert len(set(self.owners.values())) == len(self.owners)
        for mid, message in state.messages.items():
            assert self.digests.setdefault(mid, message.digest) == message.digest
        ordinals = [m.ordinal for m in state.line]
        assert ordinals == list(range(1, len(ordinals) + 1))
        assert len({m.mid for m in state.path}) == len(state.path)

    def defer_replays(
        self, result: PassResult, before: dict[str, Msg], bodies: dict[str, bytes | None]
    ) -> None:
        """A defer pass serves what was served, and what is new behind it."""
        if result.level is not Level.DEFER:
            return
        rebased = {change.mid for change in result.changes.forms if change.why is Why.REBASED}
        for mid, body in bodies.items():
            if mid in before and mid not in rebased:
                assert body == before[mid].body

    def arcs_are_whole(self) -> None:
        """A result follows its call; a call whose result the host has is followed by it (hosts 2.3)."""
        raw_open = self.walk([m.raw for m in self.session.state.path])
        assert raw_open == Counter()
        served = [body for m in self.session.state.path if (body := m.body) is not None]
        assert self.walk(served) == Counter()

    def walk(self, array: Sequence[bytes]) -> Counter[str]:
        waiting: Counter[str] = Counter()
        for raw in array:
            parsed = self.session.codec.parse(raw)
            if parsed.role is Role.ASSISTANT:
                assert not waiting, "a call without its result"
            for part in parsed.parts:
                if part.kind is Kind.TOOL_CALL:
                    waiting[part.call_id] += 1
                elif part.kind is Kind.TOOL_RESULT:
                    assert waiting[part.call_id] > 0, "a result without its call"
                    waiting[part.call_id] -= 1
            waiting = +waiting
        return waiting

    def person_is_heard(self) -> None:
        """Reclaim-core 3, design 12: what a person wrote is there, or was dropped by name."""
        state, codec = self.session.state, self.session.codec
        for message in state.path:
            parsed = codec.parse(message.raw)
            if parsed.role is not Role.USER:
                continue
            said = [p for p in parsed.parts if p.kind is Kind.TEXT and p.text.strip()]
            if not said:
                continue
            assert message.body is not None, "a real user message left"
            heard = [p.text for p in codec.parse(message.body).parts if p.kind is Kind.TEXT]
            for part in said:
                number = state.by_content.get(f"{message.mid}:p{part.index}")
                tag = state.tags.get(number or 0)
                rest = strip_injected(part.text)
                allowed = {part.text, rest, strip_notation(part.text)} - {""}
                if tag is not None:
                    allowed |= {prefix_for(tag.number) + text for text in allowed}
                    if tag.status is TagStatus.DROPPED:
                        assert tag.number in self.asked or not rest
                        allowed = {placeholder(tag.number)} | (allowed if message.raw_sent else set())
                assert allowed & set(heard)

    def placeholders_name_their_tag(self) -> None:
        state, codec = self.session.state, self.session.codec
        for message in state.path:
            for edit in message.form.edits if message.form else ():
                if is_placeholder_text(edit.text):
                    numbers = {t.number for t in state.tags_of(message.mid)}
                    numbers |= {
                        state.by_call.get((k.call_id, k.owner), 0) for k in message.links if not k.is_call
                    }
                    named = [n for n in numbers if edit.text == placeholder(n)]
                    assert len(named) == 1
                    assert state.tags[named[0]].status is TagStatus.DROPPED
        assert all(p.index >= 0 for m in state.path for p in codec.parse(m.raw).parts)

    def end_is_kept(self) -> None:
        """The request ends with an assistant turn only if the host's did (reclaim-core 3, row 4)."""
        state, codec = self.session.state, self.session.codec
        served = [m for m in state.path if m.body is not None]
        assert served
        if codec.parse(served[-1].raw).role is Role.ASSISTANT:
            assert codec.parse(state.path[-1].raw).role is Role.ASSISTANT

    def ends_with_dropped_result(self, before: Any) -> bool:
        """Whether the array now ends with a result that was dropped whole while it was not the end."""
        return self.units[-1].kind == "tools" and any(
            t.type is TagType.TOOL and t.status is TagStatus.DROPPED for t in before.tags.values()
        )

    def forms_are_edits(self) -> None:
        """What a view says, applied to the raw message, is what went out (hosts 10.3)."""
        for message in self.session.state.path:
            assert message.form is not None
            assert self.session.codec.encode(message.raw, message.form.edits) == message.form.body

    def totals_agree(self) -> None:
        vars = self.session.state.vars
        assert (vars.wire_tokens, vars.raw_bytes, vars.served_bytes) == self.session.totals()

    def settles(self) -> None:
        """The same request again changes nothing, unless a signal still stands; then it does so once."""
        state = reloaded(self.session.state)
        bodies = {m.mid: m.body for m in state.path}
        for attempt in range(4):
            result = run_pass(state, self.session.request(), self.session.settings)
            assert result.outcome in (Outcome.SERVE, Outcome.PASSTHROUGH, Outcome.REFUSE)
            if result.level is Level.DEFER:
                state = state.advanced(result.changes)
                assert {m.mid: m.body for m in state.path} == bodies
                return
            assert result.permitted is not Level.DEFER and attempt < 3
            state = state.advanced(result.changes)
            bodies = {m.mid: m.body for m in state.path}


@given(
    history=histories,
    format=st.sampled_from(sorted(MODELS)),
    model=st.integers(0, 2),
    limit=st.sampled_from(LIMITS),
    subagent=st.booleans(),
)
@settings(max_examples=HISTORIES, deadline=None, suppress_health_check=list(HealthCheck))
def test_promises_hold_over_any_history(
    history: list[Act], format: str, model: int, limit: int, subagent: bool
) -> None:
    note(f"{history!r}")
    play = Play(Session(format, MODELS[format][model], limit, subagent=subagent))
    play.act_user(["start"], 0)
    for act in history:
        play.act(act)
        if act[0] != "missed":
            play.request()
