"""Reading JSON with comments, and as much as possible of it when it is broken (config.md section 1).

Comments, trailing commas and a byte order mark are allowed. On a syntax error the parser notes the first
place, leaves out what it cannot read there and goes on, so that one slip does not lose a whole file.

Every value's place is kept, so that a later complaint about a value can name its line.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from magiccontext.config.problems import Place

KeyPath = tuple[str | int, ...]

# Member names a careless merge in some hosts would take for more than data (section 1, "unsafe keys").
UNSAFE_KEYS = frozenset({"__proto__", "constructor", "prototype"})
MAX_DEPTH = 100

_SPACE = re.compile(r"[ \t\r\n\ufeff]*")
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None}
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_TOKEN_END = re.compile(r"[\s,\]}]")


def string_end(text: str, start: int) -> int:
    """Index behind the string whose opening quote stands at `start`; strings never span lines.

    For an unterminated one, the index of the line's end (or of the text's).
    """
    at = start + 1
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 2
            continue
        if char == '"':
            return at + 1
        if char == "\n":
            return at
        at += 1
    return len(text)


def strip_comments(text: str) -> str:
    """The text with every comment blanked out; all other characters keep their line and column."""
    pieces: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == '"':
            end = string_end(text, at)
            pieces.append(text[at:end])
        elif text.startswith("//", at):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            pieces.append(" " * (end - at))
        elif text.startswith("/*", at):
            close = text.find("*/", at + 2)
            end = len(text) if close < 0 else close + 2
            pieces.append(re.sub(r"[^\n]", " ", text[at:end]))
        else:
            end = at + 1
            pieces.append(char)
        at = end
    return "".join(pieces)


@dataclass
class Parsed:
    """What a text held: `value` (an empty object when its root was none), and what was wrong.

    `places` maps the path of each value to where it stands. `error` is the first syntax error.
    `unsafe` names the removed unsafe keys as dotted paths. `root_is_object` is False for `[]`, `3` and so on.
    """

    value: dict[str, Any] = field(default_factory=dict)
    places: dict[KeyPath, Place] = field(default_factory=dict)
    error: tuple[Place, str] | None = None
    unsafe: list[tuple[Place, str]] = field(default_factory=list)
    root_is_object: bool = True


class _UnreadableError(Exception):
    """A value cannot be read; the reader's position is where that was noticed.

    `at_boundary`: whatever follows there belongs to the next member already.
    """

    def __init__(self, *, at_boundary: bool = False) -> None:
        super().__init__()
        self.at_boundary = at_boundary


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.parsed = Parsed()
        self._line_starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def place(self, index: int) -> Place:
        """1-based line and column of a character."""
        low, high = 0, len(self._line_starts)
        while high - low > 1:
            middle = (low + high) // 2
            if self._line_starts[middle] <= index:
                low = middle
            else:
                high = middle
        return Place(low + 1, index - self._line_starts[low] + 1)

    def complain(self, index: int, message: str) -> None:
        """Note a syntax error; the first one is the one reported."""
        if self.parsed.error is None:
            self.parsed.error = (self.place(min(index, len(self.text))), message)

    def skip_space(self) -> str:
        """Move to the next character that means something and return it; empty at the end."""
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.text[self.at : self.at + 1]

    def skip_to_boundary(self) -> None:
        """Move to the comma or closing bracket that ends the unreadable thing here, past nested ones."""
        depth = 0
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at = string_end(self.text, self.at)
                continue
            if char in "[{":
                depth += 1
            elif char in "]}":
                if depth == 0:
                    return
                depth -= 1
            elif char == "," and depth == 0:
                return
            self.at += 1

    def leave(self, error: _UnreadableError) -> None:
        """Go on behind something that could not be read."""
        if not error.at_boundary:
            self.skip_to_boundary()

    def value(self, path: KeyPath, depth: int) -> Any:
        """The value at the position. Raises _UnreadableError after a complaint."""
        char = self.skip_space()
        start = self.at
        self.parsed.places[path] = self.place(start)
        if char == "{":
            return self.object(path, depth + 1)
        if char == "[":
            return self.array(path, depth + 1)
        if char == '"':
            return self.string()
        number = _NUMBER.match(self.text, start)
        if number and self._ends_at(number.end()):
            self.at = number.end()
            return _number(number[0])
        word = _WORD.match(self.text, start)
        if word and word[0] in _LITERALS:
            self.at = word.end()
            return _LITERALS[word[0]]
        self.complain(start, "a value is missing or cannot be read")
        raise _UnreadableError

    def _ends_at(self, index: int) -> bool:
        return index >= len(self.text) or _TOKEN_END.match(self.text, index) is not None

    def string(self) -> str:
        """The string at the position. Raises _UnreadableError after a complaint."""
        start = self.at
        end = string_end(self.text, start)
        try:
            value = json.loads(self.text[start:end], strict=False)
        except ValueError as error:
            self.complain(start, "a string is not closed or holds a bad escape")
            self.at = end
            # An open string has swallowed the comma at the end of its line.
            raise _UnreadableError(at_boundary=self.text[end : end + 1] == "\n") from error
        self.at = end
        return str(value)

    def _guard_depth(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.complain(self.at, f"nested deeper than {MAX_DEPTH} levels")
            self.skip_to_boundary()
            raise _UnreadableError

    def _items(self, close: str) -> Iterator[None]:
        """Stop at each member of the object or array whose opening bracket was read; consume its end."""
        needs_comma = False
        while True:
            char = self.skip_space()
            if char == "":
                self.complain(self.at, f"the end of the file comes before `{close}`")
                return
            if char == close:
                self.at += 1
                return
            if char == ",":
                if not needs_comma:
                    self.complain(self.at, "a comma stands where a member is expected")
                needs_comma = False
                self.at += 1
                continue
            if char in "]}":
                self.complain(self.at, f"`{char}` stands where `{close}` is expected")
                self.at += 1
                return
            if needs_comma:
                self.complain(self.at, "a comma is missing before this")
            before = self.at
            yield
            needs_comma = True
            if self.at == before:
                # Nothing here could be read at all; without this step the loop would not end.
                self.at += 1

    def array(self, path: KeyPath, depth: int) -> list[Any]:
        """The array at the position; elements that cannot be read are left out."""
        self._guard_depth(depth)
        self.at += 1
        found: list[Any] = []
        for _ in self._items("]"):
            try:
                found.append(self.value((*path, len(found)), depth))
            except _UnreadableError as error:
                self.leave(error)
        return found

    def object(self, path: KeyPath, depth: int) -> dict[str, Any]:
        """The object at the position; members that cannot be read are left out."""
        self._guard_depth(depth)
        self.at += 1
        found: dict[str, Any] = {}
        for _ in self._items("}"):
            start = self.at
            try:
                key = self._key()
                value = self.value((*path, key), depth)
            except _UnreadableError as error:
                self.leave(error)
                continue
            if key in UNSAFE_KEYS:
                dotted = ".".join(str(step) for step in (*path, key))
                self.parsed.unsafe.append((self.place(start), dotted))
                continue
            found[key] = value
        return found

    def _key(self) -> str:
        if self.text[self.at] != '"':
            self.complain(self.at, "a member's name is expected, in double quotes")
            raise _UnreadableError
        key = self.string()
        if self.skip_space() != ":":
            self.complain(self.at, "a colon is expected after a member's name")
            raise _UnreadableError
        self.at += 1
        return key


def _number(text: str) -> int | float:
    # A literal longer than any real setting would be slow to turn into an integer, or refused.
    if len(text) < 20 and not any(char in text for char in ".eE"):
        return int(text)
    return float(text)


def parse(text: str) -> Parsed:
    """Read a JSONC text whose comments may still be in it. Never raises."""
    reader = _Reader(strip_comments(text))
    parsed = reader.parsed
    if reader.skip_space() == "":
        reader.complain(reader.at, "the file is empty")
        return parsed
    try:
        value = reader.value((), 0)
    except _UnreadableError:
        return parsed
    if reader.skip_space() != "":
        reader.complain(reader.at, "something follows the end of the object")
    if isinstance(value, dict):
        parsed.value = value
    else:
        parsed.root_is_object = False
    return parsed
