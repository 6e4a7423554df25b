"""Chunk text: the raw history as a few short lines (historian section 4, without expansions).

A *block* is a run of messages that one side wrote; it becomes one line:

    [4-9] A: commits: 1a2b3c4d the parser reads both forms / TC: read(src/parser.py)

A message is told by its text; only one without text is told by its tool calls (``TC:``).  Results are shown
with their calls and never by themselves, so a message that only carries results says nothing: it is *noise*,
and its ordinal goes to the block behind it, so that the blocks together cover every message.

The text is a function of the raw messages alone: a drop, a tag or a prefix changes nothing here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from magiccontext.engine.lanes.injection import strip_injected
from magiccontext.engine.tokens import TokenCounter
from magiccontext.engine.transcript import Kind, Parsed, Part, Role

MAX_HASHES = 5
CUT_LINE = "[truncated: this message is longer than the budget]"

# Argument that says what a call is about, best first, and where it is cut.  The two spellings of a file
# path count as one.
KEY_ARGUMENTS: tuple[tuple[str, int | None], ...] = (
    ("filePath", 60),
    ("file_path", 60),
    ("path", 60),
    ("pattern", 60),
    ("query", 60),
    ("symbol", None),
    ("module", None),
    ("action", None),
)

_HASH = re.compile(r"\b[0-9a-fA-F]{7,12}\b")
_HASH_AND_TICKS = re.compile(r"`?\b[0-9a-fA-F]{7,12}\b`?")
_COMMIT_VERB = re.compile(
    r"\b(?:commit(?:s|ted|ting)?|cherry-pick(?:s|ed|ing)?|merg(?:e|es|ed|ing)|rebas(?:e|es|ed|ing))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One raw message of the history."""

    ordinal: int
    mid: str
    parsed: Parsed


@dataclass(frozen=True, slots=True)
class Piece:
    """What one message contributes to its block."""

    ordinal: int
    text: str
    hashes: tuple[str, ...] = ()
    tool_only: bool = False


