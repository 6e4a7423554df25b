"""From what a recording holds, in its order, to a valid and append-only conversation.

A reader reports three kinds of things: what the user said, what a tool returned, what the model answered.
This module decides where they stand. Anthropic's rules are the measure: a conversation starts with a user
message, a request ends with one, and every tool call is answered in the user message that follows it.

What breaks those rules in real recordings, and what becomes of it, always with a note:

* a call nobody answered (an aborted turn) gets an error result that says so;
* a result without its call, and a response without any content, are left out;
* a response that was recorded without anything new before it stays as a message but is no call;
* messages a host marks as its own (`meta`) are used only where a request would otherwise end with the model's
  own words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from magiccontext.replay.transcript import Call, Transcript, TranscriptError, Usage, encode

Block = dict[str, Any]

NO_RESULT = "No result was recorded for this call."
OPENING = "(The recording starts here.)"
STEP_MS = 15_000
"""Assumed time between calls where a recording has no times."""


@dataclass(frozen=True, slots=True)
class _Said:
    content: str | list[Block]
    time_ms: int
    meta: bool


@dataclass(frozen=True, slots=True)
class _Returned:
    call_id: str
    block: Block
    time_ms: int


@dataclass(frozen=True, slots=True)
class _Answered:
    blocks: list[Block]
    time_ms: int
    model: str
    usage: Usage | None


class Assembly:
    """Collects a recording in its order; `build` makes the transcript.

    `merge_user`: what the user says after tool results goes into the same message as they (Claude Code);
    otherwise it is a message of its own.
    """

    def __init__(self, *, merge_user: bool) -> None:
        self.merge_user = merge_user
        self._items: list[_Said | _Returned | _Answered] = []
        self._counts: Counter[str] = Counter()

    def note(self, what: str, count: int = 1) -> None:
        """Count something the person should know; notes come out as `what: count`."""
        if count:
            self._counts[what] += count

    def said(self, content: str | list[Block], time_ms: int, *, meta: bool = False) -> None:
        if content:
            self._items.append(_Said(content, time_ms, meta))

    def returned(self, call_id: str, block: Block, time_ms: int) -> None:
        """`block` is a complete `tool_result` block."""
        self._items.append(_Returned(call_id, block, time_ms))

    def answered(self, blocks: list[Block], time_ms: int, model: str, usage: Usage | None) -> None:
        """`time_ms` is when the response was complete."""
        self._items.append(_Answered(blocks, time_ms, model, usage))

    def build(
        self,
        *,
        source_format: str,
        session_id: str,
        model: str = "",
        system: bytes | None = None,
        tools: Sequence[bytes] = (),
        subagent: bool = False,
        last_request: bool = False,
    ) -> Transcript:
        """The transcript. `last_request`: what stands after the last response is a call of its own.

        Raises TranscriptError when there is not a single call to play.
        """
        run = _Run(self._items, self.merge_user, self._counts)
        for position, item in enumerate(self._items):
            run.take(position, item)
        run.finish(last_request, model)
        if not run.calls:
            raise TranscriptError("no model call was found in this recording")
        return Transcript(
            messages=tuple(run.messages),
            calls=tuple(run.calls),
            model=model or run.calls[-1].model,
            source_format=source_format,
            session_id=session_id,
            notes=tuple(f"{what}: {count}" for what, count in self._counts.items()),
            system=system,
            tools=tuple(tools),
            subagent=subagent,
        )


def _match_results(items: Sequence[_Said | _Returned | _Answered]) -> dict[tuple[int, str], int]:
    """Which result answers which call: (position of the response, call id) -> position of the result.

    A call id may be used again in a later turn; a result belongs to the newest call before it that has none.
    """
    matched: dict[tuple[int, str], int] = {}
    waiting: dict[str, int] = {}
    for position, item in enumerate(items):
        if isinstance(item, _Answered):
            waiting.update(dict.fromkeys(call_ids(item.blocks), position))
        elif isinstance(item, _Returned) and item.call_id in waiting:
            matched[(waiting.pop(item.call_id), item.call_id)] = position
    return matched


def call_ids(blocks: Sequence[Block]) -> list[str]:
    """The ids of the tool calls in an assistant message's blocks, in order."""
    return [str(block.get("id", "")) for block in blocks if block.get("type") == "tool_use"]


