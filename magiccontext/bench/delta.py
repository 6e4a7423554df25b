"""Delta sync: two new messages travel, edits come back, and the length of the session must not matter."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence

import httpx

from magiccontext.bench.client import BenchError, body, only_level, post
from magiccontext.bench.rows import Row, timings
from magiccontext.bench.workload import messages

BOUND_MS = 8.0
RATIO_BOUND = 1.5
WARM = 3


class Growing:
    """A session that grows by delta sync; knows what the server holds of it."""

    def __init__(self, client: httpx.Client, url: str, session: list[bytes], start: int) -> None:
        self._client = client
        self._url = url
        self._session = session
        self.count = 0
        self._base = b""
        self._send(session[:start])

    def step(self, news: int = 2) -> tuple[float, str]:
        """Send ``news`` new messages; milliseconds of the round trip, and the level of the pass."""
        return self._send(self._session[self.count : self.count + news])

    def _send(self, news: list[bytes]) -> tuple[float, str]:
        content = body(news, members=self._base + b'"answer":"edits",')
        start = time.perf_counter()
        answer = post(self._client, self._url, content)
        taken = (time.perf_counter() - start) * 1000
        read = json.loads(answer.content)
        self.count += len(news)
        if self._base and "extends" not in read["view"]:
            raise BenchError("a defer pass answered a complete view")
        self._base = (
            b'"sync":{"base":{"count":%d,"chain":"%s"}},"last_sent":{"view_version":%d,"raw_from":null},'
            % (self.count, read["chain"].encode(), read["view_version"])
        )
        return taken, str(read["pass"]["level"])


def delta_sync(client: httpx.Client, base: str, sizes: Sequence[int], calls: int, run: str) -> Iterator[Row]:
    """A row a session size, each after the first held against the first.

    The sessions take turns, so that whatever else the machine does meets all of them.
    """
    growing = []
    for size in sizes:
        start = size - size % 2 + 1
        session = list(messages(start + 2 * (calls + WARM)))
        url = f"{base}/api/v1/sessions/custom/bench-delta-{run}-{size}/transform"
        growing.append(Growing(client, url, session, start))
    for _ in range(WARM):
        for session_of_size in growing:
            session_of_size.step()
    steps = [[session_of_size.step() for session_of_size in growing] for _ in range(calls)]
    only_level({level for turn in steps for _, level in turn}, "defer")
    shortest: Row | None = None
    for size, turns in zip(sizes, zip(*steps, strict=True), strict=True):
        row = timings(
            f"delta sync, 2 new of {size:,} messages, answer: edits",
            [taken for taken, _ in turns],
            bound=BOUND_MS,
            against=shortest,
            ratio_bound=RATIO_BOUND if shortest is not None else None,
            to=f"{sizes[0]:,} messages" if shortest is not None else "",
        )
        shortest = shortest or row
        yield row
