"""A plain request to Anthropic's Messages API, or its bare `messages` array.

The messages are kept as the bytes they came in. Such a file has no times, so its calls are taken to be
20 seconds apart; each assistant message was one call, and what stands behind the last of them is one more.
"""

from __future__ import annotations

import msgspec

from magiccontext.replay.facts import facts_of
from magiccontext.replay.transcript import Call, Transcript, TranscriptError

START_MS = 1_767_225_600_000
SPACING_MS = 20_000


class _Request(msgspec.Struct):
    messages: list[msgspec.Raw]
    model: str = ""
    system: msgspec.Raw | None = None
    tools: list[msgspec.Raw] | None = None


def read(data: bytes, name: str) -> Transcript:
    try:
        if data.lstrip()[:1] == b"[":
            request = _Request(messages=msgspec.json.decode(data, type=list[msgspec.Raw]))
        else:
            request = msgspec.json.decode(data, type=_Request)
        messages = tuple(bytes(raw) for raw in request.messages)
        roles = [facts_of(raw).role for raw in messages]
    except ValueError as error:
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
        system=bytes(request.system) if request.system is not None else None,
        tools=tuple(bytes(tool) for tool in request.tools or ()),
    )