class _Run:
    """One walk over the collected items."""

    def __init__(
        self,
        items: Sequence[_Said | _Returned | _Answered],
        merge_user: bool,
        notes: Counter[str],
    ) -> None:
        self.messages: list[bytes] = []
        self.calls: list[Call] = []
        self._items = items
        self._merge_user = merge_user
        self._notes = notes
        self._matched = _match_results(items)
        self._used = set(self._matched.values())
        self._results: list[Block] = []
        self._texts: list[str | list[Block]] = []
        self._meta: list[str | list[Block]] = []
        self._clock = 0
        self._last_role = ""

    def take(self, position: int, item: _Said | _Returned | _Answered) -> None:
        if isinstance(item, _Answered):
            self._answer(position, item)
            return
        self._clock = max(self._clock, item.time_ms)
        if isinstance(item, _Said):
            (self._meta if item.meta else self._texts).append(item.content)
        elif position not in self._used:
            self._notes["tool results without a call, left out"] += 1

    def finish(self, last_request: bool, model: str) -> None:
        if last_request and (self._results or self._texts):
            self._flush()
            self._call(self._clock, self._clock, model or "", None, None)
        else:
            # Nothing was sent after the last response, so there is nothing to play; but the calls in it stay
            # answered, so that the messages as a whole are a valid conversation too.
            self._flush()

    def _answer(self, position: int, item: _Answered) -> None:
        if not item.blocks:
            self._notes["responses without content, left out"] += 1
            self._clock = max(self._clock, item.time_ms)
            return
        if not (self._results or self._texts) and self._last_role != "user":
            self._texts.extend(self._meta)
            if not self._texts and not self.messages:
                self._texts.append(OPENING)
                self._notes["recordings that start with a response, opened with a line"] += 1
        self._flush()
        start = self._clock if item.time_ms or self._clock else len(self.calls) * STEP_MS
        done = max(start, item.time_ms)
        if self._last_role == "user":
            self._call(start, done, item.model, item.usage, len(self.messages))
        else:
            self._notes["responses with nothing new before them, not played as calls"] += 1
        self._append("assistant", item.blocks)
        self._clock = max(done, start if item.time_ms else start + STEP_MS)
        for call_id in call_ids(item.blocks):
            at = self._matched.get((position, call_id))
            answer = self._items[at] if at is not None else None
            if isinstance(answer, _Returned):
                self._results.append(answer.block)
            else:
                self._notes["tool calls without a result, answered with an error"] += 1
                self._results.append(
                    {"type": "tool_result", "tool_use_id": call_id, "content": NO_RESULT, "is_error": True}
                )

    def _call(self, start: int, done: int, model: str, usage: Usage | None, response: int | None) -> None:
        self.calls.append(Call(len(self.calls), start, done, len(self.messages), model, usage, response))

    def _flush(self) -> None:
        """Write what the user's side has to say, as one message or several."""
        self._meta = []
        results, texts = self._results, self._texts
        self._results, self._texts = [], []
        if self._merge_user and len(texts) + bool(results) > 1:
            merged = list(results)
            for text in texts:
                merged.extend([{"type": "text", "text": text}] if isinstance(text, str) else text)
            self._append("user", merged)
            return
        if results:
            self._append("user", results)
        for text in texts:
            self._append("user", text)

    def _append(self, role: str, content: str | list[Block]) -> None:
        self.messages.append(encode({"role": role, "content": content}))
        self._last_role = role
