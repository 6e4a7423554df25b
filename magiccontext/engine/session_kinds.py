"""Which lanes a session has, by its kind (reclaim-core section 5.5).

A primary session is one a person works in, a subagent one that another agent started.  With compaction off
a session of either kind keeps its array as the host sent it; only additive blocks remain.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from magiccontext.engine.permission import SessionKind


class When(StrEnum):
    """When a lane runs."""

    NO = "no"
    YES = "yes"
    IF_CALLABLE = "if ctx_reduce is callable"
    SIGNALS = "signals of 5.2 and the queue exception"
    EVERY_EXECUTE = "every execute pass, force and flush"
    EVERY_REBUILD = "every rebuild"
    EPISODE = "once per episode, later when paid"
    FORCE_BAND = "from the force band"
    IN_HEADS = "in m[0] and m[1]"
    ADDITIVE = "additive only"


class Lane(StrEnum):
    TAGS = "tags, prefixes, ctx_reduce"
    PERMISSION = "permission source"
    QUEUED_DROPS = "queued drops"
    ROUTINE = "dedup, supersession, injection strip"
    REASONING = "reasoning clearing"
    AGE_SWEEP = "age sweep"
    EMERGENCY = "tiered emergency tool drop"
    REFUSAL = "refusal of a request proven over the window"
    HISTORY = "historian, summaries, folds, force materialization, recovery latch"
    KNOWLEDGE = "memories, docs, profile"
    PRIMARY_HINTS = "caveman, auto-search, note nudges"
    HINTS = "ctx_reduce nudges, time markers"


class Row(NamedTuple):
    primary: When
    subagent: When
    compaction_off: When


LANES: dict[Lane, Row] = {
    Lane.TAGS: Row(When.IF_CALLABLE, When.IF_CALLABLE, When.NO),
    Lane.PERMISSION: Row(When.SIGNALS, When.EVERY_EXECUTE, When.NO),
    Lane.QUEUED_DROPS: Row(When.EVERY_REBUILD, When.EVERY_REBUILD, When.NO),
    Lane.ROUTINE: Row(When.EPISODE, When.EVERY_REBUILD, When.NO),
    Lane.REASONING: Row(When.EPISODE, When.EVERY_REBUILD, When.NO),
    Lane.AGE_SWEEP: Row(When.EVERY_REBUILD, When.EVERY_REBUILD, When.NO),
    Lane.EMERGENCY: Row(When.FORCE_BAND, When.FORCE_BAND, When.NO),
    Lane.REFUSAL: Row(When.YES, When.YES, When.NO),
    Lane.HISTORY: Row(When.YES, When.NO, When.NO),
    # Here a subagent without compaction gets what one with compaction does not (history-render section 6).
    Lane.KNOWLEDGE: Row(When.IN_HEADS, When.NO, When.ADDITIVE),
    Lane.PRIMARY_HINTS: Row(When.YES, When.NO, When.NO),
    Lane.HINTS: Row(When.YES, When.YES, When.NO),
}


def lane_runs(lane: Lane, kind: SessionKind, *, compaction_off: bool = False) -> When:
    """When a lane runs in a session of this kind."""
    row = LANES[lane]
    if compaction_off:
        return row.compaction_off
    return row.primary if kind is SessionKind.PRIMARY else row.subagent
