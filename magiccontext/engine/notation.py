"""The tag notation on the wire: prefixes and placeholders (reclaim-core sections 1.4 and 3).

A tagged text starts with ``§12§ ``; a dropped one is ``[dropped §12§]``.  Models imitate the notation, and
hosts store what models write, so a text may arrive with notation that nobody here put there.  Two rules:

* Before a prefix is added, notation *in front* is taken off; a text never carries two prefixes.  What
  follows is content and stays, bare digits included: ``§3.5`` is a paragraph number, not a tag.
* Assistant text that is *saved* is cleaned throughout, because there the notation never means anything.

Digits are ASCII digits.  Everything here is a function of the text alone.
"""

from __future__ import annotations

import re

MARK = "§"
MAX_STRIPS = 8

_PAIRS = rf"(?:{MARK}[0-9]+{MARK} *)+"
_MALFORMED = rf'{MARK}[0-9]+">{MARK}[0-9]+{MARK} *'
_DANGLING = rf"{MARK}[0-9]+[^\w.]"

# The malformed pair starts like a dangling mark, so it is tried before it.
_LEADING = re.compile(rf"{_PAIRS}|{_MALFORMED}|{_DANGLING}", re.DOTALL)
# A mark in the middle of a sentence takes its own digits with it, never the punctuation after it.
_ANYWHERE = re.compile(
    rf'{MARK}[0-9]+">{MARK}[0-9]+{MARK} ?|{MARK}[0-9]+{MARK} ?|{MARK}[0-9]+(?![\w.])|{MARK}'
)
_PLACEHOLDERS = re.compile(rf"(?:\[dropped {MARK}[0-9]+{MARK}\])+")


def prefix_for(number: int) -> str:
    """What stands in front of a tagged text or tool output, with its one space."""
    return f"{MARK}{number}{MARK} "


def placeholder(number: int) -> str:
    """What a dropped part becomes: a function of the number only (section 3)."""
    return f"[dropped {MARK}{number}{MARK}]"


def is_placeholder_text(text: str) -> bool:
    """Whether a text is one exact placeholder or several in a row, and nothing else."""
    return _PLACEHOLDERS.fullmatch(text) is not None


def strip_notation(text: str) -> str:
    """The text without notation in front, taken off at most :data:`MAX_STRIPS` times."""
    for _ in range(MAX_STRIPS):
        found = _LEADING.match(text)
        if found is None:
            break
        text = text[found.end() :]
    return text


def clean_assistant_text(text: str) -> str:
    """Assistant text as it is saved: no notation and no stray mark anywhere, trimmed."""
    return _ANYWHERE.sub("", text).strip()
