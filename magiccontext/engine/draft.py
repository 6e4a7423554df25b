"""A pass in the making: the snapshot seen through the changes decided so far.

Lanes read tags and messages here and record decisions here; nothing reaches the snapshot.  At the end the
draft knows which messages need a new form, and :mod:`magiccontext.engine.forms` makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from magiccontext.engine.state import (
    Arrival,
    DropMode,
    Msg,
    PendingDrop,
    SessionState,
    Tag,
    TagStatus,
    TagType,
    content_id,
)
from magiccontext.engine.transcript import Parsed, Part
from magiccontext.engine.wire.base import Codec


@dataclass(frozen=True, slots=True)
class Route:
    """What the rules need to know of the provider behind a model key (replay-lanes sections 1.2, 14)."""

    provider: str  # "" when unknown
    model: str

    @property
    def canonical_anthropic(self) -> bool:
        return self.provider == "anthropic"

    @property
    def anthropic_family(self) -> bool | None:
        """True, False for a known other provider, None when the provider is unknown."""
        model = self.model.lower()
        if "anthropic" in self.provider or "claude" in model or "anthropic" in model:
            return True
        return False if self.provider else None

    @classmethod
    def of(cls, model_key: str) -> Route:
        """Split ``provider/model`` at the first slash; a bare model has no known provider."""
        provider, slash, model = model_key.partition("/")
        return cls(provider.lower(), model) if slash else cls("", provider)


class Draft:
    """Reads fall through to the snapshot; writes stay here."""

    def __init__(
        self, state: SessionState, arrival: Arrival, codec: Codec, route: Route, now_ms: int
    ) -> None:
        self.state = state
        self.arrival = arrival
        self.codec = codec
        self.route = route
        self.now_ms = now_ms
        self.vars = state.vars
        self.tag_counter = max(state.vars.tag_counter, next(reversed(state.tags), 0))
        self.new_tags: dict[int, Tag] = {}
        self.changed_tags: dict[int, Tag] = {}
        self.ops_removed: set[int] = set()
        self.raw: set[str] = set()  # messages that went out, or go out now, as the host has them
        self.touched: set[str] = set()  # messages whose form may differ now
        self._fresh: dict[str, Msg] = {m.mid: m for m in (*arrival.new, *arrival.revised, *arrival.moved)}
        self.cut: frozenset[str] = frozenset()  # messages the head stands for
        self.uncut: frozenset[str] = frozenset()  # those that came back because the host went back
        self.severed: dict[str, set[int]] = {}  # parts whose other half was cut
        self._path_ids: set[str] | None = None
        self._new_by_mid: dict[str, list[int]] = {}
        self._new_by_content: dict[str, int] = {}
        self._new_by_call: dict[tuple[str, str], int] = {}

    # messages

    @property
    def path(self) -> Iterable[Msg]:
        if self.arrival.path is not None:
            return self.arrival.path
        return [*self.state.path, *self.arrival.new]

    def last_messages(self) -> Iterator[Msg]:
        """The array from its end, without building it."""
        if self.arrival.path is not None:
            yield from reversed(self.arrival.path)
            return
        yield from reversed(self.arrival.new)
        yield from reversed(self.state.path)

    def returns(self, message: Msg) -> bool:
        """Whether ``message`` was served before, but not in the last array."""
        return message.form is not None and message.mid not in self.state.position

    def returning(self) -> list[Msg]:
        """The messages that come back, in array order; none while the array only grew."""
        return [m for m in self.arrival.path or () if m.raw and self.returns(m)]

    @property
    def length(self) -> int:
        if self.arrival.path is not None:
            return len(self.arrival.path)
        return len(self.state.path) + len(self.arrival.new)

    def message(self, mid: str) -> Msg | None:
        return self._fresh.get(mid) or self.state.messages.get(mid)

    def on_path(self, mid: str) -> bool:
        if self.arrival.path is None:
            return mid in self.state.position or mid in self._fresh
        if self._path_ids is None:
            self._path_ids = {m.mid for m in self.arrival.path}
        return mid in self._path_ids

    def parsed(self, message: Msg) -> Parsed:
        if message.parsed is None:
            message.parsed = self.codec.parse(message.raw)
        return message.parsed

    def part(self, mid: str, index: int) -> Part | None:
        message = self.message(mid)
        if message is None or not message.raw or index < 0:
            return None
        return next((p for p in self.parsed(message).parts if p.index == index), None)

    # tags

    def tag(self, number: int) -> Tag | None:
        return self.changed_tags.get(number) or self.new_tags.get(number) or self.state.tags.get(number)

    def tags(self) -> Iterator[Tag]:
        """Every tag of the session in ascending number."""
        for number, tag in self.state.tags.items():
            yield self.changed_tags.get(number, tag)
        for number, tag in self.new_tags.items():
            yield self.changed_tags.get(number, tag)

    def tag_for_content(self, type: TagType, mid: str, part: int) -> Tag | None:
        key = content_id(type, mid, part)
        number = self._new_by_content.get(key) or self.state.by_content.get(key)
        tag = self.tag(number) if number else None
        return tag if tag is not None and tag.part == part else None  # one that moved left its old key

    def tag_for_call(self, call_id: str, owner: str) -> Tag | None:
        number = self._new_by_call.get((call_id, owner)) or self.state.by_call.get((call_id, owner))
        return self.tag(number) if number else None

    def tags_of(self, mid: str) -> list[Tag]:
        numbers = dict.fromkeys([*self.state.by_mid.get(mid, ()), *self._new_by_mid.get(mid, ())])
        tags = (self.tag(number) for number in numbers)
        return [tag for tag in tags if tag is not None and mid in (tag.mid, tag.result_mid)]

    def add_tag(self, tag: Tag) -> None:
        self.new_tags[tag.number] = tag
        self._index(tag)

    def _index(self, tag: Tag) -> None:
        for mid in {tag.mid, tag.result_mid} - {""}:
            self._new_by_mid.setdefault(mid, []).append(tag.number)
        if tag.type is TagType.TOOL:
            self._new_by_call[(tag.call_id, tag.mid)] = tag.number
        else:
            self._new_by_content[content_id(tag.type, tag.mid, tag.part)] = tag.number

    def next_number(self) -> int:
        self.tag_counter += 1
        return self.tag_counter

    def change_tag(self, tag: Tag) -> None:
        self._record(tag)
        self.touched.update({tag.mid, tag.result_mid} - {""})

    def move_tag(self, tag: Tag) -> None:
        """Record where the tagged thing stands now.  Nothing that was served changes by it."""
        self._record(tag)
        self._index(tag)

    def _record(self, tag: Tag) -> None:
        if tag.number in self.new_tags:
            self.new_tags[tag.number] = tag
        else:
            self.changed_tags[tag.number] = tag

    def drop_tag(self, tag: Tag, mode: DropMode) -> None:
        """Record the frozen choice: status and mode (reclaim-core section 3)."""
        self.change_tag(replace(tag, status=TagStatus.DROPPED, drop_mode=mode))

    # queue

    def queue(self) -> list[PendingDrop]:
        """Queued drops in order of application."""
        waiting = [op for op in self.state.pending.values() if op.number not in self.ops_removed]
        return sorted(waiting, key=lambda op: (op.queued_ms, op.number))

    def is_queued(self, number: int) -> bool:
        return number in self.state.pending and number not in self.ops_removed
