"""Which message of the transcript each message of an answer is.

An answer may leave messages out, prefix their texts and take parts of them away; it may not add, repeat or
reorder any. So the tail of an answer is laid along the transcript from its end: whatever finds no place was
invented or sent twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from magiccontext.replay.facts import Facts

LEADING_TAGS = re.compile("(?:§\\d+§ ?)+")
INJECTED = re.compile("<system-reminder>.*?</system-reminder>|<!--.*?-->", re.DOTALL)
DROPPED = re.compile("\\[dropped §\\d+§\\]")


def places(raw: Sequence[Facts], sent: Sequence[Facts]) -> list[int | None]:
    """For each message of `sent` its index in `raw`, ascending; None where there is none left for it."""
    found: list[int | None] = []
    position = len(raw)
    for message in reversed(sent):
        at = next((i for i in range(position - 1, -1, -1) if _may_be(message, raw[i])), None)
        found.append(at)
        position = position if at is None else at
    return found[::-1]


def _may_be(sent: Facts, raw: Facts) -> bool:
    if sent is raw:
        return True
    if sent.role != raw.role:
        return False
    if sent.calls or sent.results:
        return set(sent.calls) <= set(raw.calls) and set(sent.results) <= set(raw.results)
    if sent.texts:
        return all(any(same_text(text, own) for own in raw.texts) for text in sent.texts)
    return sent.media <= raw.media and sent.prompt in raw.prompt


def same_text(sent: str, raw: str) -> bool:
    """Whether a text that was sent is this one: tags and hints may be added to it, injected notices may
    leave (reclaim-core section 6.1); what the agent gave back is a placeholder."""
    given, wanted = core(sent), core(raw)
    return given == wanted or DROPPED.fullmatch(sent) is not None or (bool(wanted) and holds(given, wanted))


def holds(given: str, wanted: str) -> bool:
    """Markers may stand before what was said, hints behind it."""
    return given.startswith(wanted) or given.endswith(wanted)


@lru_cache(maxsize=8192)
def core(text: str) -> str:
    """A text without tags in front of it and without what hosts inject."""
    return INJECTED.sub("", LEADING_TAGS.sub("", text, count=1)).strip()
