"""Full arrays: a defer pass beside the echo view, and the first pass over an unseen session."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from magiccontext.bench.client import body, level, only_level, post
from magiccontext.bench.rows import Row, timed, timings
from magiccontext.bench.workload import messages

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Case:
    """A full-array size and its bounds: milliseconds, and times the echo view."""

    count: int
    bound: float
    ratio_bound: float | None


CASES = (Case(200, 8.0, None), Case(1_000, 12.0, 2.0), Case(4_000, 35.0, 2.0))


def full_array(client: httpx.Client, base: str, case: Case, calls: int, run: str) -> Iterator[Row]:
    """A defer pass and the echo view over the same bodies, alternating; the first pass apart."""
    all_messages = list(messages(case.count + 2 * (calls + 3)))
    bodies = [body(all_messages[: case.count - case.count % 2 + 1 + 2 * step]) for step in range(calls + 3)]
    url = f"{base}/api/v1/sessions/custom/bench-{run}-{case.count}/transform"
    echo = f"{base}/bench/echo"
    first = timed(lambda: post(client, url, bodies[0]))
    for warm in bodies[1:3]:
        post(client, url, warm)
        post(client, echo, warm)
    passes: list[float] = []
    echoes: list[float] = []
    levels = set()
    for content in bodies[3:]:
        start = time.perf_counter()
        decided = post(client, url, content)
        passes.append((time.perf_counter() - start) * 1000)
        levels.add(level(decided))
        start = time.perf_counter()
        post(client, echo, content)
        echoes.append((time.perf_counter() - start) * 1000)
    only_level(levels, "defer")
    size = sum(map(len, all_messages[: case.count])) / MEBIBYTE
    label = f"{case.count:,} messages, {size:.1f} MiB"
    least = timings(f"echo view, {label}", echoes)
    yield timings(
        f"defer pass, full array, {label}",
        passes,
        bound=case.bound,
        against=least,
        ratio_bound=case.ratio_bound,
        to="echo view",
    )
    yield least
    yield timings(
        f"first pass, unseen session, {label}", [first], bound=2_000.0 if case.count >= 4_000 else None
    )
