"""Four ways to keep a session inside its window without this server (the table of design section 11).

Each is a function over the transcript that yields the requests it would send. What a policy dropped stays
dropped: nothing that was cut comes back in a later call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from magiccontext.replay.cost import Slice, front_tokens, output_tokens
from magiccontext.replay.tokens import MessageBook
from magiccontext.replay.transcript import Call, Transcript, decode, encode

SLIDING_SHARE = 0.95
COMPACTION_SHARE = 0.92
CLEAR_SHARE = 0.65
SUMMARY_TOKENS = 3_000
KEPT_RESULTS = 3
CLEARED = "[tool result cleared]"


@dataclass(frozen=True, slots=True)
class Request:
    """What goes to the provider for one call.

    `hidden`: a call the policy makes for itself. `level` and `reasons` explain a changed front.
    """

    call: Call
    model: str
    slices: Sequence[Slice]
    output_tokens: int
    level: str = ""
    reasons: tuple[str, ...] = ()
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """A transcript measured: slices of its messages, the constant front, the window's size in tokens."""

    transcript: Transcript
    book: MessageBook
    limit: int
    front: Slice
    slices: tuple[Slice, ...]
    model: str | None = None
    totals: tuple[int, ...] = field(default=())

    @classmethod
    def measured(
        cls, transcript: Transcript, book: MessageBook, limit: int, model: str | None = None
    ) -> Session:
        """`model` replaces the recorded model of every call."""
        digests = book.learn(transcript.messages)
        slices = tuple(Slice(digest, book.tokens(digest)) for digest in digests)
        front = Slice(b"front", front_tokens(transcript, book))
        totals = tuple(accumulate((part.tokens for part in slices), initial=0))
        return cls(transcript, book, limit, front, slices, model, totals)

    def model_of(self, call: Call) -> str:
        return self.model or call.model

    def prompt(self, start: int, end: int) -> int:
        """Tokens of a request with the messages from `start` to before `end`."""
        return self.front.tokens + self.totals[end] - self.totals[start]

    def request(self, call: Call, slices: Sequence[Slice], **more: Any) -> Request:
        billed = output_tokens(self.transcript, call, self.book)[1]
        return Request(call, self.model_of(call), slices, more.pop("output", billed), **more)


def unmanaged(session: Session) -> Iterator[Request]:
    """Everything, even over the window."""
    for call in session.transcript.calls:
        yield session.request(call, [session.front, *session.slices[: call.messages]])


def sliding(session: Session) -> Iterator[Request]:
    """Over 95 %: whole turns leave from the front, up to the next real user prompt, until it fits."""
    prompts = [
        index for index, part in enumerate(session.slices) if session.book.facts(part.digest).is_prompt
    ]
    start = 0
    for call in session.transcript.calls:
        before = start
        while session.prompt(start, call.messages) > SLIDING_SHARE * session.limit:
            later = next((index for index in prompts if start < index < call.messages), None)
            if later is None:
                break
            start = later
        yield session.request(
            call,
            [session.front, *session.slices[start : call.messages]],
            reasons=("slid",) if start != before else (),
        )


def compaction(session: Session) -> Iterator[Request]:
    """Over 92 %: one call reads the prompt and writes a summary; then summary and last exchange go on."""
    start, made = 0, 0
    for call in session.transcript.calls:
        summary = [_summary(made)] if made else []
        full = session.prompt(start, call.messages) + len(summary) * SUMMARY_TOKENS
        exchange = _last_exchange(session, call)
        compacted = full > COMPACTION_SHARE * session.limit and exchange > start
        if compacted:
            slices = [session.front, *summary, *session.slices[start : call.messages]]
            yield session.request(call, slices, output=SUMMARY_TOKENS, hidden=True)
            made += 1
            start, summary = exchange, [_summary(made)]
        yield session.request(
            call,
            [session.front, *summary, *session.slices[start : call.messages]],
            reasons=("compacted",) if compacted else (),
        )


def clear_tools(session: Session) -> Iterator[Request]:
    """Over 65 %: every tool result but the newest three becomes a short placeholder, for good."""
    messages = session.transcript.messages
    results = [
        (index, call_id)
        for index, part in enumerate(session.slices)
        for call_id in session.book.facts(part.digest).results
    ]
    slices = list(session.slices)
    cleared = 0
    for call in session.transcript.calls:
        before = cleared
        total = session.front.tokens + sum(part.tokens for part in slices[: call.messages])
        if total > CLEAR_SHARE * session.limit:
            sent = sum(1 for index, _ in results if index < call.messages)
            cleared = max(cleared, sent - KEPT_RESULTS)
        if cleared > before:
            touched = {index for index, _ in results[before:cleared]}
            for index in sorted(touched):
                gone = {call_id for at, call_id in results[:cleared] if at == index}
                raw = _without_results(messages[index], gone)
                digest = session.book.learn([raw])[0]
                slices[index] = Slice(digest, session.book.tokens(digest))
        yield session.request(
            call,
            [session.front, *slices[: call.messages]],
            reasons=("cleared",) if cleared > before else (),
        )


POLICIES: dict[str, Callable[[Session], Iterator[Request]]] = {
    "unmanaged": unmanaged,
    "sliding": sliding,
    "compaction": compaction,
    "clear-tools": clear_tools,
}


def _summary(made: int) -> Slice:
    return Slice(hashlib.sha256(f"summary {made}".encode()).digest(), SUMMARY_TOKENS)


def _last_exchange(session: Session, call: Call) -> int:
    """Index of the newest response before the call; what it asked for is answered behind it."""
    facts = session.book.facts
    return next(
        (i for i in range(call.messages - 1, -1, -1) if facts(session.slices[i].digest).role == "assistant"),
        0,
    )


def _without_results(raw: bytes, gone: set[str]) -> bytes:
    message = decode(raw)
    for block in message["content"]:
        if block.get("type") == "tool_result" and str(block.get("tool_use_id")) in gone:
            block["content"] = CLEARED
    return encode(message)