@dataclass(slots=True)
class Block:
    """Consecutive messages of one role.  ``covers`` lists their ordinals and those of noise before them."""

    letter: str
    pieces: list[Piece] = field(default_factory=list)
    covers: list[int] = field(default_factory=list)

    @property
    def tool_only(self) -> bool:
        return all(piece.tool_only for piece in self.pieces)

    def line(self, pieces: Sequence[Piece] | None = None) -> str:
        """The block as a line; with ``pieces``, only of these messages of it."""
        shown = self.pieces if pieces is None else pieces
        first, last = shown[0].ordinal, shown[-1].ordinal
        hashes = list(dict.fromkeys(h for piece in shown for h in piece.hashes))[:MAX_HASHES]
        commits = f" commits: {', '.join(hashes)}" if hashes else ""
        span = f"[{first}]" if first == last else f"[{first}-{last}]"
        text = " / ".join(piece.text for piece in shown if piece.text)
        return f"{span} {self.letter}:{commits}{' ' + text if text else ''}"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines that fit a budget.  ``through`` is the last ordinal they cover; 0 when there is none.

    ``has_more``: something was left out that has text; trailing noise does not count.
    """

    text: str = ""
    tokens: int = 0
    through: int = 0
    has_more: bool = False


def cut(text: str, limit: int | None) -> str:
    """``text``, its end replaced by ``…`` beyond ``limit`` characters."""
    return text if limit is None or len(text) <= limit else text[:limit] + "…"


def one_line(text: str) -> str:
    """Trimmed, every run of whitespace a single space."""
    return " ".join(text.split())


def call_arguments(part: Part) -> dict[str, object]:
    """The arguments of a tool call; empty when they are no object."""
    try:
        value = json.loads(part.arguments)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def key_argument(arguments: dict[str, object]) -> str:
    """The argument of :data:`KEY_ARGUMENTS` that says most, on one line; "" when there is none."""
    for name, limit in KEY_ARGUMENTS:
        value = arguments.get(name)
        if isinstance(value, str) and value.strip():
            return cut(one_line(value), limit)
    return ""


def call_summary(part: Part) -> str:
    """``TC: <description>``, else ``TC: tool(argument)``, else ``TC: tool``."""
    arguments = call_arguments(part)
    description = arguments.get("description")
    if isinstance(description, str) and description.strip():
        return f"TC: {one_line(description)}"
    argument = key_argument(arguments)
    return f"TC: {part.name}({argument})" if argument else f"TC: {part.name}"


def role_letter(role: Role) -> str:
    return role.value[0].upper()


def _tell(text: str) -> tuple[str, tuple[str, ...]]:
    """Assistant text without the commit hashes it reports, and those hashes."""
    hashes = tuple(found[0].lower() for found in _HASH.finditer(text))
    if hashes and _COMMIT_VERB.search(text):
        text = one_line(_HASH_AND_TICKS.sub("", text))
    return text, hashes


def narrate(entry: Entry) -> tuple[str, Piece] | None:
    """Role letter and piece of one message; None for noise."""
    parsed = entry.parsed
    texts = [part.text for part in parsed.parts if part.kind is Kind.TEXT and not part.ignored]
    if parsed.role is Role.USER:
        texts = [strip_injected(text) for text in texts]
    text = " / ".join(line for line in map(one_line, texts) if line)
    if text:
        hashes: tuple[str, ...] = ()
        if parsed.role is Role.ASSISTANT:
            text, hashes = _tell(text)
        return role_letter(parsed.role), Piece(entry.ordinal, text, hashes)
    calls = " / ".join(call_summary(part) for part in parsed.parts if part.kind is Kind.TOOL_CALL)
    if not calls:
        return None
    letter = role_letter(Role.ASSISTANT if parsed.role is Role.USER else parsed.role)
    return letter, Piece(entry.ordinal, calls, tool_only=True)


def blocks_of(entries: Iterable[Entry]) -> tuple[list[Block], list[int]]:
    """The blocks of messages in ordinal order, and the ordinals of noise behind the last of them."""
    blocks: list[Block] = []
    noise: list[int] = []
    for entry in entries:
        told = narrate(entry)
        if told is None:
            noise.append(entry.ordinal)
            continue
        letter, piece = told
        if not blocks or blocks[-1].letter != letter:
            blocks.append(Block(letter))
        blocks[-1].pieces.append(piece)
        blocks[-1].covers += [*noise, piece.ordinal]
        noise = []
    return blocks, noise


def chunk(entries: Iterable[Entry], budget: int, count: TokenCounter) -> Chunk:
    """The lines of ``entries`` that fit ``budget`` local tokens; at least one message, if any has text.

    A block that does not fit is not begun.  Where that would leave nothing, the first block ends behind
    its last message that fits, and a single message over the budget is cut and says so.
    """
    blocks, trailing = blocks_of(entries)
    lines: list[str] = []
    tokens = 0
    for index, block in enumerate(blocks):
        line = block.line()
        size = count([line])[0] + 1
        if tokens + size > budget:
            if lines:
                return Chunk("\n".join(lines), tokens, blocks[index - 1].covers[-1], has_more=True)
            return _opening(block, budget, count, more=index + 1 < len(blocks))
        lines.append(line)
        tokens += size
    if not lines:
        return Chunk(through=trailing[-1] if trailing else 0)
    return Chunk("\n".join(lines), tokens, trailing[-1] if trailing else blocks[-1].covers[-1])


def _opening(block: Block, budget: int, count: TokenCounter, *, more: bool) -> Chunk:
    """The front of a block that is larger than the whole budget."""

    def size(shown: int) -> int:
        return count([block.line(block.pieces[:shown])])[0] + 1

    fitting = longest(len(block.pieces), lambda shown: size(shown) <= budget)
    if fitting:
        shown = block.pieces[:fitting]
        return Chunk(block.line(shown), size(fitting), shown[-1].ordinal, has_more=True)
    room = max(1, budget - count([CUT_LINE])[0] - 1)
    text = f"{fit(block.line(block.pieces[:1]), room, count)}\n{CUT_LINE}"
    left = more or len(block.pieces) > 1
    return Chunk(text, count([text])[0], block.pieces[0].ordinal, has_more=left)


def longest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to ``most`` for which ``fits`` holds, given that it holds for all below; 0 for
    none."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def fit(text: str, budget: int, count: TokenCounter) -> str:
    """The longest front of ``text`` that has at most ``budget`` tokens."""
    return text[: longest(len(text), lambda length: count([text[:length]])[0] <= budget)]
