"""``ctx_expand``: reading the raw history back (memory-search section 12).

Three forms: a range of ordinals (as chunk text, or message by message), one message, one tagged item.  All
of them read raw messages of the current lineage, so what a drop or a summary took out of the prompt comes
back as it was.  A range answers within :data:`BUDGET` tokens and says where to go on; one message and one
item come whole, because that is what they are asked for.

Models fill parameters they do not mean with 0 or an empty text.  Such fillers are no form of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from magiccontext.engine.chunk_text import (
    Entry,
    call_arguments,
    chunk,
    cut,
    key_argument,
    one_line,
    role_letter,
)
from magiccontext.engine.notation import MARK
from magiccontext.engine.state import Msg, Tag, TagType
from magiccontext.engine.tokens import TokenCounter
from magiccontext.engine.transcript import Kind, Parsed, Part, Role
from magiccontext.engine.wire.base import Codec

BUDGET = 15_000
"""Local tokens of one range."""

TEXT_CHARACTERS = 200
REASONING_CHARACTERS = 120

FORMS = "start and end (ordinals, optionally with verbose), message (one ordinal), or tag (one tag number)"


class ExpandError(ValueError):
    """The call names nothing that can be shown.  ``text`` is the tool's answer."""

    def __init__(self, detail: str) -> None:
        self.text = f"Error: {detail}"
        super().__init__(self.text)


@dataclass(frozen=True, slots=True)
class Range:
    """Ordinals ``start`` to ``end``, both included."""

    start: int
    end: int
    verbose: bool = False


@dataclass(frozen=True, slots=True)
class One:
    """One message."""

    ordinal: int


@dataclass(frozen=True, slots=True)
class Tagged:
    """One tagged item."""

    number: int


Form = Range | One | Tagged


@dataclass(frozen=True, slots=True)
class Expanded:
    """The answer.  ``data`` repeats in figures what the text says."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)


def _integer(value: Any) -> int | None:
    """A whole number, also as text or as a float without fraction."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else None
    if isinstance(value, str) and 0 < len(value.strip()) <= 15:
        text = value.strip()
        return int(text) if text.isascii() and text.removeprefix("-").isdigit() else None
    return value if isinstance(value, int) else None


def _is_filler(value: Any) -> bool:
    return value is None or value is False or _integer(value) == 0 or (isinstance(value, str) and not value)


def _positive(value: Any) -> int | None:
    number = _integer(value)
    return number if number is not None and number > 0 else None


def choose(arguments: Mapping[str, Any]) -> Form:
    """The form a call means: a valid range, else a valid message, else a valid tag.

    Raises ExpandError when none is valid.
    """
    start, end = _positive(arguments.get("start")), _positive(arguments.get("end"))
    if start is not None and end is not None and start <= end:
        return Range(start, end, verbose=arguments.get("verbose") in (True, "true"))
    if (message := _positive(arguments.get("message"))) is not None:
        return One(message)
    if (number := _positive(arguments.get("tag"))) is not None:
        return Tagged(number)
    named = {name for name in ("start", "end", "message", "tag") if not _is_filler(arguments.get(name))}
    if named == {"message"} or (not named and set(arguments) == {"message"}):
        raise ExpandError("message must be a positive integer.")
    if named == {"tag"} or (not named and set(arguments) == {"tag"}):
        raise ExpandError("tag must be a positive integer.")
    if "start" in named or "end" in named:
        raise ExpandError(f"start and end must be positive integers, start not after end. Name {FORMS}.")
    raise ExpandError(f"nothing to expand. Name {FORMS}.")


