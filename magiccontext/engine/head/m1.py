"""The bytes of m[1]: what happened since m[0] was made (history-render section 2).

Everything is decided against the markers stored with m[0], expiry included, so rendering the same news twice
gives the same bytes.  Four blocks: corrections of memories that m[0] shows, compartments newer than its
own, memories it could not show yet, and the profile when it changed.

Corrections come from an append-only log.  Rows of one memory are merged first; a merged target either says
nothing, or one line, or calls for a memory that m[0] lacks: a *forced* one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from magiccontext.engine.head import budgets, escapes, history, m0, selection
from magiccontext.engine.head.model import (
    VISIBILITY_CATEGORY,
    HeadSource,
    Markers,
    Memory,
    MutationRow,
    MutationType,
)
from magiccontext.engine.tokens import TokenCounter

TAG = "session-history-since"
PLACEHOLDER = f"<{TAG}>(no new content since last materialization)</{TAG}>"
UPDATES_INTRO = "These memories changed since the snapshot below — trust these:"
MAX_HOPS = 8
MAX_FORCED = 10

TERMINAL = frozenset({MutationType.ARCHIVE, MutationType.DELETE, MutationType.SUPERSEDED})
_ENTRIES = ('  <updated id="', '  <superseded id="', '  <removed id="')


@dataclass(slots=True)
class Merged:
    """What the log's rows say of one target together.  ``order`` is the id of the row that decides."""

    target: int
    order: int = 0
    terminal: MutationRow | None = None
    content: str | None = None
    category: str | None = None
    visibility: bool = False

    def add(self, row: MutationRow) -> None:
        """Take in the next row of the log: ending beats updating, later beats earlier."""
        by_visibility = row.category == VISIBILITY_CATEGORY
        self.visibility = self.visibility or by_visibility
        if row.type in TERMINAL:
            self.terminal, self.order = row, row.id
            return
        if row.new_content is not None:
            self.content = row.new_content
        if row.category is not None and not by_visibility:
            self.category = row.category
        says_something = row.new_content is not None or not by_visibility
        if self.terminal is None and (says_something or not self.changes):
            self.order = row.id

    @property
    def changes(self) -> bool:
        """Whether an update says anything that has bytes."""
        return self.content is not None or self.category is not None


def merged(rows: Iterable[MutationRow]) -> dict[int, Merged]:
    """Log rows merged per target."""
    targets: dict[int, Merged] = {}
    for row in sorted(rows, key=lambda row: row.id):
        targets.setdefault(row.target_id, Merged(row.target_id)).add(row)
    return targets


def replacement(target: int, log: Mapping[int, Merged], pool: Mapping[int, Memory]) -> int | None:
    """The end of the chain of supersessions that starts at ``target``.

    None for a cycle and for a chain of more than :data:`MAX_HOPS`.  Links in the middle need not be
    visible; whether the end is, the caller asks.
    """
    seen = {target}
    current = target
    while (successor := _successor(current, log, pool)) is not None:
        if successor in seen or len(seen) > MAX_HOPS:
            return None
        seen.add(successor)
        current = successor
    return current


def _successor(memory_id: int, log: Mapping[int, Merged], pool: Mapping[int, Memory]) -> int | None:
    entry = log.get(memory_id)
    if entry is not None and entry.terminal is not None:
        return entry.terminal.superseded_by if entry.terminal.type == MutationType.SUPERSEDED else None
    known = pool.get(memory_id)
    # A memory brought back to life keeps the note of what once replaced it; it no longer means anything.
    return known.superseded_by if known is not None and known.status not in selection.LIVE else None


class Updates(NamedTuple):
    """Lines of the updates block in log order, and memories that must be shown although m[0] lacks them."""

    lines: list[str]
    forced: list[int]


def _updated(entry: Merged, current: Memory) -> str:
    category = f' category="{escapes.attr(entry.category)}"' if entry.category is not None else ""
    text = current.content if entry.content is None else entry.content
    return f'  <updated id="{entry.target}"{category}>{escapes.entry(text)}</updated>'


