"""Random histories of a session: what hosts, people and agents do, and the world that does it.

A history is a list of acts; an act is a name and its values.  The host's array is a list of units that
stand or fall together, so that every array it sends is one a provider would take.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from magiccontext.engine.overflow import Overflow, Provenance
from magiccontext.engine.recovery import learn_overflow
from magiccontext.engine.state import TagStatus
from tests.engine.conversation import MINUTE, Call, Result, Session, words

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


@dataclass
class Unit:
    """Messages that stand or fall together: a prompt, an answer, or calls with their results."""

    kind: str
    messages: list[bytes]
    again: tuple[Any, ...] = ()  # what an edit writes anew


@dataclass
class World:
    """One history being played.  ``units`` is the host's array."""

    session: Session
    units: list[Unit] = field(default_factory=list)
    snapshots: list[list[Unit]] = field(default_factory=list)
    asked: set[int] = field(default_factory=set)  # tags the agent ever marked
    counter: int = 0
    missing: bool = False  # the host sent raw since the last pass
    served: bool = False  # a pass of this session was ever served
    used: int = 0  # usage of the response to the last pass, and its time
    answered_ms: int = 0

    def act(self, act: Act) -> None:
        name, *values = act
        getattr(self, f"act_{name}")(*values)

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
        if self.units and self.served:
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
