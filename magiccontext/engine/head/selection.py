"""Which memories and profile entries are shown (history-render section 4, memory-search section 2).

First the question who may see a memory at all, answered by one predicate for the snapshot, the delta and
the watermark alike.  Then what fits: candidates are tried in order, and one that does not fit is skipped,
not the end.  What is summed is an upper bound of the real block, so a selection never exceeds its budget.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from magiccontext.engine.head import escapes, m0
from magiccontext.engine.head.model import HeadSource, Memory, MemoryStatus, ProfileEntry, Workspace
from magiccontext.engine.tokens import TokenCounter

DEFAULT_SHARED = ("CONSTRAINTS",)
LIVE = frozenset({MemoryStatus.ACTIVE, MemoryStatus.PERMANENT})
SCOPES = frozenset({"project", "ecosystem", "universe"})

WRAPPER = "<project-memory>\n</project-memory>"
PROFILE_LINE_OVERHEAD = 4


class Shared(NamedTuple):
    """The categories a workspace shares, sorted; ``valid`` is False when the stored text makes no sense."""

    categories: tuple[str, ...]
    valid: bool = True


def shared_categories(workspace: Workspace) -> Shared:
    """Read the stored share list: nothing stored shares constraints, anything malformed shares nothing."""
    if workspace.share_categories is None:
        return Shared(DEFAULT_SHARED)
    try:
        listed = json.loads(workspace.share_categories)
    except ValueError:
        return Shared((), valid=False)
    if listed is None:
        return Shared(DEFAULT_SHARED)
    if not isinstance(listed, list) or not all(name in m0.CATEGORIES for name in listed):
        return Shared((), valid=False)
    return Shared(tuple(sorted(set(listed))))


def is_workspaced(workspace: Workspace | None) -> bool:
    """Whether there is anybody to share with: at least two identities."""
    return workspace is not None and len({m.identity for m in workspace.members}) >= 2


def identities(source: HeadSource) -> frozenset[str]:
    """The project and, in a workspace, every member."""
    members = source.workspace.members if source.workspace else ()
    return frozenset({source.project, *(member.identity for member in members)})


def is_live(memory: Memory, cutoff_ms: int) -> bool:
    """Active or permanent and not expired at ``cutoff_ms``."""
    return memory.status in LIVE and (memory.expires_ms is None or memory.expires_ms > cutoff_ms)


def visibility(source: HeadSource, cutoff_ms: int) -> Callable[[Memory], bool]:
    """The predicate: live, and owned or shared with this project."""
    around = identities(source)
    shared = shared_categories(source.workspace).categories if source.workspace else ()

    def sees(memory: Memory) -> bool:
        if not is_live(memory, cutoff_ms):
            return False
        return memory.project == source.project or (
            memory.project in around
            and memory.shareable
            and memory.scope in SCOPES
            and memory.category in shared
        )

    return sees


def eligible(source: HeadSource, cutoff_ms: int) -> list[Memory]:
    """Every memory of the pool that may be shown, by id."""
    sees = visibility(source, cutoff_ms)
    return sorted((memory for memory in source.memories if sees(memory)), key=lambda memory: memory.id)


def preference(memory: Memory) -> tuple[bool, int, int, int]:
    """Sort key, best first: permanent, important, lately seen or verified, older id."""
    seen = max(memory.last_seen_ms or 0, memory.verified_ms or 0)
    importance = -1 if memory.importance is None else memory.importance
    return memory.status != MemoryStatus.PERMANENT, -importance, -seen, memory.id


class _Purse:
    """A budget being spent on memory lines; a category costs its tags once."""

    def __init__(
        self, candidates: Sequence[Memory], names: dict[str, str], budget: int, count: TokenCounter
    ) -> None:
        tags = {memory.category: f"<{escapes.attr(memory.category)}>" for memory in candidates}
        frames = [f"{tag}\n</{tag[1:]}\n" for tag in tags.values()]
        lines = [m0.memory_line(memory, names) + "\n" for memory in candidates]
        self.used, *counts = count([WRAPPER, *frames, *lines])
        self._frames = dict(zip(tags, counts, strict=False))
        self._lines = dict(zip((m.id for m in candidates), counts[len(frames) :], strict=True))
        self.budget = budget
        self.chosen: list[Memory] = []
        self._ids: set[int] = set()
        self._opened: set[str] = set()

    def spend(self, candidates: Iterable[Memory], allowance: float) -> None:
        """Take what fits into both the budget and ``allowance``, in the order given."""
        spent = 0
        for memory in candidates:
            if memory.id in self._ids:
                continue
            cost = self._lines[memory.id]
            if memory.category not in self._opened:
                cost += self._frames[memory.category]
            if self.used + cost <= self.budget and spent + cost <= allowance:
                self.used += cost
                spent += cost
                self.chosen.append(memory)
                self._ids.add(memory.id)
                self._opened.add(memory.category)


def member_floor(budget: int, used: int, members: int) -> float:
    """What every member of a workspace may spend before the rest is shared out."""
    return (budget - used) / members


def select_memories(
    source: HeadSource, candidates: Iterable[Memory], budget: int, count: TokenCounter
) -> list[Memory]:
    """The memories that fit into ``budget`` local tokens, by id.

    In a workspace permanents come first, then every member is given an equal share of what is left, then
    the remainder goes by preference.
    """
    ranked = sorted(candidates, key=preference)
    if not ranked:
        return []
    purse = _Purse(ranked, m0.source_names(source.project, source.workspace), budget, count)
    if source.workspace is not None and is_workspaced(source.workspace):
        permanent = [memory for memory in ranked if memory.status == MemoryStatus.PERMANENT]
        purse.spend(permanent, budget)
        floor = member_floor(budget, purse.used, len(source.workspace.members))
        for member in sorted(source.workspace.members, key=lambda m: (m.display_name, m.path)):
            own = (m for m in ranked if m.project == member.identity and m.status != MemoryStatus.PERMANENT)
            purse.spend(own, floor)
    purse.spend(ranked, budget)
    return sorted(purse.chosen, key=lambda memory: memory.id)


def trim_profile(entries: Iterable[ProfileEntry], budget: int, count: TokenCounter) -> list[ProfileEntry]:
    """The profile entries that fit into ``budget`` local tokens, in profile order."""
    ranked = m0.in_profile_order(entries)
    costs = count([f"- {entry.content}" for entry in ranked])
    chosen, used = [], 0
    for entry, tokens in zip(ranked, costs, strict=True):
        if used + tokens + PROFILE_LINE_OVERHEAD <= budget:
            used += tokens + PROFILE_LINE_OVERHEAD
            chosen.append(entry)
    return chosen
