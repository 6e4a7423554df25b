"""Request threads that are kept (design section 10).

Django gives every ASGI request a thread of its own, and with it a database connection of its own.  Opening
those costs more than a small pass.  Here each request leases one of a bounded set of single-thread
executors for its whole length, so that a thread, and the connection it holds, serves many requests in
turn, one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_THREADS = 32


class KeptThreads:
    """An ASGI application that runs ``app`` with a leased thread; further requests wait for one."""

    def __init__(self, app: App, most: int = MOST_THREADS) -> None:
        self._app = app
        self._most = most
        self._idle: list[ThreadPoolExecutor] = []
        self._places: asyncio.Semaphore | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._places is None:
            self._places = asyncio.Semaphore(self._most)
        async with self._places:
            executor = self._idle.pop() if self._idle else ThreadPoolExecutor(1, thread_name_prefix="request")
            try:
                async with ThreadSensitiveContext(executor=executor):
                    await self._app(scope, receive, send)
            finally:
                self._idle.append(executor)
