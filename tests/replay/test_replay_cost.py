"""The provider-cache model against sums done by hand (design section 11)."""

import pytest

from magiccontext.replay.cost import (
    DEFAULT_FRONT_TOKENS,
    PrefixCache,
    Slice,
    common_front,
    front_tokens,
    output_tokens,
)
from magiccontext.replay.lifetime import lifetime_ms
from magiccontext.replay.readers.anthropic_json import read as read_request
from magiccontext.replay.tokens import MESSAGE_TOKENS, MessageBook
from tests.replay.replay_fake import conversation, count_characters

FRONT = Slice(b"front", 1000)
A, B, C, D = (Slice(name, 100) for name in (b"a", b"b", b"c", b"d"))
FIVE_MINUTES = 300_000


def cache() -> PrefixCache:
    return PrefixCache(lambda model: FIVE_MINUTES)


def test_first_request_writes_everything() -> None:
    charge = cache().charge("m", 0, 0, [FRONT, A], 10)
    assert (charge.read_tokens, charge.write_tokens, charge.outcome) == (0, 1100, "first")
    assert charge.cost == pytest.approx(1100 * 1.25 + 10 * 5)


def test_an_appended_message_reads_the_rest() -> None:
    provider = cache()
    provider.charge("m", 0, 0, [FRONT, A], 0)
    charge = provider.charge("m", 1000, 1000, [FRONT, A, B], 0)
    assert (charge.read_tokens, charge.write_tokens, charge.outcome) == (1100, 100, "hit")
    assert charge.cost == pytest.approx(1100 * 0.1 + 100 * 1.25)


def test_a_changed_message_writes_all_behind_it() -> None:
    provider = cache()
    provider.charge("m", 0, 0, [FRONT, A, B, C], 0)
    charge = provider.charge("m", 1000, 1000, [FRONT, A, D, C], 0)
    assert (charge.read_tokens, charge.write_tokens) == (1100, 200)
    assert (charge.outcome, charge.changed_at) == ("bust", 2)


def test_a_shortened_request_is_a_change() -> None:
    provider = cache()
    provider.charge("m", 0, 0, [FRONT, A, B], 0)
    charge = provider.charge("m", 1000, 1000, [FRONT, A], 0)
    assert (charge.outcome, charge.changed_at, charge.write_tokens) == ("bust", 2, 0)


def test_the_gap_counts_from_the_last_use_and_its_end_is_still_alive() -> None:
    provider = cache()
    provider.charge("m", 0, 10_000, [FRONT, A], 0)
    alive = provider.charge("m", 310_000, 320_000, [FRONT, A, B], 0)
    assert alive.outcome == "hit"
    gone = provider.charge("m", 320_000 + FIVE_MINUTES + 1, 700_000, [FRONT, A, B, C], 0)
    assert (gone.outcome, gone.read_tokens, gone.lost) == ("idle", 0, "idle")


def test_a_change_while_the_cache_was_gone_costs_nothing_more() -> None:
    provider = cache()
    provider.charge("m", 0, 0, [FRONT, A, B], 0)
    charge = provider.charge("m", FIVE_MINUTES + 1, FIVE_MINUTES + 1, [FRONT, A], 0)
    assert (charge.outcome, charge.changed_at, charge.lost) == ("idle", 2, "idle")


def test_another_model_has_another_cache_and_the_old_one_lives_on() -> None:
    provider = cache()
    provider.charge("m", 0, 0, [FRONT, A], 0)
    switched = provider.charge("n", 1000, 1000, [FRONT, A, B], 0)
    assert (switched.outcome, switched.read_tokens) == ("model", 0)
    back = provider.charge("m", 2000, 2000, [FRONT, A, B, C], 0)
    assert (back.outcome, back.read_tokens) == ("model", 1100)


def test_common_front() -> None:
    assert common_front([b"a", b"b"], [b"a", b"c"]) == 1
    assert common_front([b"a", b"b"], [b"a", b"b", b"c"]) == 2
    assert common_front([], [b"a"]) == 0


def test_front_is_the_first_recorded_prompt_without_its_messages() -> None:
    transcript = conversation(2)
    book = MessageBook(count_characters)
    # The recording says 6 prompt tokens, less than its messages: unusable, so the default.
    assert front_tokens(transcript, book) == DEFAULT_FRONT_TOKENS
    plain = read_request(b'{"messages":[{"role":"user","content":"hello"}]}', "r")
    assert front_tokens(plain, book) == DEFAULT_FRONT_TOKENS


def test_output_is_the_larger_of_counted_and_reported() -> None:
    transcript = conversation(1)
    book = MessageBook(count_characters)
    counted, billed = output_tokens(transcript, transcript.calls[0], book)
    assert counted == len("Reading 0.") + 1 + len('read {"n":0}') + MESSAGE_TOKENS
    assert billed == counted


@pytest.mark.parametrize(
    ("model", "minutes"),
    [
        ("anthropic/claude-opus-4-6", 5),
        ("openai/gpt-5.5", 5),
        ("openai/gpt-5.6", 30),
        ("openai/gpt-5", 5),
        ("x/gpt-6-astra", 30),
    ],
)
def test_built_in_lifetimes(model: str, minutes: int) -> None:
    assert lifetime_ms(model) == minutes * 60_000
