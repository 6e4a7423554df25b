"""The text of compartments, one by one and as a whole (history-render section 8).

A row is a heading with ordinals, dates and title, and below it the text of its tier.  Titles and texts were
written by a model: a title is forced onto one line, and a text cannot begin a line with a heading of its
own.  Which tier a row has is :mod:`decay`'s matter; this module knows what it then says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from magiccontext.engine.head import decay, escapes
from magiccontext.engine.head.model import Compartment
from magiccontext.engine.tokens import TokenCounter

EMPTY_HISTORY = "<session-history></session-history>"
ELLIPSIS = "…"

# How much of the content a flat row keeps, by tier; tier 4 keeps the heading only.
FLAT_LENGTHS: dict[int, int | None] = {1: None, 2: 1_200, 3: 420, 4: 0}

# A legacy row whose content quotes the user keeps some of it; others start as headings.
LEGACY_QUOTING, LEGACY_PLAIN = 3, 4

_NOT_ONE_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_FORGED_HEADING = re.compile(r"(?:\A|(?<=[\n\r\u2028\u2029]))## ")
_USER_LINE = re.compile(r"(?:\A|(?<=[\n\r\u2028\u2029]))U:")


class OverlappingRanges(ValueError):
    """Two stored compartments cover the same messages: the history is corrupt and must not be served."""


def ordered(compartments: Sequence[Compartment]) -> list[Compartment]:
    """Compartments by sequence.  Raises :class:`OverlappingRanges`; gaps are legal (section 11, case 48).

    A compartment that ends partway through a message may share that message with the next one.  Ordinals
    of another lineage say nothing here: rows that no longer resolve are not compared.
    """
    rows = sorted(compartments, key=lambda row: row.sequence)
    for before, after in pairwise(row for row in rows if row.resolves):
        shared = before.end_block is not None and after.start == before.end
        if after.start <= before.end and not shared:
            raise OverlappingRanges(
                f"compartment {after.sequence} starts at {after.start}, but {before.sequence} ends at "
                f"{before.end}"
            )
    return rows


def dates(row: Compartment) -> str:
    """The dates of a row as its heading shows them; empty unless both are known."""
    first, last = row.first_day, row.last_day
    if not first or not last:
        return ""
    if first == last:
        return first
    return f"{first}→{last[8:]}" if first[:7] == last[:7] else f"{first}→{last}"


def heading(row: Compartment, *, dated: bool = True) -> str:
    title = escapes.content(_NOT_ONE_LINE.sub(" ", row.title))
    when = dates(row) if dated else ""
    return " · ".join(["## " + f"{row.start}-{row.end}", *([when] if when else []), title])


def is_flat(row: Compartment) -> bool:
    """Whether the row has no tiers of its own and shows more or less of its content instead."""
    return row.legacy or not row.p1


def _flat_text(row: Compartment, tier: int) -> str:
    length = FLAT_LENGTHS[tier]
    text = row.content.strip()
    if length is None or len(text) <= length:
        return text
    return text[:length].rstrip() + ELLIPSIS if length else ""


def _tier_text(row: Compartment, tier: int) -> str:
    chosen = row.tiers[tier - 1]
    if chosen is not None:
        return chosen
    richer = (text for text in reversed(row.tiers[: tier - 1]) if text)
    return next(richer, row.content)


def row_text(row: Compartment, tier: int, *, dated: bool = True) -> str:
    """What a row says at ``tier`` (1–4).  Lengths are code points."""
    text = _flat_text(row, tier) if is_flat(row) else _tier_text(row, tier)
    body = _FORGED_HEADING.sub(" ## ", escapes.content(text.strip()))
    head = heading(row, dated=dated)
    return f"{head}\n{body}" if body else head


def legacy_tier(row: Compartment) -> int:
    """Where a legacy row starts; age and pressure do not touch it."""
    return LEGACY_QUOTING if _USER_LINE.search(row.content) else LEGACY_PLAIN


def start_tiers(rows: Sequence[Compartment], budget: float) -> list[int]:
    """Tiers by age and pressure alone, for rows with content, oldest first."""
    aged = [row.importance for row in rows if not row.legacy]
    by_age = iter(decay.curve(aged, decay.budget_pressure(aged, budget)))
    return [legacy_tier(row) if row.legacy else next(by_age) for row in rows]


def wrapped(body: str) -> str:
    return f"<session-history>\n{body}\n</session-history>" if body else EMPTY_HISTORY


class History:
    """The rows of one render.  Texts and their tokens are kept, so that no retry measures a row again."""

    def __init__(self, compartments: Sequence[Compartment], count: TokenCounter, *, dated: bool) -> None:
        self.rows = [row for row in ordered(compartments) if row.has_content]
        self._count = count
        self._dated = dated
        self._texts: dict[tuple[int, int], str] = {}
        self._tokens: dict[str, int] = {}

    def text(self, row: int, tier: int) -> str:
        key = row, tier
        if key not in self._texts:
            self._texts[key] = row_text(self.rows[row], tier, dated=self._dated)
        return self._texts[key]

    def tokens(self, text: str) -> int:
        if text not in self._tokens:
            self._tokens[text] = self._count([text])[0] if text else 0
        return self._tokens[text]

    def _measure(self, tiers: Sequence[int]) -> None:
        """Count every row at its tier in one call."""
        texts = [self.text(row, tier) for row, tier in enumerate(tiers) if tier < decay.ARCHIVED]
        new = [text for text in dict.fromkeys(texts) if text not in self._tokens]
        self._tokens.update(zip(new, self._count(new), strict=True))

    def body(self, tiers: Sequence[int]) -> str:
        """The rows at ``tiers``, oldest first, joined by a blank line; archived ones leave nothing."""
        return "\n\n".join(self.text(row, tier) for row, tier in enumerate(tiers) if tier < decay.ARCHIVED)

    def served_tiers(self, budget: float) -> list[int]:
        """Tiers after age, pressure and the budget guard."""
        tiers = start_tiers(self.rows, budget)
        if budget <= 0:
            return tiers
        self._measure(tiers)
        return decay.demoted(
            tiers,
            budget,
            lambda row, tier: self.tokens(self.text(row, tier)),
            lambda current: self.tokens(self.body(current)),
        )

    def block(self, budget: float) -> str:
        """The ``<session-history>`` block within a budget of local tokens, by the fold loop."""
        return decay.fold_loop(
            lambda allowed: wrapped(self.body(self.served_tiers(allowed))), self.tokens, budget
        )


def session_history(
    compartments: Sequence[Compartment], budget: float, count: TokenCounter, *, dated: bool = True
) -> str:
    """The ``<session-history>`` block (section 1); never empty.  Raises :class:`OverlappingRanges`."""
    return History(compartments, count, dated=dated).block(budget)


def new_rows(compartments: Sequence[Compartment], after: int, *, dated: bool = True) -> str:
    """Rows with a sequence above ``after``, each at tier 1 whatever its age (section 2)."""
    rows = (row for row in ordered(compartments) if row.sequence > after and row.has_content)
    return "\n\n".join(row_text(row, 1, dated=dated) for row in rows)
