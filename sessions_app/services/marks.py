"""Levels and reasons in the words and letters a person reads (dashboard-cli section 4.2; reclaim-core 5.1).

Colour is never alone: each state has a letter and a word beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Mark(NamedTuple):
    """How a state is shown.  ``tone`` names its colour in the style sheet."""

    letter: str
    word: str
    tone: str
    meaning: str


MARKS: dict[str, Mark] = {
    "defer": Mark("·", "defer", "defer", "nothing that was already sent changed"),
    "soft_plus": Mark("+", "SOFT+", "soft-plus", "new reductions in the conversation; the head stayed"),
    "soft": Mark("S", "SOFT", "soft", "m[1] was rendered anew"),
    "hard": Mark("H", "HARD", "hard", "m[0] was rendered anew"),
    "refusal": Mark("R", "refused", "fault", "the request must not be sent"),
    "fault": Mark("F", "fault", "fault", "the pass was thrown away"),
}

REASONS: dict[str, str] = {
    "cached_m1_missing": "Cache rebuild",
    "coverage_fold": "Coverage fold",
    "epoch_change": "Epoch change",
    "explicit_flush": "Manual flush",
    "first_render": "First render",
    "flush_request": "Flush request",
    "force_band": "Compaction pressure",
    "hold_release": "After signed thinking",
    "host_compaction": "Host compaction",
    "m1_delta": "M1 delta",
    "max_mutation_id": "History edit",
    "model_change": "Model change",
    "pressure_refold": "Compaction pressure",
    "profile_transition": "Profile transition",
    "project_memory_epoch": "Memory change",
    "queued_drops": "Reclaimed marked output",
    "subagent_execute": "Subagent reclaim",
    "system_hash": "System prompt change",
    "tool_list": "Tool list change",
    "ttl_expiry": "TTL expiry",
    "ttl_idle": "Idle cache refresh",
    "upgrade_state": "Session upgrade",
}


def in_words(reasons: Iterable[str]) -> str:
    """The reasons as a comma list; one without a label is shown as it is."""
    return ", ".join(dict.fromkeys(REASONS.get(reason, reason) for reason in reasons))
