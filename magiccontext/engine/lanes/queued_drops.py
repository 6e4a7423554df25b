"""The agent's queued drops: every rebuild lands what may land (reclaim-core sections 2.1, 3, 5.4)."""

from __future__ import annotations

from dataclasses import dataclass

from magiccontext.engine.draft import Draft
from magiccontext.engine.lanes.drops import DropBatch
from magiccontext.engine.lanes.eligibility import Eligibility
from magiccontext.engine.state import DropMode, Tag, TagStatus, TagType


@dataclass(frozen=True, slots=True)
class Drained:
    """What the drain did: tags newly dropped with a byte change, and their local tokens."""

    dropped: tuple[int, ...]
    tokens: int


def drain(draft: Draft, batch: DropBatch, eligibility: Eligibility) -> Drained:
    """Apply queued drops in order.  Held ones stay queued, settled ones leave the queue."""
    dropped: list[int] = []
    tokens = 0
    for op in draft.queue():
        tag = draft.tag(op.number)
        if tag is None or tag.status is not TagStatus.ACTIVE or tag.inert:
            draft.ops_removed.add(op.number)
            continue
        if not draft.on_path(tag.mid) and not (tag.result_mid and draft.on_path(tag.result_mid)):
            draft.drop_tag(tag, DropMode.FULL)
            draft.ops_removed.add(op.number)
            continue
        if eligibility.reason(tag):
            continue
        mode = batch.apply(tag)
        draft.ops_removed.add(op.number)
        dropped.append(tag.number)
        tokens += reclaimed_tokens(tag, mode)
    return Drained(tuple(dropped), tokens)


def removable_tokens(draft: Draft, batch: DropBatch, eligibility: Eligibility) -> int:
    """Local tokens that :func:`drain` would remove now.  Changes nothing."""
    total = 0
    for op in draft.queue():
        tag = draft.tag(op.number)
        if tag is None or tag.status is not TagStatus.ACTIVE or tag.inert or eligibility.reason(tag):
            continue
        if draft.on_path(tag.mid) or (tag.result_mid and draft.on_path(tag.result_mid)):
            total += reclaimed_tokens(tag, batch.mode(tag))
    return total


def reclaimed_tokens(tag: Tag, mode: DropMode) -> int:
    """Local tokens that leave with ``tag``: a skeleton keeps its arguments."""
    if tag.type is TagType.TOOL and mode.is_skeleton:
        return tag.token_count
    return tag.tokens
