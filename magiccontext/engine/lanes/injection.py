"""Injection strip: text that a host or plugin put into old messages (reclaim-core section 6.1).

What remains replaces the stored source of the tag, so a replay equals it; a tag with nothing left is
dropped.  A reminder that wraps what a person typed in the middle of a turn is the person's, and stays.
"""

from __future__ import annotations

import re
from dataclasses import replace

from magiccontext.engine.draft import Draft
from magiccontext.engine.lanes.drops import DropBatch
from magiccontext.engine.lanes.eligibility import Eligibility
from magiccontext.engine.lanes.protection import in_window
from magiccontext.engine.state import Tag, TagStatus, TagType
from magiccontext.engine.transcript import Role

REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
PERSON_WRAPPER = re.compile(r"user sent (?:the following|a new) message", re.IGNORECASE)

MARKERS: tuple[str, ...] = (
    "<!-- OMO_INTERNAL_INITIATOR -->",
    "[SYSTEM DIRECTIVE: MAGIC-CONTEXT",
    "[SYSTEM DIRECTIVE: OH-MY-OPENCODE",
    "[Category+Skill Reminder]",
    "[EDIT ERROR - IMMEDIATE ACTION REQUIRED]",
    "[task CALL FAILED - IMMEDIATE RETRY REQUIRED]",
    "[EMERGENCY CONTEXT WINDOW WARNING]",
    "Unstable background agent appears idle",
    "**THE SUBAGENT JUST CLAIMED THIS TASK IS DONE.",
)
"""Starts of injected text.  The comment marker goes alone; any other counts at the start of a line and
takes the rest of its paragraph, so that a person who quotes one in a sentence keeps the sentence."""

ALONE = MARKERS[0]
PARAGRAPHS = tuple(
    (marker, re.compile(rf"^{re.escape(marker)}.*?(?:\n\n|\Z)", re.DOTALL | re.MULTILINE))
    for marker in MARKERS[1:]
)


def strip_injected(text: str) -> str:
    """``text`` without injected parts; equal to ``text`` when it has none."""
    kept = REMINDER.sub(lambda m: m.group() if PERSON_WRAPPER.search(m.group()) else "", text)
    kept = kept.replace(ALONE, "")
    for marker, paragraph in PARAGRAPHS:
        if marker in kept:
            kept = paragraph.sub("", kept)
    return text if kept == text else kept.strip()


def strip_injections(draft: Draft, batch: DropBatch, eligibility: Eligibility) -> list[Tag]:
    """Strip active text tags below the protection cutoff.  Returns the tags whose bytes change.

    The session's first user message is exempt: hosts put their standing instructions there in the same
    wrapper, and nothing repeats them later.
    """
    changed: list[Tag] = []
    first = next((m.mid for m in draft.path if m.role is Role.USER), "")
    for tag in list(draft.tags()):
        if in_window(tag.number, eligibility.cutoff):
            break
        if (
            tag.type is not TagType.MESSAGE
            or tag.status is not TagStatus.ACTIVE
            or not draft.on_path(tag.mid)
        ):
            continue
        if tag.mid == first:
            continue
        source = tag.source
        if source is None:
            part = draft.part(tag.mid, tag.part)
            source = part.text if part is not None else ""
        rest = strip_injected(source)
        if rest == source:
            continue
        if rest:
            draft.change_tag(replace(tag, source=rest))
        else:
            batch.apply(tag)
        changed.append(tag)
    return changed
