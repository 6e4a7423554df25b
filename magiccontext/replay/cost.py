"""What a provider's prompt cache would have billed (design section 11).

A request is a list of slices: the constant front (tools and system) and one slice a message. A prefix of
slices is in the cache once it was sent, for one model, and stays as long as the gap since its last use is at
most the lifetime. The longest cached prefix is read at a tenth of the input price, the rest is written at
1.25, output costs five; the unit is the price of one uncached input token.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from magiccontext.replay.tokens import MessageBook
from magiccontext.replay.transcript import Call, Transcript

READ_PRICE = 0.1
WRITE_PRICE = 1.25
OUTPUT_PRICE = 5.0
DEFAULT_FRONT_TOKENS = 20_000
DEFAULT_LIFETIME_MS = 300_000

Outcome = Literal["first", "hit", "idle", "model", "bust"]


@dataclass(frozen=True, slots=True)
class Slice:
    digest: bytes
    tokens: int


@dataclass(frozen=True, slots=True)
class Charge:
    """What one request cost.

    `changed_at`: position of the first slice that differs from the previous request, None when this one only
    extends it. `lost`: the cache was gone anyway, whatever was sent.
    """

    read_tokens: int
    write_tokens: int
    output_tokens: int
    changed_at: int | None
    lost: Literal["idle", "model"] | None
    first: bool

    @property
    def prompt_tokens(self) -> int:
        return self.read_tokens + self.write_tokens

    @property
    def cost(self) -> float:
        return (
            self.read_tokens * READ_PRICE
            + self.write_tokens * WRITE_PRICE
            + self.output_tokens * OUTPUT_PRICE
        )

    @property
    def outcome(self) -> Outcome:
        """`first`, `hit` (all that was sent before was read), lost by time or model, or an own `bust`."""
        if self.first:
            return "first"
        return self.lost or ("hit" if self.changed_at is None else "bust")


class PrefixCache:
    """The provider's cache of one session."""

    def __init__(self, lifetime_ms: Callable[[str], float]) -> None:
        self._lifetime_ms = lifetime_ms
        self._used: dict[tuple[str, bytes], int] = {}
        self._sent: list[Slice] = []
        self._chain: list[bytes] = []
        self._model: str | None = None

    def charge(
        self, model: str, time_ms: int, done_ms: int, slices: Sequence[Slice], output_tokens: int
    ) -> Charge:
        """Send `slices` at `time_ms`; they count as used until `done_ms`, when the answer was complete."""
        common = common_front([s.digest for s in self._sent], [s.digest for s in slices])
        chain = self._chain[:common]
        link = chain[-1] if chain else b""
        for part in slices[common:]:
            link = hashlib.sha256(link + part.digest).digest()
            chain.append(link)
        lifetime = self._lifetime_ms(model)
        read = 0
        for part, link in zip(slices, chain, strict=True):
            used = self._used.get((model, link))
            if used is None or time_ms - used > lifetime:
                break
            read += part.tokens
        first = self._model is None
        lost: Literal["idle", "model"] | None = None
        if not first and model != self._model:
            lost = "model"
        elif not first and read < sum(part.tokens for part in slices[:common]):
            lost = "idle"
        charge = Charge(
            read_tokens=read,
            write_tokens=sum(part.tokens for part in slices) - read,
            output_tokens=output_tokens,
            changed_at=None if first or common == len(self._sent) else common,
            lost=lost,
            first=first,
        )
        for link in chain:
            self._used[(model, link)] = done_ms
        self._sent, self._chain, self._model = list(slices), chain, model
        return charge


def common_front(before: Sequence[bytes], now: Sequence[bytes]) -> int:
    """How many leading entries two lists share."""
    length = min(len(before), len(now))
    # Almost always the shorter list is a front of the longer one; that comparison runs in C.
    if before[:length] == now[:length]:
        return length
    return next(i for i in range(length) if before[i] != now[i])


def front_tokens(transcript: Transcript, book: MessageBook) -> int:
    """Tokens of tools and system: the recorded first prompt minus its messages, else 20,000 (design 11)."""
    first: Call = transcript.calls[0]
    if first.usage is None:
        return DEFAULT_FRONT_TOKENS
    digests = book.learn(transcript.messages[: first.messages])
    left = first.usage.prompt_tokens - sum(book.tokens(digest) for digest in digests)
    return left if left > 0 else DEFAULT_FRONT_TOKENS


def output_tokens(transcript: Transcript, call: Call, book: MessageBook) -> tuple[int, int]:
    """Output of a call: (counted from what the recording kept, the larger of that and the reported number).

    Recorded numbers of streamed responses are sometimes those of their first event, and what a model thought
    is not always in the recording; the larger of the two is nearer to the bill.
    """
    counted = 0
    if call.response is not None:
        counted = book.tokens(book.learn([transcript.messages[call.response]])[0])
    return counted, max(counted, call.usage.output_tokens if call.usage else 0)
