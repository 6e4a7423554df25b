import pytest

from magiccontext.engine.tokens import TokenCounter, image_tokens
from magiccontext.tokenizer import count_many, count_tokens


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (None, None, 1_200),
        (800, None, 1_200),
        (0, 600, 1_200),
        (-5, -5, 1_200),
        (10, 10, 256),
        (750, 400, 400),
        (1_000, 751, 1_002),  # rounded up
        (9_000, 9_000, 4_096),
    ],
)
def test_image_tokens(width: int | None, height: int | None, tokens: int) -> None:
    assert image_tokens(width, height) == tokens


def test_counter_fits_the_engine() -> None:
    counter: TokenCounter = count_many
    assert counter(["hello world", "", "hello"]) == [2, 0, 1]
    assert counter([]) == []


def test_special_token_text_is_text() -> None:
    assert count_tokens("<|endoftext|>") > 1


@pytest.mark.parametrize("text", ["cut \ud83d here", "\ude00", "pair \ud83d\ude00 whole"])
def test_lone_surrogates_count_as_the_replacement_character(text: str) -> None:
    repaired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert count_tokens(text) == count_tokens(repaired) > 0
