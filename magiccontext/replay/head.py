"""Reading the head of an answer: the two messages that stand before the conversation.

Recognised by its place and its form, and only there: m[0] and m[1] are the first two messages, each of one
text. What else looks like a head is either the user's own words or an invention, and is judged as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from magiccontext.replay.compartments import Prepared
from magiccontext.replay.facts import Facts

HISTORY = re.compile(r"(?:\A|\n)<session-history>(?:\n(.*)\n)?</session-history>(?:\n|\Z)", re.DOTALL)
SINCE = re.compile(r"\A<session-history-since>(.*)</session-history-since>\Z", re.DOTALL)
NEW = re.compile(r"\n<new-compartments>\n(.*)\n</new-compartments>\n", re.DOTALL)
HEADING = re.compile(r"^## (\d+)-(\d+) · (.*)$", re.MULTILINE)
DATES = re.compile(r"\d{4}-\d\d-\d\d(?:→(?:\d{4}-\d\d-)?\d\d)? · ")
FORGED = re.compile(r"(?:\A|(?<=[\n\r\u2028\u2029]))## ")


@dataclass(frozen=True, slots=True)
class Row:
    """A compartment as it is shown: its range, the rest of its heading, the text below it."""

    start: int
    end: int
    heading: str
    text: str

    def says(self, prepared: Prepared, tiers: Sequence[str | None]) -> bool:
        """Whether it is `prepared`, at one of these tiers."""
        title = self.heading if self.heading == escaped(prepared.title) else DATES.sub("", self.heading, 1)
        bodies = {FORGED.sub(" ## ", escaped(text.strip())) for text in tiers if text is not None}
        return title == escaped(prepared.title) and self.text in bodies


@dataclass(frozen=True, slots=True)
class Head:
    """The texts of m[0] and m[1], and the compartments each of them shows, in order."""

    m0: str
    m1: str
    baseline: tuple[Row, ...]
    news: tuple[Row, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        return self.baseline + self.news


def read_head(messages: Sequence[Facts]) -> Head | None:
    """The head of an answered array, None when it does not start with one (history-render sections 1, 2)."""
    if len(messages) < 2 or not all(_is_plain(message) for message in messages[:2]):
        return None
    m0, m1 = messages[0].texts[0], messages[1].texts[0]
    history, since = HISTORY.search(m0), SINCE.match(m1)
    if history is None or since is None:
        return None
    news = NEW.search(since.group(1))
    return Head(
        m0, m1, tuple(_rows(history.group(1) or "")), tuple(_rows(news.group(1) if news is not None else ""))
    )


def _is_plain(message: Facts) -> bool:
    return message.role == "user" and len(message.texts) == 1 and message.prompt == message.texts[0]


def _rows(body: str) -> Iterator[Row]:
    """A text cannot begin a line with a heading of its own, so every heading is one (section 8)."""
    found = list(HEADING.finditer(body))
    ends = (*(heading.start() for heading in found), len(body))
    for heading, end in zip(found, ends[1:], strict=True):
        yield Row(
            int(heading.group(1)),
            int(heading.group(2)),
            heading.group(3),
            body[heading.end() : end].strip(),
        )


def escaped(text: str) -> str:
    """Content escapes of history-render."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
