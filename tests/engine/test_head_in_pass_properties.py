"""Whatever happens to a session and to what its head is made from, a pass keeps its promises.

(history-render sections 3 and 5 to 7; reclaim-core section 5.)  The promises about the conversation are
those of the histories without a head, except that what the head stands for is no longer sent.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from magiccontext.engine.head.materialize import PRESSURE_REASON, TRIGGERS
from magiccontext.engine.head.model import Boundary, Pair
from magiccontext.engine.heading import WITHDRAWN
from magiccontext.engine.passes import run_pass
from magiccontext.engine.result import Outcome, PassResult
from magiccontext.engine.state import CUT, Msg, SessionState, TagStatus, Why
from magiccontext.engine.transcript import Role
from magiccontext.engine.view import Level
from tests.engine.conversation import reloaded
from tests.engine.head_histories import HeadSession, HeadWorld, head_acts
from tests.engine.histories import LIMITS, MODELS, Act
from tests.engine.test_pass_properties import Play

HISTORIES = 3_000 if os.environ.get("HYPOTHESIS_PROFILE") == "ci" else 150
FOLD_REASONS = (*(trigger.name for trigger in TRIGGERS), PRESSURE_REASON, WITHDRAWN)

OPENING: list[Act] = [
    ("tools", [("bash", 300, 1)], False, False, False, False),
    ("answer", 30, False),
    ("tools", [("read", 300, 1), ("grep", 40, 2)], False, True, True, False),
    ("answer", 20, True),
    ("user", ["and then?"], 0),
    ("summarise", 1),
    ("tools", [("edit", 40, 3)], False, True, False, False),
]
"""So that many a history begins behind a summary."""


@dataclass
class HeadPlay(Play, HeadWorld):
    session: HeadSession
    before: SessionState = field(default_factory=SessionState)
    request_sent: Any = None
    result: PassResult | None = None

    def request(self) -> None:
        self.result = None
        super().request()
        if self.result is None:
            return
        if self.result.outcome is Outcome.REFUSE:
            self.nothing_moved()
            return
        self.head_changes_for_a_reason()
        self.held_pass_leaves_the_head()
        self.cut_is_covered()
        self.cut_is_complete()
        self.prompt_is_sent()
        self.tags_follow_the_cut()
        self.used += sum(map(len, self.session.state.head_bodies)) // 4

    # hooks of the play

    def same_elsewhere(self, before: Any, request: Any, result: PassResult) -> None:
        super().same_elsewhere(before, request, result)
        other = run_pass(before, request, self.session.settings)
        assert other.changes.head == result.changes.head
        assert (other.changes.folded, other.changes.published_taken) == (
            result.changes.folded,
            result.changes.published_taken,
        )
        self.before, self.request_sent, self.result = before, request, result

    def person_is_heard(self) -> None:
        path = self.session.state.path
        self.session.state.path = [m for m in path if m.form != CUT]
        try:
            super().person_is_heard()
        finally:
            self.session.state.path = path

    def forms_are_edits(self) -> None:
        path = self.session.state.path
        self.session.state.path = [m for m in path if m.form != CUT]
        try:
            super().forms_are_edits()
        finally:
            self.session.state.path = path

    def defer_replays(
        self, result: PassResult, before: dict[str, Msg], bodies: dict[str, bytes | None]
    ) -> None:
        """A defer pass replays head and messages; only what the host's going back uncovered is new."""
        if result.level is Level.DEFER:
            assert self.session.state.head_bodies == self.before.head_bodies
        if result.changes.arrival.path is not None:
            back = {c.mid for c in result.changes.forms if c.why is Why.RETURNED}
            before = {mid: m for mid, m in before.items() if mid not in back}
        super().defer_replays(result, before, bodies)

    def totals_agree(self) -> None:
        vars, session = self.session.state.vars, self.session
        _, raw, served = session.totals()
        served += sum(map(len, session.state.head_bodies))
        assert (vars.wire_tokens, vars.raw_bytes, vars.served_bytes) == (session.wire_tokens(), raw, served)

    def settles(self) -> None:
        super().settles()
        state = reloaded(self.session.state)
        for _ in range(3):
            m0 = state.head_bodies[:1]
            result = run_pass(state, self.session.request(), self.session.settings)
            state = state.advanced(result.changes)
            if result.outcome is not Outcome.REFUSE:
                assert state.head_bodies[:1] == m0 or PRESSURE_REASON in result.reasons

    # promises of the head

    def nothing_moved(self) -> None:
        """Reclaim-core 5.2: what a refused pass prepared is nowhere, and what was pending still is."""
        state = self.session.state
        assert (state.head, state.head_bodies) == (self.before.head, self.before.head_bodies)
        assert state.published == self.before.published
        assert {m.mid: m.form for m in state.path} == {m.mid: m.form for m in self.before.path}

    def head_changes_for_a_reason(self) -> None:
        """Section 5: m[0] changes for a row of the table only; section 6: m[1] with a permission only."""
        assert self.result is not None
        old, new = self.before.head_bodies, self.session.state.head_bodies
        if old[:1] != new[:1]:
            assert self.result.level is Level.HARD
            assert any(reason.startswith(FOLD_REASONS) for reason in self.result.reasons), self.result.reasons
        elif old != new:
            assert self.result.level is Level.SOFT
        has_head = not self.session.subagent or not self.session.settings.compaction
        assert len(new) == (2 if has_head else 0)

    def held_pass_leaves_the_head(self) -> None:
        """Reclaim-core 5.3: without permission a refresh is not even prepared."""
        assert self.result is not None
        state = self.session.state
        if self.result.permitted is not Level.DEFER or self.result.changes.folded:
            return
        assert state.published == self.before.published
        assert state.head_bodies == self.before.head_bodies
        if self.before.head is not None and state.head is not None:
            assert _content(state.head) == _content(self.before.head)

    def boundary(self) -> Boundary | None:
        state = self.session.state
        return state.head.boundary if state.head is not None and state.head_bodies else None

    def places(self) -> tuple[list[int], int]:
        """(indexes of the cut messages, index of the boundary in the array or -1)."""
        path = self.session.state.path
        boundary = self.boundary()
        at = next((i for i, m in enumerate(path) if boundary is not None and m.mid == boundary.mid), -1)
        return [i for i, m in enumerate(path) if m.form == CUT], at

    def cut_is_covered(self) -> None:
        """Section 7: nothing disappears that no served compartment covers."""
        cut, at = self.places()
        if not cut:
            return
        boundary = self.boundary()
        assert self.session.settings.compaction and boundary is not None and at >= 0
        end = at if boundary.end_block is None else at - 1
        assert max(cut) <= end
        head = self.session.state.head
        assert head is not None
        _, m1 = self.session.head
        shown = [
            c
            for c in self.ever
            if c.sequence <= head.markers.max_compartment_seq
            or not c.has_content
            or f"all of {c.sequence};" in m1
        ]
        assert any(c.end >= boundary.ordinal for c in shown)

    def cut_is_complete(self) -> None:
        """On a rebuild nothing is sent that the served boundary covers."""
        assert self.result is not None
        boundary = self.boundary()
        if self.result.permitted is Level.DEFER or boundary is None:
            return
        cut, at = self.places()
        if at < 0:
            return
        end = at if boundary.end_block is None else at - 1
        prompt = self.session.newest_prompt()
        codec = self.session.codec
        for index, message in enumerate(self.session.state.path[: end + 1]):
            system = codec.parse(message.raw).role is Role.SYSTEM
            assert (index in cut) != system or index >= prompt - 2

    def prompt_is_sent(self) -> None:
        """Hosts 2.2 item 7."""
        path = self.session.state.path
        assert all(m.form != CUT for m in path[self.session.newest_prompt() :])

    def tags_follow_the_cut(self) -> None:
        """Section 7, reclaim-core 1.5: compacted is what left, and its marks left the queue."""
        state = self.session.state
        if not self.session.settings.compaction:
            return
        for message in state.path:
            for tag in state.tags_of(message.mid):
                if tag.mid != message.mid:
                    continue
                if message.form == CUT:
                    assert tag.status is not TagStatus.ACTIVE
                    assert tag.number not in state.pending or not self.evaluated()
                elif not message.raw_sent:
                    assert tag.status is not TagStatus.COMPACTED

    def evaluated(self) -> bool:
        assert self.result is not None
        return self.result.permitted is not Level.DEFER or self.result.changes.arrival.path is not None


def _content(pair: Pair) -> tuple[Any, ...]:
    return pair.m0, pair.m1, pair.mural, pair.boundary, pair.visible_memory_ids


@given(
    history=st.lists(head_acts, min_size=6, max_size=30),
    opening=st.sampled_from((0, len(OPENING))),
    format=st.sampled_from(sorted(MODELS)),
    model=st.integers(0, 2),
    limit=st.sampled_from(LIMITS),
    subagent=st.sampled_from((False, False, False, True)),
)
@settings(max_examples=HISTORIES, deadline=None, suppress_health_check=list(HealthCheck))
def test_promises_of_the_head_hold_over_any_history(
    history: list[Act], opening: int, format: str, model: int, limit: int, subagent: bool
) -> None:
    note(f"{history!r}")
    play = HeadPlay(HeadSession(format, MODELS[format][model], limit, subagent=subagent))
    play.act_user(["start"], 0)
    for act in [*OPENING[:opening], *history]:
        play.act(act)
        if act[0] != "missed":
            play.request()