class History:
    """The messages of the current lineage in ordinal order, without those the host took away."""

    def __init__(self, line: Sequence[Msg], codec: Codec, count: TokenCounter) -> None:
        self.codec = codec
        self.count = count
        self.messages = [message for message in line if not message.removed]
        self.newest = line[-1].ordinal if line else 0
        self._calls: dict[tuple[str, str], Msg] = {}
        self._results: dict[tuple[str, str], Msg] = {}
        for message in self.messages:
            for link in message.links:
                side = self._calls if link.is_call else self._results
                side[(link.call_id, link.owner)] = message

    def parsed(self, message: Msg) -> Parsed:
        # Not kept on the message: a look at a week of history must not stay in memory.
        return message.parsed or self.codec.parse(message.raw)

    def between(self, start: int, end: int) -> list[Msg]:
        return [message for message in self.messages if start <= message.ordinal <= end]

    def owner_of(self, message: Msg, part: Part) -> str:
        """Identity of the message whose call a result part answers."""
        return next((k.owner for k in message.links if k.part == part.index), message.mid)

    def call_of(self, call_id: str, owner: str) -> Part | None:
        return self._part(self._calls.get((call_id, owner)), Kind.TOOL_CALL, call_id)

    def result_of(self, call_id: str, owner: str) -> Part | None:
        return self._part(self._results.get((call_id, owner)), Kind.TOOL_RESULT, call_id)

    def _part(self, message: Msg | None, kind: Kind, call_id: str) -> Part | None:
        if message is None:
            return None
        return next((p for p in self.parsed(message).parts if p.kind is kind and p.call_id == call_id), None)

    def tokens(self, text: str) -> int:
        return self.count([text])[0]


def expand(
    form: Form, history: History, tag: Callable[[int], Tag | None], message: Callable[[str], Msg | None]
) -> Expanded:
    """Render ``form``.  ``tag`` and ``message`` look up by tag number and identity, whatever the lineage.

    Raises ExpandError for a message or a tag that is not there.
    """
    if isinstance(form, Range):
        return _verbose(form, history) if form.verbose else _range(form, history)
    if isinstance(form, One):
        return _one(form, history)
    return _tagged(form, history, tag, message)


def _answer(form: Range, end: int, count: int, tokens: int, text: str, more: int | None) -> Expanded:
    """``more`` is the last ordinal of the asked range when ``text`` stops before it."""
    lines = f"Messages {form.start}-{end} ({count} messages, ~{tokens} tokens):\n\n{text}"
    data: dict[str, Any] = {"form": "range", "start": form.start, "end": end, "tokens": tokens}
    if more is not None:
        lines += (
            f"\n\nStopped at message {end}: the budget is used up. Go on with start={end + 1}, end={more}."
        )
        data |= {"next_start": end + 1, "next_end": more}
    return Expanded(lines, data)


def _nothing(form: Range, end: int) -> Expanded:
    return Expanded(
        f"No messages found in range {form.start}-{max(end, form.start)}. "
        "The messages there were removed, hold no text, or have not been written yet.",
        {"form": "range", "start": form.start, "end": end, "tokens": 0},
    )


def _range(form: Range, history: History) -> Expanded:
    end = min(form.end, history.newest)
    messages = history.between(form.start, end)
    told = chunk((Entry(m.ordinal, m.mid, history.parsed(m)) for m in messages), BUDGET, history.count)
    if not told.text:
        return _nothing(form, end)
    shown = told.through if told.has_more else end
    count = sum(m.ordinal <= shown for m in messages)
    return _answer(form, shown, count, told.tokens, told.text, end if told.has_more else None)


def _verbose(form: Range, history: History) -> Expanded:
    end = min(form.end, history.newest)
    messages = history.between(form.start, end)
    if not messages:
        return _nothing(form, end)
    texts: list[str] = []
    tokens = 0
    for shown, message in enumerate(messages):
        text = "\n".join([_title(message, history), *_bullets(message, history)])
        size = history.tokens(text) + 1
        if texts and tokens + size > BUDGET:
            through = messages[shown - 1].ordinal
            return _answer(form, through, shown, tokens, "\n".join(texts), end)
        texts.append(text)
        tokens += size
    return _answer(form, end, len(messages), tokens, "\n".join(texts), None)


def _title(message: Msg, history: History) -> str:
    parsed = history.parsed(message)
    seen = [part.kind for part in parsed.parts if part.kind is not Kind.META]
    if parsed.role in (Role.USER, Role.TOOL) and seen and all(kind is Kind.TOOL_RESULT for kind in seen):
        return f"[{message.ordinal}] tool results"
    return f"[{message.ordinal}] {role_letter(parsed.role)} ({parsed.role.value})"


