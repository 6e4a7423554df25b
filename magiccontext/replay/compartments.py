"""Prepared compartments: summaries that a replay publishes at given calls, in place of a historian.

A file of them is a JSON list of publications, `{"at_call": 60, "compartments": [{"start": 1, "end": 40,
"title": …, "p1": …, "p2": …, "p3": …, "p4": …, "importance": 50}]}`. Ordinals count the transcript's messages
from 1. `at_call` counts calls from 0, as the table and `--json` do: the publication is made before that call,
so it can cover what the call before it sent, and nothing newer.

The file is held against its transcript before anything is played. What it says is stricter than the API:
a gap between two compartments would lose messages, and a compartment without `p1` is a legacy one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from magiccontext.replay.facts import Facts, facts_of
from magiccontext.replay.transcript import Transcript

TIERS = ("p1", "p2", "p3", "p4")
FIELDS = frozenset({"start", "end", "title", "importance", *TIERS})
DEFAULT_IMPORTANCE = 50
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class CompartmentsError(ValueError):
    """The prepared compartments do not fit; the text names the entry."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """One compartment: inclusive ordinals, a title of one line, tier texts (None: never written)."""

    start: int
    end: int
    title: str
    p1: str
    p2: str | None = None
    p3: str | None = None
    p4: str | None = None
    importance: int = DEFAULT_IMPORTANCE

    @property
    def tiers(self) -> tuple[str | None, ...]:
        return self.p1, self.p2, self.p3, self.p4

    def as_json(self) -> dict[str, Any]:
        """The draft as the admin API takes it; tiers that were never written are left out."""
        tiers = {name: text for name, text in zip(TIERS, self.tiers, strict=True) if text is not None}
        return {
            "start": self.start,
            "end": self.end,
            "title": self.title,
            "importance": self.importance,
            **tiers,
        }


@dataclass(frozen=True, slots=True)
class Publication:
    """What is published before call `at_call`, in order."""

    at_call: int
    compartments: tuple[Prepared, ...]


def load(path: Path, transcript: Transcript) -> list[Publication]:
    """Read a file of publications for `transcript`.

    Raises CompartmentsError naming the entry at fault (`entry 2, compartment 1: …`), OSError.
    """
    try:
        entries = json.loads(path.read_bytes())
    except ValueError as error:
        raise CompartmentsError(f"no JSON: {error}") from None
    if not isinstance(entries, list):
        raise CompartmentsError("a list of publications is expected")
    publications = [_publication(entry, f"entry {number}") for number, entry in enumerate(entries, 1)]
    check(publications, transcript)
    return publications


def check(publications: Sequence[Publication], transcript: Transcript) -> None:
    """Raise CompartmentsError for what does not fit the transcript, before anything is played."""
    if publications and transcript.subagent:
        raise CompartmentsError("the recording is a subagent's, and a subagent has no history to summarise")
    facts = [facts_of(raw) for raw in transcript.messages]
    last_call, last_end = 0, 0
    for number, publication in enumerate(publications, 1):
        at = publication.at_call
        if not 0 < at < len(transcript.calls):
            raise CompartmentsError(
                f"entry {number}: at_call {at} is outside of the calls 1 to {len(transcript.calls) - 1}"
            )
        if at <= last_call:
            raise CompartmentsError(f"entry {number}: at_call {at} does not follow {last_call}")
        last_call = at
        known = transcript.calls[at - 1].messages
        for index, row in enumerate(publication.compartments, 1):
            name = f"entry {number}, compartment {index}"
            if row.start != last_end + 1:
                raise CompartmentsError(
                    f"{name}: starts at {row.start}; what was covered before ends at {last_end}"
                )
            if row.end < row.start:
                raise CompartmentsError(f"{name}: ends at {row.end}, before its start")
            if row.end > known:
                raise CompartmentsError(f"{name}: ends at {row.end}; by call {at} only {known} were sent")
            if row.end not in legal_ends(facts[:known], row.start, row.end):
                raise CompartmentsError(f"{name}: ends at {row.end}, between a tool call and its result")
            last_end = row.end


def legal_ends(facts: Sequence[Facts], start: int, end: int) -> list[int]:
    """The ordinals from `start` to `end` at which no call is waiting for its result."""
    waiting: set[str] = set()
    ends = []
    for ordinal, message in enumerate(facts[: max(end, 0)], 1):
        waiting -= set(message.results)
        waiting |= set(message.calls)
        if ordinal >= start and not waiting:
            ends.append(ordinal)
    return ends


def _publication(entry: Any, name: str) -> Publication:
    if not isinstance(entry, dict) or set(entry) != {"at_call", "compartments"}:
        raise CompartmentsError(f"{name}: an object with at_call and compartments is expected")
    rows = entry["compartments"]
    if not isinstance(rows, list) or not rows:
        raise CompartmentsError(f"{name}: compartments is a list with at least one")
    return Publication(
        _whole(entry, "at_call", name),
        tuple(_prepared(row, f"{name}, compartment {number}") for number, row in enumerate(rows, 1)),
    )


def _prepared(row: Any, name: str) -> Prepared:
    if not isinstance(row, dict):
        raise CompartmentsError(f"{name}: an object is expected")
    if unknown := sorted(set(row) - FIELDS):
        raise CompartmentsError(f"{name}: unknown {', '.join(unknown)}")
    title = row.get("title")
    if not isinstance(title, str) or not title.strip() or title != title.strip() or CONTROL.search(title):
        raise CompartmentsError(f"{name}: title is one line of text")
    texts = {tier: row.get(tier) for tier in TIERS}
    if wrong := [tier for tier, text in texts.items() if text is not None and not isinstance(text, str)]:
        raise CompartmentsError(f"{name}: {wrong[0]} is text")
    first = texts.pop("p1")
    if not first or not first.strip():
        raise CompartmentsError(f"{name}: p1 is missing")
    importance = _whole({"importance": DEFAULT_IMPORTANCE, **row}, "importance", name)
    if not 1 <= importance <= 100:
        raise CompartmentsError(f"{name}: importance is 1 to 100")
    return Prepared(
        _whole(row, "start", name), _whole(row, "end", name), title, first, importance=importance, **texts
    )


def _whole(row: dict[str, Any], field: str, name: str) -> int:
    value = row.get(field)
    if not isinstance(value, int) or isinstance(value, bool):
        raise CompartmentsError(f"{name}: {field} is a whole number")
    return value
