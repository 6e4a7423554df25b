"""A plain request to Anthropic's Messages API, or its bare `messages` array.

The messages are kept as the bytes they came in. Such a file has no times, so its calls are taken to be
20 seconds apart; each assistant message was one call, and what stands behind the last of them is one more.
"""

from __future__ import annotations

import msgspec

from magiccontext.replay.facts import facts_of
from magiccontext.replay.raw_json import NULL, decode_slices
from magiccontext.replay.transcript import Call, Transcript, TranscriptError

START_MS = 1_767_225_600_000
SPACING_MS = 20_000


class _Request(msgspec.Struct):
    messages: list[msgspec.Raw]
    model: str = ""
    system: msgspec.Raw = NULL
    tools: list[msgspec.Raw] | None = None


def read(data: bytes, name: str) -> Transcript:
    try:
        if data.lstrip()[:1] == b"[":
            bare, restore = decode_slices(data, list[msgspec.Raw])
            request = _Request(messages=bare)
        else:
            request, restore = decode_slices(data, _Request)
        messages = tuple(restore(raw) for raw in request.messages)
        roles = [facts_of(raw).role for raw in messages]
    except (ValueError, RecursionError) as error:
        raise TranscriptError(f"not an Anthropic request: {error}") from error
    model = request.model if "/" in request.model else f"anthropic/{request.model or 'unknown'}"
    calls: list[Call] = []
    for number in range(1, len(messages) + 1):
        answered = number < len(messages) and roles[number] == "assistant"
        if roles[number - 1] == "user" and (answered or number == len(messages)):
            start = START_MS + len(calls) * SPACING_MS
            response = number if answered else None
            calls.append(Call(len(calls), start, start + SPACING_MS // 2, number, model, None, response))
    if not calls:
        raise TranscriptError("no user message in this request")
    return Transcript(
        messages=messages,
        calls=tuple(calls),
        model=model,
        source_format="anthropic",
        session_id=name,
        system=None if request.system == NULL else restore(request.system),
        tools=tuple(restore(tool) for tool in request.tools or ()),
    )
