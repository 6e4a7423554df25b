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
from magiccontext.engine.overflow import Overflow, Provenance
from magiccontext.engine.passes import run_pass
from magiccontext.engine.recovery import learn_overflow
from magiccontext.engine.result import NotReady, Outcome, PassResult
from magiccontext.engine.state import Msg, TagStatus, TagType, Why
from magiccontext.engine.transcript import Kind, Role
from magiccontext.engine.view import Level
from tests.engine.conversation import MINUTE, Call, Result, Session, reloaded, words

HISTORIES = 3_000 if os.environ.get("HYPOTHESIS_PROFILE") == "ci" else 250

MODELS = {
    "anthropic": ("anthropic/claude-sonnet-4-5", "anthropic/claude-haiku-4-5", "vertex/gemini-2"),
    "openai-chat": ("openai/gpt-5", "local/qwen", "gpt-5"),
}
TOOLS = ("bash", "read", "grep", "edit", "todowrite", "ctx_reduce", "question", "bash_status")
TEXTS = (
    "fix the bug",
    "§7§ look",
    "§12§",
    "§3.5 applies",
    "  ",
    "go on\n\nplease",
    "🙂 ünï",
    "[dropped §4§]",
    "<system-reminder>be brief</system-reminder>\nhello",
    "<system-reminder>only this</system-reminder>",
)
LIMITS = (6_000, 20_000, 60_000)

Act = tuple[Any, ...]
small = st.integers(0, 11)
call = st.tuples(st.sampled_from(TOOLS), st.sampled_from((3, 40, 300, 1_500)), st.integers(0, 7))
text = st.sampled_from(TEXTS) | st.integers(1, 400)

ACTS: dict[str, st.SearchStrategy[Act]] = {
    "user": st.tuples(st.just("user"), st.lists(text, min_size=1, max_size=2), st.integers(0, 1)),
    "answer": st.tuples(st.just("answer"), text, st.booleans()),
    # calls, their ids reused from earlier turns, text beside them, thinking, a person's word in between
    "tools": st.tuples(
        st.just("tools"), st.lists(call, min_size=1, max_size=3), st.booleans(), st.booleans(), st.booleans(),
        st.booleans(),
    ),
    "work": st.tuples(
        st.just("work"), st.integers(3, 14), st.sampled_from(TOOLS), st.sampled_from((40, 300))
    ),
    "rewind": st.tuples(st.just("rewind"), st.integers(1, 4)),
    "edit": st.tuples(st.just("edit"), small, st.booleans()),
    "leave_out": st.tuples(st.just("leave_out"), small),
    "compact": st.tuples(st.just("compact"), st.integers(1, 6)),
    "restore": st.tuples(st.just("restore"), small),
    "idle": st.tuples(st.just("idle"), st.sampled_from((1, 6, 70))),
    "queue": st.tuples(st.just("queue"), st.lists(small, min_size=1, max_size=5)),
    "flush": st.tuples(st.just("flush"), st.sampled_from(("explicit", "request"))),
    "model": st.tuples(st.just("model"), st.integers(0, 2)),
    "limit": st.tuples(st.just("limit"), st.sampled_from(LIMITS)),
    "missed": st.tuples(st.just("missed")),
    "compaction": st.tuples(st.just("compaction")),
    "overflow": st.tuples(st.just("overflow")),
    "restart": st.tuples(st.just("restart")),
    "again": st.tuples(st.just("again")),
}  # fmt: skip
OFTEN = ("tools", "tools", "tools", "tools", "user", "queue", "answer", "idle")
acts = st.sampled_from((*OFTEN, *ACTS)).flatmap(lambda name: ACTS[name])
histories = st.lists(acts, min_size=4, max_size=28)


@dataclass
class Unit:
    """Messages that stand or fall together: a prompt, an answer, or calls with their results."""

    kind: str
    messages: list[bytes]
    again: tuple[Any, ...] = ()  # what an edit writes anew


