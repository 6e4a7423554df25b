"""Sessions with a head: the store behind it, and random histories of both.

A :class:`HeadSession` keeps what a store would keep of compartments, memories and documents, and hands a
snapshot of it to every pass.  As in the store, whether a compartment still resolves is read from the
conversation as it was before the pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from magiccontext.engine.head.model import (
    Compartment,
    HeadSource,
    Memory,
    MutationRow,
    ProfileEntry,
    ProjectDocs,
)
from magiccontext.engine.request import HeadRequest, HistorianFacts, PassRequest
from magiccontext.engine.state import CUT, Msg
from magiccontext.engine.transcript import Kind, Role
from tests.engine.conversation import Sent, Session, count, words
from tests.engine.histories import ACTS, Act, World

PROJECT = "git:own"


class HeadSession(Session):
    """``source`` is the store; change it with :meth:`store` or with what a service would do."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.source = HeadSource(project=PROJECT)
        self.system = "system 1"
        self.tools = "tools 1"
        self.host_compaction_ms = 0
        self.historian = HistorianFacts()

    def request(self, **changes: Any) -> PassRequest:
        values: dict[str, Any] = {"head": self.head_request(), "historian": self.historian}
        return super().request(**{**values, **changes})

    def head_request(self) -> HeadRequest | None:
        """What the service hands over: nothing for a subagent whose conversation is managed."""
        if self.subagent and self.settings.compaction:
            return None
        source = replace(
            self.source, compartments=self.compartments(), compaction_on=self.settings.compaction
        )
        return HeadRequest(source, self.system, self.tools, self.host_compaction_ms)

    def compartments(self) -> tuple[Compartment, ...]:
        line = self.state.line
        at = {m.mid: m.ordinal for m in line}
        return tuple(
            replace(c, resolves=at.get(c.start_mid) == c.start and at.get(c.end_mid) == c.end)
            for c in self.source.compartments
        )

    # what services do between passes

    def store(self, **fields: Any) -> None:
        self.source = replace(self.source, **fields)

    def publish(self, through: int, **fields: Any) -> Compartment:
        """A summary of everything since the last one, through the message at that index of the line."""
        rows = self.source.compartments
        start = max((c.end + 1 for c in self.compartments() if c.resolves), default=1)
        sequence = max((c.sequence for c in rows), default=-1) + 1
        first, last = self.state.line[start - 1], self.state.line[through]
        values: dict[str, Any] = {
            "title": f"Work {sequence};",
            "p1": f"all of {sequence};",
            "p2": f"much of {sequence};",
            "p3": f"some of {sequence};",
            "p4": f"little of {sequence};",
            "start_mid": first.mid,
            "end_mid": last.mid,
        }
        row = Compartment(sequence, start, last.ordinal, **{**values, **fields})
        self.store(compartments=(*rows, row))
        self.state.published = True
        self.state.history = (sequence, self.state.history[1])
        return row

    def clear(self, *sequences: int) -> None:
        """A recomp or revert: rows go, the structural log grows, the cached pair is forgotten."""
        kept = tuple(c for c in self.source.compartments if c.sequence not in sequences)
        self.store(compartments=kept, structural_mutation_id=self.source.structural_mutation_id + 1)
        newest = max((c.sequence for c in kept), default=-1)
        self.state.history = (newest, self.source.structural_mutation_id)
        self.state.head = None

    def remember(self, *texts: str, **fields: Any) -> None:
        known = self.source.memories
        first = max((m.id for m in known), default=0) + 1
        new = [Memory(first + i, "CONSTRAINTS", text, PROJECT, **fields) for i, text in enumerate(texts)]
        self.store(memories=(*known, *new))

    def mutate(self, target: int, type: str, content: str | None = None) -> None:
        """What the memory tools do: the row changes and the log says so."""
        number = self.source.mutation_head + 1
        row = MutationRow(number, type, target, PROJECT, new_content=content)
        memories = tuple(
            m
            if m.id != target
            else replace(m, content=content)
            if content is not None
            else replace(m, status="archived")
            for m in self.source.memories
        )
        self.store(mutations=(*self.source.mutations, row), mutation_head=number, memories=memories)

    # questions

    @property
    def head(self) -> tuple[str, ...]:
        """The served texts of m[0] and m[1]."""
        return tuple(self.codec.parse(body).parts[0].text for body in self.state.head_bodies)

    def is_cut(self, message: Msg) -> bool:
        return message.form == CUT

    def cut_count(self) -> int:
        return sum(map(self.is_cut, self.state.path))

    def newest_prompt(self) -> int:
        """Index in the array of the newest message a person wrote; the last one without any."""
        for index in range(len(self.state.path) - 1, -1, -1):
            parsed = self.codec.parse(self.state.path[index].raw)
            if parsed.role is Role.USER and parsed.has(Kind.TEXT, Kind.MEDIA):
                return index
        return len(self.state.path) - 1

    def wire_tokens(self) -> int:
        """Everything served, counted from nothing but rows and the head's texts."""
        head = sum(count(list(self.head))) + 8 if self.head else 0
        return self.totals()[0] + head


