"""Merging memories into one (memory-search.md section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from memory_app.models import Memory
from memory_app.models.memory import normalized_hash
from memory_app.services.effects import SOURCES, Actor
from memory_app.services.memories import Reach, Status, Type, checked_content, log, save_unique
from memory_app.services.projects import present, writing
from memory_app.services.refusals import Code, MemoryRefused


@dataclass(frozen=True, slots=True)
class Merged:
    """The row that stands for all of them now, and the ids of those it took the place of."""

    canonical: Memory
    superseded: list[int]


def merge(reach: Reach, ids: Iterable[int], content: str, *, actor: Actor, now: datetime) -> Merged:
    """Replace rows of one category by one with ``content``.

    A source that has that text already becomes the canonical row, else a new one is written.  It takes the
    sums of the counters and is permanent if any source was; the others are archived as superseded, each
    logged under its own project.  Raises ``bad_ids`` for fewer than two, ``not_found``, ``inactive``,
    ``mixed_categories``, and ``duplicate`` when the text stands in a row that is no source.
    """
    text = checked_content(content)
    with writing(reach.owner_id):
        sources = reach.locked(ids)
        if len(sources) < 2:
            raise MemoryRefused(Code.BAD_IDS, "needs at least two different ids", field="ids")
        inactive = tuple(source.pk for source in sources if not source.is_live())
        if inactive:
            named = ", ".join(map(str, inactive))
            raise MemoryRefused(Code.INACTIVE, f"not active: {named}", field="ids", ids=inactive)
        categories = sorted({source.category for source in sources})
        if len(categories) > 1:
            raise MemoryRefused(
                Code.MIXED_CATEGORIES,
                f"of different categories: {', '.join(categories)}; archive the redundant one instead",
                field="ids",
            )
        canonical, reworded = _canonical(reach, sources, text, actor, now)
        others = [source for source in sources if source.pk != canonical.pk]
        _inherit(canonical, sources, now)
        save_unique(canonical)
        for source in others:
            source.status = Status.ARCHIVED
            source.superseded_by = canonical.pk
            source.updated_at = now
            source.save()
            log(source, Type.SUPERSEDED, now, superseded_by=canonical.pk)
        if reworded:
            log(canonical, Type.UPDATE, now, new_content=canonical.content)
    return Merged(canonical, [source.pk for source in others])


def _canonical(
    reach: Reach, sources: list[Memory], text: str, actor: Actor, now: datetime
) -> tuple[Memory, bool]:
    """The row to keep, and whether its text changes."""
    digest = normalized_hash(text)
    for source in sources:
        if source.normalized_hash == digest:
            reworded = source.content != text
            if reworded:
                source.set_content(text)
                source.forget_judgements()
            return source, reworded
    project = present(sources[0].project if reach.project is None else reach.project)
    memory = Memory(
        project=project,
        category=sources[0].category,
        importance=max((s.importance for s in sources if s.importance is not None), default=50),
        source_type=SOURCES[actor],
        first_seen_at=min(source.first_seen_at for source in sources),
        created_at=now,
        seen_count=0,
    )
    memory.set_content(text)
    return memory, False


def _inherit(canonical: Memory, sources: list[Memory], now: datetime) -> None:
    canonical.seen_count = sum(source.seen_count for source in sources)
    canonical.retrieval_count = sum(source.retrieval_count for source in sources)
    earlier = {number for source in sources for number in source.merged_from}
    canonical.merged_from = sorted((earlier | {source.pk for source in sources}) - {canonical.pk})
    if any(source.status == Status.PERMANENT for source in sources):
        canonical.status = Status.PERMANENT
    seen = [source.last_seen_at for source in sources if source.last_seen_at is not None]
    canonical.last_seen_at = max(seen, default=now)
    canonical.updated_at = now