def _bullets(message: Msg, history: History) -> Iterator[str]:
    for part in history.parsed(message).parts:
        if part.kind is Kind.TEXT and part.text.strip():
            yield f"- {cut(one_line(part.text), TEXT_CHARACTERS)}"
        elif part.kind is Kind.REASONING and part.text.strip():
            yield f"- reasoning: {cut(one_line(part.text), REASONING_CHARACTERS)}"
        elif part.kind is Kind.TOOL_CALL:
            argument = key_argument(call_arguments(part))
            result = history.result_of(part.call_id, message.mid)
            output = "no output" if result is None else f"output ~{history.tokens(result.text)} tok"
            yield f"- {part.name}({argument}) → {output}"
        elif part.kind is Kind.TOOL_RESULT:
            yield f"- {_tool_name(message, part, history)} → output ~{history.tokens(part.text)} tok"
        elif part.kind is Kind.MEDIA:
            yield f"- {_media(part)}"


def _tool_name(message: Msg, result: Part, history: History) -> str:
    call = history.call_of(result.call_id, history.owner_of(message, result))
    return (call.name if call is not None else result.name) or "tool"


def _media(part: Part) -> str:
    return f"[{part.mime or 'media'}, {part.data_size} bytes, not shown]"


def _call(part: Part) -> str:
    return f"{part.name}, input:\n{part.arguments.decode('utf-8', 'replace')}"


def _result(name: str, part: Part | None) -> str:
    if part is None:
        return f"{name}: no output in this conversation."
    attached = f"\n[{part.attachments} attachments, not shown]" if part.attachments else ""
    return f"{name}, {'error' if part.is_error else 'output'}:\n{part.text}{attached}"


def _whole(message: Msg, history: History) -> Iterator[str]:
    for part in history.parsed(message).parts:
        if part.kind is Kind.TEXT and part.text:
            yield part.text
        elif part.kind is Kind.TOOL_CALL:
            yield _call(part)
            yield _result(part.name, history.result_of(part.call_id, message.mid))
        elif part.kind is Kind.TOOL_RESULT:
            yield _result(_tool_name(message, part, history), part)
        elif part.kind is Kind.MEDIA:
            yield _media(part)


def _one(form: One, history: History) -> Expanded:
    found = next((m for m in history.messages if m.ordinal == form.ordinal), None)
    if found is None:
        raise ExpandError(
            f"there is no message {form.ordinal}: it was deleted, or the number is wrong (the newest is "
            f"{history.newest}). Run the tool again if its result is needed."
        )
    body = "\n\n".join(_whole(found, history)) or "(nothing to recover in it)"
    return Expanded(
        f"{_title(found, history)} — full recovery:\n\n{body}",
        {"form": "message", "message": form.ordinal},
    )


def _tagged(
    form: Tagged,
    history: History,
    tag: Callable[[int], Tag | None],
    message: Callable[[str], Msg | None],
) -> Expanded:
    found = tag(form.number)
    owner = message(found.mid) if found is not None else None
    if found is None or owner is None or owner.removed:
        raise ExpandError(f"unknown tag {MARK}{form.number}{MARK}.")
    parts = {part.index: part for part in history.parsed(owner).parts}
    part = parts.get(found.part)
    if found.type is TagType.TOOL:
        # A call that was answered again after a rewind shows the answer that stands now.
        result = history.result_of(found.call_id, found.mid)
        if result is None and (answer := message(found.result_mid)) is not None and not answer.removed:
            result = next((p for p in history.parsed(answer).parts if p.index == found.result_part), None)
        name = found.tool_name or "tool"
        pieces = [_call(part)] if part is not None and part.kind is Kind.TOOL_CALL else []
        what, body = f"tool {name}", "\n\n".join([*pieces, _result(name, result)])
    elif part is None:
        raise ExpandError(f"the content of tag {MARK}{form.number}{MARK} is no longer in its message.")
    elif found.type is TagType.FILE:
        what, body = "file", _media(part)
    else:
        what, body = f"{owner.role.value} text", part.text
    return Expanded(
        f"Tag {MARK}{form.number}{MARK} ({what}) — full recovery:\n\n{body}",
        {"form": "tag", "tag": form.number, "type": found.type.value},
    )
