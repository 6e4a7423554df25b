"""Compartments before they are stored: what they say, and which ranges they may cover
(history-render.md section 7; historian.md sections 6, 7 and 9).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory_app.services.refusals import MemoryRefused, storable
from sessions_app import models
from sessions_app.services.line import Place
from sessions_app.services.sessions import BadRequest

LONGEST_TEXT = 256 * 1024
"""Characters of a title, a text or a tier."""

TIERS = ("p1", "p2", "p3", "p4")


@dataclass(frozen=True, slots=True)
class Text:
    """What a compartment says.  ``content`` repeats p1 where it is not given."""

    title: str = ""
    content: str = ""
    p1: str | None = None
    p2: str | None = None
    p3: str | None = None
    p4: str | None = None
    importance: int | None = None
    episode_type: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """A compartment to publish: inclusive ordinals of the present lineage.

    Message ids may be left out; given ones must be those of the ordinals.  ``end_block`` is the part of the
    last message at which it ends, None for all of it.
    """

    start: int
    end: int
    text: Text = field(default_factory=Text)
    start_mid: str = ""
    end_mid: str = ""
    start_block: int | None = None
    end_block: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """``at`` is the 1-based position among the published drafts, None for the run as a whole."""

    kind: str
    fields: dict[str, Any]
    at: int | None = None


def checked_text(text: Text, field: str) -> Text:
    """The text in its stored form.  A blank p1 is none; raises BadRequest naming the tier."""
    prefix = f"{field}." if field else ""
    values = {
        name: None if (value := getattr(text, name)) is None else _storable(value, f"{prefix}{name}")
        for name in ("title", "content", *TIERS, "episode_type")
    }
    if not (values["p1"] or "").strip():
        values["p1"] = None
    if values["p1"] is not None and not (values["content"] or "").strip():
        values["content"] = values["p1"]
    if len(values["episode_type"] or "") > 255:
        raise BadRequest(f"{prefix}episode_type", "has more than 255 characters")
    importance = 50 if text.importance is None else min(100, max(1, text.importance))
    return Text(importance=importance, **values)  # type: ignore[arg-type]


def _storable(value: str, field: str) -> str:
    try:
        return storable(value, field, LONGEST_TEXT)
    except MemoryRefused as error:
        raise BadRequest(field, error.detail) from None


def check_ranges(
    drafts: Sequence[Draft], stored: Iterable[models.Compartment], here: Mapping[int, Place]
) -> None:
    """Raise BadRequest naming the first draft that does not fit behind what is stored.

    They must ascend without overlap, lie in the present conversation, be what their message ids say, and
    not end between a tool call and its result.  A gap is legal.
    """
    last = max((row.end for row in stored), default=0)
    arcs = _arcs(here)
    for index, draft in enumerate(drafts):
        name = f"compartments.{index}"
        if draft.end < draft.start:
            raise BadRequest(f"{name}.end", f"{draft.end} lies before the start {draft.start}")
        if draft.start <= last:
            raise BadRequest(
                f"{name}.start", f"{draft.start} is covered already; the last range ends at {last}"
            )
        for side, ordinal, mid in (
            ("start", draft.start, draft.start_mid),
            ("end", draft.end, draft.end_mid),
        ):
            place = here.get(ordinal)
            if place is None:
                raise BadRequest(f"{name}.{side}", f"the conversation has no message {ordinal}")
            if mid and mid != place.mid:
                raise BadRequest(f"{name}.{side}_mid", f"is not the id of message {ordinal}")
        # A message covered in part stays in the prompt, with whatever it calls.
        through = draft.end if draft.end_block is None else draft.end - 1
        for call, result in arcs:
            if call <= through < result:
                raise BadRequest(
                    f"{name}.end", f"{draft.end} separates the call in message {call} from its result"
                )
        last = draft.end


def _arcs(here: Mapping[int, Place]) -> list[tuple[int, float]]:
    """(ordinal of the call, ordinal of its result) of every call; without end while one is in flight.

    A call that never got its result and has other messages behind it is dead: it binds nothing.
    """
    ordinal_of = {place.mid: place.ordinal for place in here.values()}
    calls: dict[tuple[str, str], int] = {}
    results: dict[tuple[str, str], int] = {}
    settled = 0
    for place in here.values():
        answers = False
        for is_call, call_id, _, owner in place.links:
            key = (str(owner), str(call_id))
            if is_call:
                calls[key] = place.ordinal
            else:
                answers = True
                results.setdefault(key, place.ordinal)
        if not answers:
            settled = place.ordinal
    arcs: list[tuple[int, float]] = []
    for (owner, call_id), ordinal in calls.items():
        result = results.get((owner, call_id))
        if result is not None:
            arcs.append((min(ordinal, ordinal_of.get(owner, ordinal)), result))
        elif ordinal >= settled:
            arcs.append((ordinal, float("inf")))
    return arcs
