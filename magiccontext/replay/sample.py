"""The demo's own session: an agent at work in this repository, made from the repository's files.

No recording is shipped. The session is generated: it reads real files, searches them, edits a line, runs the
tests it finds, and a person comes back to it over two hours, twice after the provider's cache has expired.
The same files give the same session; the little randomness there is comes from a generator of our own with
a fixed seed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from magiccontext.replay.assemble import Assembly, Block
from magiccontext.replay.transcript import Transcript, TranscriptError, encode

START_MS = 1_767_603_600_000
MODEL = "anthropic/claude-sonnet-4-5"
TURNS = 14
STEPS = 12
PAUSES_S = {5: 12 * 60, 10: 55 * 60}
"""Turns before which the person was away for longer than a cache lives, and for how long."""

PATTERNS = ("*.py", "*.md", "*.toml", "*.html", "*.ts")
SKIPPED = {"node_modules", "migrations", "build", "dist"}
LARGEST_FILE = 60_000
LINES_READ = 260
MATCHES_SHOWN = 40

SYSTEM = "You are a careful engineer. Read before you change, test after you did, say what you found."
TOOLS = (
    ("Read", "Read lines of a file.", {"file_path": "string", "offset": "integer", "limit": "integer"}),
    ("Grep", "Search the files for a regular expression.", {"pattern": "string", "path": "string"}),
    ("Glob", "List the files below a folder.", {"path": "string"}),
    (
        "Edit",
        "Replace text in a file.",
        {"file_path": "string", "old_string": "string", "new_string": "string"},
    ),
    ("Bash", "Run a command.", {"command": "string"}),
)

PROMPTS = (
    "Have a look at {path}. What does `{name}` do, who calls it, and is there a test for it?",
    "I want to change `{name}` in {path}. Find everything that depends on it first, then propose the change.",
    "Something is slow around {path}. Read it and its neighbours and tell me where the time can go.",
    "The name `{name}` in {path} is unclear to me. Rename it where that is safe and run the tests.",
    "Write down, for a newcomer, how {path} fits into the rest. Check against the code, do not guess.",
    "Review {path} as if it were a pull request. Start with what could lose data.",
    "Does {path} handle empty input? Show me the lines that decide it, and add what is missing.",
)

STEP_TEXTS = (
    "",
    "Let me read that first.",
    "Now the places that use it.",
    "",
    "That is not the whole story yet; I look at the next file.",
    "I will check this against the tests.",
)

NAMES = re.compile(r"^\s*(?:async )?(?:def|class) ([A-Za-z_]\w{3,})", re.MULTILINE)
TEST_NAMES = re.compile(r"^def (test_\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Source:
    """One file of the repository."""

    path: str
    text: str

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def names(self) -> list[str]:
        return NAMES.findall(self.text)


class Dice:
    """A linear congruential generator (the constants are Knuth's): the same rolls everywhere, for ever."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, bound: int) -> int:
        self._state = (self._state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
        return (self._state >> 33) % bound

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)


def sample_session(root: Path, turns: int = TURNS, steps: int = STEPS) -> Transcript:
    """The session made from the files below `root`. Raises TranscriptError when there are none to use."""
    sources = repository_files(root)
    if not sources:
        raise TranscriptError(f"no source files below {root.name or root}")
    return _Work(sources).session(turns, steps)


def repository_files(root: Path) -> list[Source]:
    """Text files of the repository in the order of their paths; generated and hidden folders are left out."""
    found = []
    for path in sorted({path for pattern in PATTERNS for path in root.rglob(pattern)}):
        parts = path.relative_to(root).parts
        if any(part in SKIPPED or part.startswith(".") for part in parts) or not path.is_file():
            continue
        if 0 < path.stat().st_size <= LARGEST_FILE:
            text = path.read_text(encoding="utf-8", errors="replace")
            found.append(Source("/".join(parts), text))
    return found


class _Work:
    """The agent's working day: a clock, the dice, and what it does next."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sources
        self.dice = Dice(20_260_105)
        self.assembly = Assembly(merge_user=True)
        self.clock = START_MS
        self.made = 0

    def session(self, turns: int, steps: int) -> Transcript:
        for turn in range(turns):
            self._turn(turn, steps)
        tools = [
            encode(
                {
                    "name": name,
                    "description": text,
                    "input_schema": {
                        "type": "object",
                        "properties": {field: {"type": kind} for field, kind in fields.items()},
                    },
                }
            )
            for name, text, fields in TOOLS
        ]
        return self.assembly.build(
            source_format="sample", session_id="sample", model=MODEL, system=encode(SYSTEM), tools=tools
        )

    def _wait(self, low_s: int, high_s: int) -> int:
        self.clock += self.dice.between(low_s * 1000, high_s * 1000)
        return self.clock

    def _source(self) -> Source:
        return self.sources[self.dice.below(len(self.sources))]

    def _name(self, source: Source) -> str:
        names = source.names
        return names[self.dice.below(len(names))] if names else Path(source.path).stem

    def _turn(self, turn: int, steps: int) -> None:
        subject = self._source()
        name = self._name(subject)
        self.clock += PAUSES_S.get(turn, 0) * 1000
        prompt = PROMPTS[turn % len(PROMPTS)].format(path=subject.path, name=name)
        self.assembly.said(prompt, self._wait(25, 150))
        read: list[str] = []
        for step in range(steps):
            # The work starts at the subject and wanders off.
            source = subject if step == 0 else self._source()
            self._step(step, source)
            read.append(source.path)
        shown = ", ".join(dict.fromkeys(read))
        answer = (
            f"`{name}` is defined in {subject.path}. I went through {shown}.\n\n"
            f"What matters: the callers rely on its current behaviour, so a change has to keep it; "
            f"the tests I ran cover the ordinary path. Nothing else depends on the detail you asked about."
        )
        self.assembly.answered([{"type": "text", "text": answer}], self._wait(6, 20), MODEL, None)

    def _step(self, step: int, source: Source) -> None:
        blocks: list[Block] = []
        text = STEP_TEXTS[(step + self.made) % len(STEP_TEXTS)]
        if text:
            blocks.append({"type": "text", "text": text})
        outcomes: list[tuple[str, str, bool]] = []
        for _ in range(2 if self.dice.below(4) == 0 else 1):
            name, arguments, output, failed = self._act(step, source)
            self.made += 1
            call_id = f"toolu_sample{self.made:05d}"
            blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": arguments})
            outcomes.append((call_id, output, failed))
            source = self._source()
        self.assembly.answered(blocks, self._wait(3, 14), MODEL, None)
        for call_id, output, failed in outcomes:
            block: Block = {"type": "tool_result", "tool_use_id": call_id, "content": output}
            if failed:
                block["is_error"] = True
            self.assembly.returned(call_id, block, self._wait(0, 4))

    def _act(self, step: int, source: Source) -> tuple[str, dict[str, object], str, bool]:
        """One tool call: its name, arguments, output, and whether it failed."""
        roll = 0 if step == 0 else self.dice.below(100)
        if roll < 45:
            return self._read(source)
        if roll < 68:
            return self._grep(source)
        if roll < 80:
            return self._edit(source)
        if roll < 93:
            return self._test()
        folder = source.path.rpartition("/")[0]
        listed = [f"{s.path}  {len(s.text)}" for s in self.sources if s.path.startswith(folder)]
        return "Glob", {"path": folder or "."}, "\n".join(listed), False

    def _read(self, source: Source) -> tuple[str, dict[str, object], str, bool]:
        lines = source.lines
        start = self.dice.below(max(1, len(lines) - LINES_READ)) if len(lines) > LINES_READ else 0
        shown = lines[start : start + LINES_READ]
        output = "\n".join(f"{start + number:6d}\t{line}" for number, line in enumerate(shown, 1))
        arguments: dict[str, object] = {"file_path": source.path}
        if start:
            arguments |= {"offset": start + 1, "limit": LINES_READ}
        return "Read", arguments, output, False

    def _grep(self, source: Source) -> tuple[str, dict[str, object], str, bool]:
        name = self._name(source)
        matches = [
            f"{other.path}:{number}:{line}"
            for other in self.sources
            for number, line in enumerate(other.lines, 1)
            if name in line
        ]
        more = [f"({len(matches) - MATCHES_SHOWN} more)"] if len(matches) > MATCHES_SHOWN else []
        output = "\n".join(matches[:MATCHES_SHOWN] + more) or "No match."
        return "Grep", {"pattern": name, "path": "."}, output, False

    def _edit(self, source: Source) -> tuple[str, dict[str, object], str, bool]:
        candidates = [line for line in source.lines if len(line.strip()) > 20]
        if not candidates:
            return "Edit", {"file_path": source.path}, f"{source.path}: nothing to replace", True
        old = candidates[self.dice.below(len(candidates))]
        indent = old[: len(old) - len(old.lstrip())]
        arguments: dict[str, object] = {
            "file_path": source.path,
            "old_string": old,
            "new_string": f"{indent}# checked: the caller passes a value here\n{old}",
        }
        return "Edit", arguments, f"{source.path}: 1 replacement made.", False

    def _test(self) -> tuple[str, dict[str, object], str, bool]:
        tests = [source for source in self.sources if TEST_NAMES.search(source.text)]
        self._wait(2, 25)
        if not tests:
            return "Bash", {"command": "pytest -q"}, "no tests ran", True
        source = tests[self.dice.below(len(tests))]
        names = TEST_NAMES.findall(source.text)
        failing = self.dice.below(len(names)) if self.dice.below(5) == 0 else None
        lines = [
            f"{source.path}::{name} {'FAILED' if number == failing else 'PASSED'}"
            for number, name in enumerate(names)
        ]
        if failing is not None:
            at = next(i for i, line in enumerate(source.lines) if f"def {names[failing]}" in line)
            lines += ["", *(f">   {line}" for line in source.lines[at : at + 12]), "E   AssertionError"]
        bad = int(failing is not None)
        lines.append(f"{len(names) - bad} passed, {bad} failed")
        return "Bash", {"command": f"pytest -v {source.path}"}, "\n".join(lines), bool(bad)
