from typing import Any

import pytest

from magiccontext.engine.overflow import (
    OVERFLOWS,
    Provenance,
    believable,
    detected_survives,
    message_of,
    parse_overflow,
)

# Section 8.1, one text per shape in the order of the spec.
TEXTS = [
    "Prompt is too long",
    "input is too long for requested model",
    "your input exceeds the context window of this model",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
    "Please reduce the length of the messages.",
    "maximum context length is 128,000 tokens",
    "maximum model length is 32768",
    "prompt token count of 70000 exceeds the limit of 64000",
    "exceeds the available context size",
    "the prompt is greater than the context length",
    "context window exceeds limit (2013)",
    "Your request exceeded model token limit: 262144",
    "context_length_exceeded",
    "413 Request Entity Too Large",
    "context length is only 4096 tokens",
    "input length 9000 exceeds the context length of 8192",
    "prompt too long; exceeded max context length by 200 tokens",
    "too large for model with 32768 maximum context length",
    "stop: model_context_window_exceeded",
    "Context size has been exceeded",
    "prompt exceeds the configured max_context_tokens: 65536",
    "payload refused with 413",
]


@pytest.mark.parametrize(("number", "text"), list(enumerate(TEXTS)))
def test_every_shape_is_an_overflow(number: int, text: str) -> None:
    assert OVERFLOWS[number].search(text)
    assert parse_overflow(text).is_overflow
    assert parse_overflow(text.upper()).is_overflow


def test_every_pattern_has_a_text() -> None:
    assert len(TEXTS) == len(OVERFLOWS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rate limit exceeded",
        "error 4130 in context",
        "413",
        "status 413 (teapot)",
        "maximum context length is unknown",
    ],
)
def test_other_errors_are_none(text: str) -> None:
    assert parse_overflow(text) == parse_overflow("Overloaded")
    assert not parse_overflow(text).is_overflow


# (text, limit, provenance, reported input)
LIMITS = [
    (
        "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
        131_072,
        Provenance.PROMPT_ONLY,
        None,
    ),
    ("prompt is too long: 215034 tokens > 200000 maximum", 200_000, Provenance.PROMPT_ONLY, 215_034),
    (
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        1_048_576,
        Provenance.PROMPT_ONLY,
        1_200_000,
    ),
    (
        "maximum context length is 128,000 tokens. However, your messages resulted in 140,210 tokens.",
        128_000,
        Provenance.COMBINED,
        140_210,
    ),
    ("maximum model length is 32768", 32_768, Provenance.COMBINED, None),
    ("input length 9000 exceeds the context length of 8192", 8_192, Provenance.COMBINED, 9_000),
    ("exceeds the available context size (8192 tokens)", 8_192, Provenance.COMBINED, None),
    ("too large for model with 32768 maximum context length", 32_768, Provenance.COMBINED, None),
    ("context length is only 4096 tokens; your prompt was 5000", 4_096, Provenance.COMBINED, 5_000),
    ("prompt token count of 70000 exceeds the limit of 64000", 64_000, Provenance.UNKNOWN, None),
    ("prompt exceeds the configured max_context_tokens: 65536", 65_536, Provenance.UNKNOWN, None),
    ("exceeds the limit of 1023", None, None, None),
    ("exceeds the limit of 10000001", None, None, None),
    ("exceeds the limit of " + "9" * 4_999, None, None, None),
]


@pytest.mark.parametrize(("text", "limit", "provenance", "reported"), LIMITS)
def test_limit(text: str, limit: int | None, provenance: Provenance | None, reported: int | None) -> None:
    seen = parse_overflow(text)
    assert (seen.limit, seen.provenance, seen.reported_input) == (limit, provenance, reported)
    assert seen.limit is None or believable(seen.limit)


def test_case_46_several_numbers_quoted_gives_the_limit() -> None:
    text = (
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 140210 "
        "tokens (132018 of text input, 8192 in the output)."
    )
    assert parse_overflow(text).limit == 131_072
    zero = "maximum context length is 0 tokens; the maximum context length is 65536 tokens, prompt 70000"
    assert parse_overflow(zero).limit == 65_536


def test_case_47_a_larger_accepted_request_clears_a_detected_limit() -> None:
    assert not detected_survives(200_000, 230_000)
    assert detected_survives(200_000, 200_000)


# (error object, the text that counts)
OBJECTS: list[tuple[dict[str, Any], str]] = [
    ({"error": {"error": {"message": "deepest"}, "message": "inner"}, "message": "outer"}, "deepest"),
    ({"error": {"message": "inner"}, "message": "outer"}, "inner"),
    ({"data": {"message": "nested"}, "message": "outer"}, "nested"),
    ({"message": "outer", "responseBody": "body"}, "outer"),
    ({"message": "", "responseBody": "body"}, "body"),
    ({"error": "text"}, '{"error": "text"}'),
    ({"error": 413}, '{"error": 413}'),
]


@pytest.mark.parametrize(("error", "text"), OBJECTS)
def test_message_of_an_error_object(error: dict[str, Any], text: str) -> None:
    assert message_of(error) == text


def test_a_long_error_is_read_from_its_beginning_only() -> None:
    assert not parse_overflow("413 " * 200_000 + "prompt").is_overflow
