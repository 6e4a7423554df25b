"""How figures are written for people: short in the text, exact on hover."""

from __future__ import annotations

from datetime import datetime

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from sessions_app.services.marks import MARKS, in_words

register = template.Library()

UNITS = ((1e3, "k"), (1e6, "M"), (1e9, "G"))

# Seconds up to which a distance is told in a unit → seconds of the unit, its name.
DISTANCES = ((90, 1, "s"), (90 * 60, 60, "min"), (36 * 3600, 3600, "h"), (60 * 86400, 86400, "days"))


def short(number: float) -> str:
    """164231 → 164k; two digits at least, four characters at most below a million millions."""
    if abs(number) < 1000:
        return f"{number:.0f}"
    for size, letter in UNITS:
        scaled = number / size
        if abs(scaled) < 9.95:
            return f"{scaled:.1f}".removesuffix(".0") + letter
        if abs(scaled) < 999.5:
            return f"{scaled:.0f}{letter}"
    return f"{number / 1e9:,.0f}G"


def distance(moment: datetime, now: datetime) -> str:
    """3 min ago; in 2 h; after two months, the date."""
    seconds = (now - moment).total_seconds()
    for limit, unit, name in DISTANCES:
        if abs(seconds) < limit:
            told = f"{abs(seconds) // unit:.0f} {name}"
            return f"in {told}" if seconds < 0 else f"{told} ago"
    return moment.strftime("%Y-%m-%d")


@register.filter
def tokens(number: int) -> SafeString:
    """Tokens, exact on hover."""
    return format_html('<span title="{} tokens">{}</span>', f"{number:,}", short(number))


@register.filter
def size(number: int) -> SafeString:
    """Bytes, exact on hover."""
    told = short(number)
    letter = told[-1] if told[-1].isalpha() else ""
    return format_html(
        '<span title="{} bytes">{}\u00a0{}B</span>', f"{number:,}", told.removesuffix(letter), letter
    )


@register.filter
def ago(moment: datetime | None, now: datetime) -> SafeString | str:
    """The distance from ``now``, the exact time on hover."""
    if moment is None:
        return "never"
    exact = moment.strftime("%Y-%m-%d %H:%M:%S UTC")
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', moment.isoformat(), exact, distance(moment, now)
    )


@register.filter
def mark(level: str) -> SafeString:
    """The letter of a level in its colour, with its word beside it and its meaning on hover."""
    found = MARKS[level]
    return format_html(
        '<span class="mark {}" title="{}: {}">'
        '<b aria-hidden="true">{}</b> <span class="word">{}</span></span>',
        found.tone,
        found.word,
        found.meaning,
        found.letter,
        found.word,
    )


@register.filter
def words(reasons: list[str]) -> str:
    """Reasons in words."""
    return in_words(reasons)


@register.simple_tag(takes_context=True)
def sorted_head(context: template.Context, column: str, label: str, css: str = "") -> SafeString:
    """A column's head that sorts by it, largest first, and the other way round when it already does."""
    sort = context["sort"]
    query = context["request"].GET.copy()
    query["sort"] = column if sort == f"-{column}" else f"-{column}"
    query.pop("page", None)
    state = {column: ("ascending", " ↑"), f"-{column}": ("descending", " ↓")}.get(sort, ("none", ""))
    return format_html(
        '<th scope="col" class="{}" aria-sort="{}"><a href="?{}">{}{}</a></th>',
        css,
        state[0],
        query.urlencode(),
        label,
        state[1],
    )