def updates(
    source: HeadSource, since: Markers, m0_ids: frozenset[int], shown: Mapping[int, Memory]
) -> Updates:
    """What the log says about m[0]; ``shown`` are the memories that may be shown now, by id."""
    around = selection.identities(source)
    log = merged(
        row for row in source.mutations if row.id > since.memory_mutation_id and row.project in around
    )
    pool = {memory.id: memory for memory in source.memories}
    lines: list[str] = []
    forced: set[int] = set()
    for entry in sorted(log.values(), key=lambda entry: entry.order):
        in_m0 = entry.target in m0_ids
        if not in_m0 and not entry.visibility:
            continue
        removed = f'  <removed id="{entry.target}"/>'
        line = ""
        wanted: int | None = None
        if entry.terminal is not None:
            line = removed
            if entry.terminal.type == MutationType.SUPERSEDED:
                end = replacement(entry.target, log, pool)
                if end is not None and end != entry.target and end in shown:
                    line = f'  <superseded id="{entry.target}" by="{end}"/>'
                    wanted = end
        elif entry.target not in shown:
            line = removed
        elif not in_m0:
            wanted = entry.target
        elif entry.changes:
            line = _updated(entry, shown[entry.target])
        if in_m0 and line:
            lines.append(line)
        if wanted is not None and wanted not in m0_ids:
            forced.add(wanted)
    return Updates(lines, sorted(forced)[:MAX_FORCED])


def update_entries(text: str) -> int:
    """How many update lines an m[1] holds.  Foreign text is escaped, so it cannot look like one."""
    return sum(line.startswith(_ENTRIES) for line in text.split("\n"))


class Rendered(NamedTuple):
    """m[1], and the ids of the memories it shows, ascending."""

    text: str
    memory_ids: tuple[int, ...]


def _block(tag: str, body: str) -> str:
    return f"<{tag}>\n{body}\n</{tag}>" if body else ""


def _wrap(blocks: Iterable[str]) -> str:
    body = "\n".join(block for block in blocks if block)
    return _block(TAG, body) or PLACEHOLDER


def render(
    source: HeadSource, since: Markers, m0_ids: Iterable[int], allowed: budgets.Local, count: TokenCounter
) -> Rendered:
    """m[1] of ``source`` as seen from ``since``; ``m0_ids`` are the memories m[0] shows.

    Raises :class:`~magiccontext.engine.head.history.OverlappingRanges`.
    """
    compartments = ""
    if source.compaction_on:
        body = history.new_rows(
            source.compartments, since.max_compartment_seq, dated=source.temporal_awareness
        )
        compartments = _block("new-compartments", body)
    if not source.memory_enabled:
        return Rendered(_wrap([compartments]), ())

    shown = {memory.id: memory for memory in selection.eligible(source, since.materialized_ms)}
    in_m0 = frozenset(m0_ids)
    corrections = updates(source, since, in_m0, shown)
    forced = set(corrections.forced)
    added = (m for m in shown.values() if m.id > since.max_memory_id and m.id not in forced | in_m0)
    fresh = selection.select_memories(source, added, budgets.delta(allowed.memory), count)
    news = sorted([*fresh, *(shown[number] for number in forced)], key=lambda memory: memory.id)

    profile = ""
    if source.profile_version != since.profile_version:
        entries = selection.trim_profile(source.profile, budgets.delta(allowed.profile), count)
        profile = m0.profile(entries, "new-user-profile")

    intro = [UPDATES_INTRO] if corrections.lines else []
    text = _wrap(
        [
            _block("memory-updates", "\n".join([*intro, *corrections.lines])),
            compartments,
            m0.memories(news, m0.source_names(source.project, source.workspace), "new-memories"),
            profile,
        ]
    )
    return Rendered(text, tuple(memory.id for memory in news))
