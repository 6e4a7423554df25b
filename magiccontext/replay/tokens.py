"""Token counts of messages, each counted once.

The counter itself is the product's (`magiccontext.tokenizer`) and is passed in, so that every policy and the
usage reported to the server are measured alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from magiccontext.replay.facts import IMAGE_TOKENS, Facts, facts_of

Counter = Callable[[Sequence[str]], Sequence[int]]

MESSAGE_TOKENS = 4
"""What the frame of a message (role, block types, ids) costs besides its text."""


class MessageBook:
    """Facts, digests and token counts of messages by their bytes; a message seen before costs one hash."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._facts: dict[bytes, Facts] = {}
        self._tokens: dict[bytes, int] = {}

    def learn(self, messages: Sequence[bytes]) -> list[bytes]:
        """The SHA-256 digests of `messages`, which are read and counted where they are new.

        Raises ValueError when one of them is no message.
        """
        digests = [hashlib.sha256(raw).digest() for raw in messages]
        fresh: dict[bytes, Facts] = {}
        for digest, raw in zip(digests, messages, strict=True):
            if digest not in self._facts and digest not in fresh:
                fresh[digest] = facts_of(raw)
        if fresh:
            counts = self._counter([facts.prompt for facts in fresh.values()])
            for (digest, facts), tokens in zip(fresh.items(), counts, strict=True):
                self._facts[digest] = facts
                self._tokens[digest] = tokens + MESSAGE_TOKENS + facts.media * IMAGE_TOKENS
        return digests

    def facts(self, digest: bytes) -> Facts:
        return self._facts[digest]

    def tokens(self, digest: bytes) -> int:
        return self._tokens[digest]

    def text_tokens(self, text: str) -> int:
        """Tokens of a text that is no message (a tool definition, a system prompt)."""
        return self._counter([text])[0]