def working(turns: int = 4, **options: Any) -> HeadSession:
    """A session of that many turns, each a prompt and two tool steps, and a last prompt; one pass served."""
    session = HeadSession(**options)
    for turn in range(turns):
        session.ask(f"turn {turn}: {words(20)}")
        for step in range(2):
            session.step(f"t{turn}s{step}", words(60, f"r{turn}{step}"))
        session.add(session.write.assistant(f"done {turn}"))
    session.ask("and now?")
    return session


TURN = 6
"""Messages of one turn of :func:`working` in a format with results of their own or in user messages."""


def served_texts(sent: Sent, session: Session) -> str:
    return "\n".join(body.decode() for body in sent.served)


# Random histories

HEAD_ACTS: dict[str, st.SearchStrategy[Act]] = {
    "publish": st.tuples(st.just("publish"), st.integers(0, 9), st.sampled_from((0, 0, 0, 1, 2))),
    "summarise": st.tuples(st.just("summarise"), st.integers(0, 9)),
    "remember": st.tuples(st.just("remember"), st.integers(1, 3), st.booleans()),
    "mutate": st.tuples(st.just("mutate"), st.integers(0, 5), st.sampled_from(("update", "archive"))),
    "many": st.tuples(st.just("many")),
    "epoch": st.tuples(st.just("epoch")),
    "profile": st.tuples(st.just("profile"), st.booleans()),
    "docs": st.tuples(st.just("docs"), st.integers(0, 2)),
    "memory": st.tuples(st.just("memory")),
    "system": st.tuples(st.just("system"), st.integers(0, 2)),
    "tools_changed": st.tuples(st.just("tools_changed"), st.integers(0, 2)),
    "project": st.tuples(st.just("project"), st.booleans()),
    "usage": st.tuples(st.just("usage"), st.sampled_from((30, 60, 70, 80, 87, 93, 96))),
    "historian": st.tuples(st.just("historian")),
    "recomp": st.tuples(st.just("recomp"), st.integers(0, 3)),
    "revert": st.tuples(st.just("revert")),
    "host_compacted": st.tuples(st.just("host_compacted")),
    "rewind_far": st.tuples(st.just("rewind_far"), st.integers(1, 30)),
    "drop_front": st.tuples(st.just("drop_front"), st.integers(1, 8)),
}
OFTEN = (
    "tools", "tools", "tools", "tools", "user", "user", "answer", "answer", "publish", "publish",
    "summarise", "summarise", "summarise", "usage", "usage", "idle", "queue", "flush", "remember", "mutate",
    "rewind", "edit", "leave_out", "drop_front", "restore",
)  # fmt: skip
BOTH = {**ACTS, **HEAD_ACTS}
head_acts = st.sampled_from((*OFTEN, *BOTH)).flatmap(lambda name: BOTH[name])


