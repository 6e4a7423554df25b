"""Many sessions: at the same time, and in memory afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from magiccontext.bench.client import BenchError, body, post
from magiccontext.bench.delta import Growing
from magiccontext.bench.rows import Row, single, timings
from magiccontext.bench.workload import messages

CONCURRENT = 16
MEMORY_BOUND_MIB = 572.0
"""600 MB (design section 10)."""
FULL_SESSIONS = 200
SESSION_MESSAGES = 1_000
"""About 250,000 tokens."""


def concurrent_sessions(
    base: str, headers: dict[str, str], length: int, passes: int, run: str
) -> Iterator[Row]:
    """``CONCURRENT`` sessions at once, each with a connection of its own.

    Passes after the first are delta syncs: a lost write would be a base that the server does not hold, and
    counts as a refusal like every other answer that is none.
    """
    start = length - length % 2 + 1
    session = list(messages(start + 2 * passes))
    together = threading.Barrier(CONCURRENT)

    def play(number: int) -> tuple[list[float], int]:
        taken: list[float] = []
        with httpx.Client(headers=headers, timeout=120) as client:
            url = f"{base}/api/v1/sessions/custom/bench-load-{run}-{number}/transform"
            together.wait()
            try:
                growing = Growing(client, url, session, start)
                taken.extend(growing.step()[0] for _ in range(passes))
            except (BenchError, httpx.HTTPError):
                return taken, 1
        return taken, 0

    with ThreadPoolExecutor(CONCURRENT) as pool:
        played = list(pool.map(play, range(CONCURRENT)))
    label = f"{CONCURRENT} concurrent sessions of {length:,} messages, {passes} passes each"
    yield single(f"refusals, {label}", sum(refused for _, refused in played), "refusals", bound=0)
    yield timings(f"a pass of {label}", [value for taken, _ in played for value in taken] or [float("inf")])


def memory_after(client: httpx.Client, base: str, pid: int, sessions: int, run: str) -> Iterator[Row]:
    """Memory of the server after ``sessions`` sessions of about 250k tokens."""
    session = list(messages(SESSION_MESSAGES + 1))
    before = resident_mebibytes(pid)
    for number in range(sessions):
        url = f"{base}/api/v1/sessions/custom/bench-memory-{run}-{number}/transform"
        # No two sessions share a message, as in life.
        own = b'{"role":"user","content":"Session %d."}' % number
        post(client, url, body([own, *session[1:]]))
    after = resident_mebibytes(pid)
    if before is None or after is None:
        return
    yield single("memory of the server at its start", before, "MiB")
    yield single(
        f"memory of the server after {sessions} sessions of 250k tokens",
        after,
        "MiB",
        MEMORY_BOUND_MIB if sessions >= FULL_SESSIONS else None,
    )


def resident_mebibytes(pid: int) -> float | None:
    """Memory of a process, where the system says it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = next((line for line in status.splitlines() if line.startswith("VmRSS:")), None)
    return int(found.split()[1]) / 1024 if found else None
