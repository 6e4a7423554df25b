from typing import Any

from magiccontext.tokenizer import count_many, count_tokens

GOLDEN_KIND = "14"


def test_count(case: dict[str, Any]) -> None:
    """By shape only: the reference counts with another vocabulary."""
    text = case["input"]["text"]
    tokens = count_tokens(text)
    assert (tokens == 0) == (case["expected"]["tokens"] == 0)
    # A token is at least one byte; a special token's text taken for one token would fall out of line here.
    assert tokens <= len(text.encode())
    assert tokens >= len(text.split())
    assert count_many([text, ""]) == [tokens, 0]
