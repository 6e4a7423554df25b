"""Compartments made from the transcript itself, without a model: `--compartments auto`.

This is no historian. It knows no importance, finds no facts and understands nothing: it keeps the first line
of what was said and counts the tools that were called. It is good for one thing, to let anybody see what a
published history does to prompts and cost; what a summary is worth to the model is not measured by it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from magiccontext.replay.compartments import Prepared, Publication, legal_ends
from magiccontext.replay.facts import Facts, facts_of
from magiccontext.replay.transcript import Transcript, decode

GROUP = 20
"""Messages in a compartment, at least."""
RAW_TAIL = 30
"""Newest messages that are left as they are."""
LINE = 200
SHORT_LINE = 80
INVISIBLE = re.compile(r"<system-reminder>.*?</system-reminder>|<!--.*?-->", re.DOTALL)
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def prepare(transcript: Transcript) -> list[Publication]:
    """A publication before every call by which another group is complete; none for a subagent's recording.

    The same transcript gives the same compartments. None ends between a call and its result.
    """
    if transcript.subagent:
        return []
    facts = [facts_of(raw) for raw in transcript.messages]
    publications = []
    start = 1
    for before, call in zip(transcript.calls, transcript.calls[1:], strict=False):
        oldest_raw = before.messages - RAW_TAIL
        rows = []
        while end := next(iter(legal_ends(facts, start + GROUP - 1, oldest_raw)), 0):
            rows.append(_compartment(transcript, facts, start, end))
            start = end + 1
        if rows:
            publications.append(Publication(call.index, tuple(rows)))
    return publications


def _compartment(transcript: Transcript, facts: Sequence[Facts], start: int, end: int) -> Prepared:
    group = range(start - 1, end)
    said = [
        ("U" if facts[at].role == "user" else "A", line) for at in group for line in _first_lines(facts[at])
    ]
    tools = Counter(name for at in group for name in _tools(transcript.messages[at]))
    called = "; ".join(f"{name} x{count}" for name, count in tools.items())
    users = [line for speaker, line in said if speaker == "U"]
    spoken = users + [line for speaker, line in said if speaker == "A"]
    title = spoken[0][:SHORT_LINE].strip() if spoken else f"Messages {start} to {end}"
    first = [f"{speaker}: {line}" for speaker, line in said] + ([f"Tools: {called}"] if called else [])
    second = [f"{speaker}: {line[:SHORT_LINE]}" for speaker, line in said]
    third = [f"U: {line[:SHORT_LINE]}" for line in users]
    return Prepared(
        start,
        end,
        title,
        p1="\n".join(first) or title,
        p2="\n".join(second) or title,
        p3="\n".join(third) or title,
        p4="",
    )


def _first_lines(message: Facts) -> Iterator[str]:
    """The first line of every text that says something, without what hosts inject."""
    for text in message.texts:
        lines = (CONTROL.sub(" ", line).strip() for line in INVISIBLE.sub("", text).splitlines())
        line = next((line for line in lines if line), "")
        if line:
            yield line[:LINE].strip()


def _tools(raw: bytes) -> Iterator[str]:
    content = decode(raw).get("content")
    for block in content if isinstance(content, list) else []:
        if block.get("type") == "tool_use":
            yield CONTROL.sub(" ", str(block.get("name", "")))
