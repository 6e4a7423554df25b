"""The most that is read of any request body (hosts section 10.1).

Django takes a whole body in before a view, and so before a key, is looked at.  Here the length a client
declares is refused at once, and one that declares none is cut off when it has sent too much.
"""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import Any

from magiccontext.threads import App, Receive, Scope, Send

# The largest body any address takes (a transform), and room for the form around an upload.
MOST_BYTES = 65 * 1024 * 1024


class TooMuch(Exception):
    """The client sent more than it may."""


class BodyLimit:
    """An ASGI application that answers 413 itself instead of letting ``app`` read on."""

    def __init__(self, app: App, most: int = MOST_BYTES) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        declared = dict(scope.get("headers", ())).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._most:
            await self._refuse(send)
            return
        taken = 0
        answering = False

        async def counted() -> MutableMapping[str, Any]:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._most:
                raise TooMuch
            return message

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal answering
            answering = True
            await send(message)

        try:
            await self._app(scope, counted, noted)
        except TooMuch:
            if answering:
                raise
            await self._refuse(send)

    async def _refuse(self, send: Send) -> None:
        problem = {
            "type": "urn:magic-context:problem:too_large",
            "title": "The body is too large",
            "status": 413,
            "detail": f"At most {self._most} bytes are read here.",
            "code": "too_large",
        }
        headers = [(b"content-type", b"application/problem+json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(problem).encode()})
