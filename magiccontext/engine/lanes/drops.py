"""How a drop is carried out (reclaim-core section 3).

The choice between leaving nothing and leaving a skeleton is made once, at first application, and stored
on the tag.  ``DROP_MODES`` is the table of the spec: the first row whose condition holds decides.

A skeleton keeps the call's real arguments; nothing ever shortens them, because models copy what they see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from magiccontext.engine.draft import Draft
from magiccontext.engine.forms import is_meaningful
from magiccontext.engine.state import DropMode, Msg, Tag, TagStatus, TagType
from magiccontext.engine.transcript import Kind, Role

NEWEST_KEPT = 20
"""Newest tool tags, of any status, whose small calls stay as skeletons."""

SMALL_INPUT_BYTES = 1024


@dataclass(frozen=True, slots=True)
class DropCase:
    """The facts one row of the table looks at."""

    duplicate: bool
    cannot_remove: bool
    beside_reasoning: bool
    newest: bool
    small: bool
    emergency: bool  # the emergency lane at or above 95 %
    strands: bool


SKELETON = "skeleton"
REMOVE = "remove"

DROP_MODES: tuple[tuple[str, Callable[[DropCase], bool], str], ...] = (
    (
        "duplicate",
        lambda c: c.duplicate and not (c.cannot_remove or c.beside_reasoning or c.strands),
        REMOVE,
    ),
    (
        "host cannot remove, or beside native reasoning",
        lambda c: c.cannot_remove or c.beside_reasoning,
        SKELETON,
    ),
    ("newest tools with small input", lambda c: c.newest and c.small and not c.emergency, SKELETON),
    ("removal would strand the end", lambda c: c.strands, SKELETON),
    ("otherwise", lambda c: True, REMOVE),
)


class DropBatch:
    """One application of drops: fixes the newest-20 window and the end of the request at its start."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        tool_numbers = sorted((t.number for t in draft.tags() if t.type is TagType.TOOL), reverse=True)
        self.newest_from = tool_numbers[:NEWEST_KEPT][-1] if tool_numbers else 0
        self._end = _newest_meaningful(draft)
        self._reasoning_at: dict[str, bool] = {}

    def apply(self, tag: Tag, *, duplicate: bool = False, emergency: bool = False) -> DropMode:
        """Drop ``tag`` and freeze how.  Returns the mode recorded."""
        mode = self.mode(tag, duplicate=duplicate, emergency=emergency)
        self.draft.drop_tag(tag, mode)
        return mode

    def mode(self, tag: Tag, *, duplicate: bool = False, emergency: bool = False) -> DropMode:
        """What dropping ``tag`` now would leave."""
        if tag.type is not TagType.TOOL:
            return DropMode.FULL
        case = DropCase(
            duplicate=duplicate,
            cannot_remove=not self.draft.vars.can_remove or tag.part < 0,
            beside_reasoning=self.draft.route.anthropic_family is not False and self._beside_reasoning(tag),
            newest=tag.number >= self.newest_from,
            small=0 <= tag.input_string_bytes <= SMALL_INPUT_BYTES,
            emergency=emergency,
            strands=self._strands(tag),
        )
        outcome = next(outcome for _, applies, outcome in DROP_MODES if applies(case))
        if outcome == REMOVE:
            return DropMode.FULL
        return DropMode.SKELETON_STRIPPED if tag.attachments else DropMode.SKELETON_REAL

    def _beside_reasoning(self, tag: Tag) -> bool:
        """A thinking part in the call's own messages, or in an assistant message directly before it."""
        return any(self._reasons(mid) for mid in (tag.mid, tag.result_mid)) or self._reasons(
            self._assistant_before(tag.mid)
        )

    def _reasons(self, mid: str) -> bool:
        if not mid:
            return False
        if mid not in self._reasoning_at:
            message = self.draft.message(mid)
            self._reasoning_at[mid] = (
                message is not None
                and bool(message.raw)
                and self.draft.parsed(message).has(Kind.REASONING, Kind.REDACTED)
            )
        return self._reasoning_at[mid]

    def _assistant_before(self, mid: str) -> str:
        message = self.draft.message(mid)
        before = self.draft.message(message.parent) if message is not None and message.parent else None
        return before.mid if before is not None and before.role is Role.ASSISTANT else ""

    def _strands(self, tag: Tag) -> bool:
        """Would the end of the request lose its last content?

        The newest message with meaningful content must keep some; when it is an assistant message, at
        least one completed tool result must survive in it.
        """
        if self._end is None or self._end.mid not in (tag.mid, tag.result_mid):
            return False
        kinds = (Kind.TOOL_RESULT,) if self._end.role is Role.ASSISTANT else ()
        return not any(_survives(self.draft, self._end, part_tag, kinds) for part_tag in self._others(tag))

    def _others(self, tag: Tag) -> Iterable[tuple[int, Kind, Tag | None]]:
        assert self._end is not None
        by_part: dict[int, Tag] = {}
        for other in self.draft.tags_of(self._end.mid):
            if other.result_mid == self._end.mid:
                by_part[other.result_part] = other
            if other.mid == self._end.mid:
                by_part[other.part] = other
        for part in self.draft.parsed(self._end).parts:
            known = by_part.get(part.index)
            if (known is None or known.number != tag.number) and is_meaningful(part, self._end.role):
                yield part.index, part.kind, known


def _survives(
    draft: Draft, message: Msg, item: tuple[int, Kind, Tag | None], kinds: tuple[Kind, ...]
) -> bool:
    _, kind, tag = item
    if kinds and kind not in kinds:
        return False
    if tag is None:
        return True
    current = draft.tag(tag.number)
    return not (
        current is not None and current.status is TagStatus.DROPPED and current.drop_mode is DropMode.FULL
        and kind in (Kind.TOOL_CALL, Kind.TOOL_RESULT)
    )  # fmt: skip


def _newest_meaningful(draft: Draft) -> Msg | None:
    for message in draft.last_messages():
        if not message.raw:
            continue
        if message.form is not None and message.form.body is None and message.mid not in draft.touched:
            continue
        if any(is_meaningful(part, message.role) for part in draft.parsed(message).parts):
            return message
    return None