@dataclass
class Play:
    """One history being played.  ``units`` is the host's array."""

    session: Session
    units: list[Unit] = field(default_factory=list)
    snapshots: list[list[Unit]] = field(default_factory=list)
    asked: set[int] = field(default_factory=set)  # tags the agent ever marked
    counter: int = 0
    missing: bool = False  # the host sent raw since the last pass
    owners: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    digests: dict[str, bytes] = field(default_factory=dict)
    sent: dict[str, bytes | None] = field(default_factory=dict)
    used: int = 0
    answered_ms: int = 0

    # acts

    def play(self, act: Act) -> None:
        name, *values = act
        getattr(self, f"act_{name}")(*values)
        if name != "missed" and self.units:
            self.request()

    def _text(self, value: str | int) -> str:
        self.counter += 1
        return value if isinstance(value, str) else f"{self.counter} {words(value)}"

    def act_user(self, texts: list[str | int], images: int) -> None:
        said = [self._text(value) for value in texts]
        self.units.append(Unit("user", self.session.write.user(*said, images=images)))

    def act_answer(self, text: str | int, thinks: bool) -> None:
        if not self.units:
            return
        said = self._text(text)
        thinking = f"hmm {self.counter}" if thinks else ""
        self.units.append(Unit("answer", self.session.write.assistant(said, thinking=thinking)))
        self.act_user(["go on"], 0)

    def act_tools(
        self, wanted: list[tuple[str, int, int]], reuse: bool, says: bool, thinks: bool, steers: bool
    ) -> None:
        if not self.units:
            self.act_user(["start"], 0)
        self.counter += 1
        made = []
        for index, (tool, size, flavour) in enumerate(wanted):
            id = f"call{index}" if reuse else f"call{self.counter}-{index}"
            arguments = {
                "filePath": f"f{flavour % 3}",
                "n": flavour,
                "text": "x" * (1 if size < 300 else 1200),
            }
            result = Result(
                id,
                None
                if flavour == 7 and self.session.codec.format == "anthropic"
                else words(size, f"r{self.counter}"),
                error=flavour == 6,
                images=1 if flavour == 5 else 0,
            )
            made.append((Call(id, tool, arguments), result))
        self._tools(made, says, thinks, steers)

    def _tools(self, made: list[tuple[Call, Result]], says: bool, thinks: bool, steers: bool) -> None:
        write = self.session.write
        said = [f"step {self.counter}"] if says else []
        thinking = f"because {self.counter}" if thinks else ""
        messages = write.assistant(*said, calls=[call for call, _ in made], thinking=thinking)
        results = [result for _, result in made]
        messages = messages + write.user(*(["wait"] if steers else []), results=results)
        self.units.append(Unit("tools", messages, (made, says, thinks, steers)))

    def act_work(self, number: int, tool: str, size: int) -> None:
        """A stretch of tool steps, each on one of three files."""
        for flavour in range(number):
            self.act_tools([(tool, size, flavour % 5), (tool, 3, flavour % 2)], False, False, False, False)

    def act_rewind(self, number: int) -> None:
        self._remember()
        self.units = self.units[: max(1, len(self.units) - number)]

    def act_edit(self, place: int, only_result: bool) -> None:
        """The host rewrites an old message: its text, a call's arguments, or a result."""
        if not self.units:
            return
        self._remember()
        index = place % len(self.units)
        unit = self.units[index]
        self.counter += 1
        if unit.kind == "tools":
            made, says, thinks, steers = unit.again
            changed = [
                (
                    call if only_result else Call(call.id, call.name, {**call.arguments, "n": self.counter}),
                    Result(result.id, f"changed {self.counter}") if only_result else result,
                )
                for call, result in made
            ]
            rest = self.units[index + 1 :]
            self.units = self.units[:index]
            self._tools(changed, says, thinks, steers)
            self.units += rest
        else:
            write = self.session.write.user if unit.kind == "user" else self.session.write.assistant
            self.units[index] = Unit(unit.kind, write(f"edited {self.counter}"))

    def act_leave_out(self, place: int) -> None:
        if len(self.units) > 2:
            self._remember()
            self.units = [u for i, u in enumerate(self.units) if i != 1 + place % (len(self.units) - 1)]

    def act_compact(self, number: int) -> None:
        if len(self.units) > number:
            self._remember()
            self.counter += 1
            summary = Unit("user", self.session.write.user(f"summary {self.counter}"))
            self.units = [summary, *self.units[number:]]

    def act_restore(self, place: int) -> None:
        if self.snapshots:
            back = self.snapshots[place % len(self.snapshots)]
            self._remember()
            self.units = list(back)

    def _remember(self) -> None:
        if self.units:
            self.snapshots.append(list(self.units))

    def act_idle(self, minutes: int) -> None:
        self.session.now += minutes * MINUTE

    def act_queue(self, places: list[int]) -> None:
        """Marks, counted from the newest tag and from the oldest."""
        tags = self.session.state.tags
        numbers = [n for p in places for n in (p + 1, len(tags) - p) if n in tags]
        numbers = [n for n in numbers if tags[n].status is TagStatus.ACTIVE]
        self.asked.update(numbers)
        self.session.queue(*numbers)

    def act_flush(self, kind: str) -> None:
        self.session.flush(kind)

    def act_model(self, index: int) -> None:
        self.session.model = MODELS[self.session.codec.format][index]

    def act_limit(self, limit: int) -> None:
        self.session.context_limit = limit

    def act_missed(self) -> None:
        """The server was away: the host sent a step with everything new in it raw."""
        if self.units and self.sent:
            self.act_tools([("bash", 40, 1)], False, True, False, False)
            self.missing = True

    def act_compaction(self) -> None:
        old = self.session.settings
        self.session.settings = type(old)(old.count, compaction=not old.compaction)

    def act_overflow(self) -> None:
        self.session.state.vars = learn_overflow(
            self.session.state.vars,
            Overflow(True, self.session.context_limit - 500, Provenance.COMBINED, self.used + 1_000),
            self.session.model,
            primary=not self.session.subagent,
            compaction=self.session.settings.compaction,
        )

    def act_restart(self) -> None:
        self.session.restart()

    def act_again(self) -> None:
        """The same request once more."""

    # requests

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
        self.sent = sent.bodies
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
        play.play(act)