@dataclass
class HeadWorld(World):
    """The world of :class:`World`, with a store that changes between requests."""

    session: HeadSession
    ever: list[Compartment] = field(default_factory=list)  # every compartment there ever was

    def ends(self) -> list[int]:
        """Places in the line where a compartment may end: behind no open call, before the newest prompt."""
        session = self.session
        line, path = session.state.line, session.state.path
        start = max((c.end + 1 for c in session.compartments() if c.resolves), default=1)
        if not path:
            return []
        prompt = path[session.newest_prompt()].ordinal
        ends = []
        for index in range(start - 1, min(len(line), prompt - 1)):
            before = {m.mid for m in line[: index + 1]}
            if all(k.owner not in before for m in line[index + 1 :] for k in m.links):
                ends.append(index)
        return ends

    def act_publish(self, place: int, kind: int) -> None:
        """``kind`` 1: without content, 2: ends partway through its last message."""
        self.act_revert()
        ends = self.ends()
        if not ends:
            return
        fields: dict[str, Any] = {}
        if kind == 1:
            fields = dict.fromkeys(("p1", "p2", "p3", "p4")) | {"title": ""}
        elif kind == 2:
            fields = {"end_block": 0}
        self.ever.append(self.session.publish(ends[-1 - place % len(ends)], **fields))

    def act_summarise(self, place: int) -> None:
        """A publication that the next pass may take up."""
        self.act_publish(place, 0)
        self.act_usage(70)

    def act_revert(self) -> None:
        """The historian finds that the conversation went back behind some of its summaries."""
        gone = [c.sequence for c in self.session.compartments() if not c.resolves]
        if gone:
            self.session.clear(*gone)

    def act_recomp(self, place: int) -> None:
        rows = self.session.source.compartments
        if rows:
            self.session.clear(rows[place % len(rows)].sequence)

    def act_remember(self, number: int, expires: bool) -> None:
        self.counter += 1
        expiry = self.session.now + 600_000 if expires else None
        self.session.remember(*(f"fact {self.counter}-{i}" for i in range(number)), expires_ms=expiry)

    def act_mutate(self, place: int, type: str) -> None:
        memories = self.session.source.memories
        if memories:
            self.counter += 1
            target = memories[place % len(memories)].id
            self.session.mutate(target, type, f"other {self.counter}" if type == "update" else None)

    def act_many(self) -> None:
        """More corrections than m[1] may hold."""
        if len(self.session.source.memories) < 42:
            self.session.remember(*(f"m{n}" for n in range(42)))
        else:
            for memory in self.session.source.memories[:42]:
                self.session.mutate(memory.id, "update", f"{memory.content}!")

    def act_epoch(self) -> None:
        self.session.store(memory_epoch=self.session.source.memory_epoch + 1)

    def act_profile(self, longer: bool) -> None:
        old = self.session.source
        entry = ProfileEntry(len(old.profile) + 1, f"likes {len(old.profile)}", self.session.now)
        profile = (*old.profile, entry) if longer else old.profile[:-1]
        self.session.store(profile=profile, profile_version=old.profile_version + 1)

    def act_docs(self, number: int) -> None:
        files = (("ARCHITECTURE.md", words(200 * number, f"d{number}")),) if number else ()
        self.session.store(docs=ProjectDocs(files))

    def act_memory(self) -> None:
        self.session.store(memory_enabled=not self.session.source.memory_enabled)

    def act_system(self, number: int) -> None:
        self.session.system = f"system {number}" if number else ""

    def act_tools_changed(self, number: int) -> None:
        self.session.tools = f"tools {number}" if number else ""

    def act_project(self, known: bool) -> None:
        self.session.store(project=PROJECT if known else "")

    def act_usage(self, percent: int) -> None:
        if self.served:
            self.used = round(self.session.state.vars.last_limit * percent / 100)
            self.answered_ms = self.session.now + 1

    def act_historian(self) -> None:
        self.session.historian = HistorianFacts(running=not self.session.historian.running)

    def act_host_compacted(self) -> None:
        self.session.host_compaction_ms = self.session.now

    def act_rewind_far(self, number: int) -> None:
        self.act_rewind(number)

    def act_drop_front(self, number: int) -> None:
        """The host stops sending its oldest messages, without a word."""
        if len(self.units) > number:
            self._remember()
            self.units = self.units[number:]
