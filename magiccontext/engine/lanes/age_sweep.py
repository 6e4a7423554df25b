"""Age sweep: a result survives the first bust after it appears and goes on the next (reclaim-core 6.4)."""

from __future__ import annotations

from magiccontext.engine.draft import Draft
from magiccontext.engine.lanes.drops import DropBatch
from magiccontext.engine.lanes.eligibility import Eligibility
from magiccontext.engine.state import Tag, TagStatus, TagType

MIN_TOKENS = 250


def sweep(draft: Draft, batch: DropBatch, eligibility: Eligibility) -> list[Tag]:
    """Drop old tool results of some size.  The caller advances the watermark afterwards."""
    watermark = draft.vars.tool_reclaim_watermark
    dropped: list[Tag] = []
    for tag in list(draft.tags()):
        if tag.number > watermark:
            break
        if (
            tag.type is TagType.TOOL
            and tag.status is TagStatus.ACTIVE
            and (tag.tokens >= MIN_TOKENS or tag.tokens == 0)
            and not draft.is_queued(tag.number)
            and draft.on_path(tag.mid)
            and not eligibility.reason(tag)
        ):
            batch.apply(tag)
            dropped.append(tag)
    return dropped
