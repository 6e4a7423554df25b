"""No more of a body is taken in than any address reads (hosts section 10.1)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

from magiccontext.body_limit import BodyLimit
from magiccontext.threads import Receive, Scope, Send

Message = MutableMapping[str, Any]


def play(chunks: list[bytes], headers: list[tuple[bytes, bytes]]) -> tuple[list[Message], int]:
    """What a client is sent, and how many chunks were taken from it."""
    sent: list[Message] = []
    taken = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"fine"})

    async def receive() -> Message:
        nonlocal taken
        body = chunks[taken]
        taken += 1
        return {"type": "http.request", "body": body, "more_body": taken < len(chunks)}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": headers}
    asyncio.run(BodyLimit(app, most=100)(scope, receive, send))
    return sent, taken


def test_it_works() -> None:
    sent, taken = play([b"x" * 60, b"x" * 40], [(b"content-length", b"100")])
    assert (sent[0]["status"], taken) == (200, 2)


def test_a_declared_length_is_refused_before_a_byte_is_read() -> None:
    sent, taken = play([b"x"], [(b"content-length", b"101")])
    assert (sent[0]["status"], taken) == (413, 0)
    assert json.loads(sent[1]["body"])["code"] == "too_large"


def test_an_undeclared_one_is_cut_off() -> None:
    sent, taken = play([b"x" * 60] * 9, [])
    assert (sent[0]["status"], taken) == (413, 2)
