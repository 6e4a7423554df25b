"""Timing round trips, and the rows of the table (design section 10)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from magiccontext.bench.workload import messages

MODEL = "anthropic/claude-sonnet-4-5"
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Row:
    """One line: milliseconds per round trip, and the bound it is held against (None: for comparison)."""

    name: str
    calls: int
    p50: float
    p95: float
    most: float
    bound: float | None = None
    ratio: float | None = None  # to the echo view of the same size
    ratio_bound: float | None = None

    @property
    def held(self) -> bool:
        return (self.bound is None or self.p50 <= self.bound) and (
            self.ratio is None or self.ratio_bound is None or self.ratio <= self.ratio_bound
        )

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "held": self.held}


@dataclass(frozen=True, slots=True)
class Case:
    """A full-array size and its bounds: milliseconds, and times the echo view."""

    count: int
    bound: float
    ratio_bound: float | None


CASES = (Case(200, 8.0, None), Case(1_000, 12.0, 2.0), Case(4_000, 35.0, 2.0))


def quantile(sorted_values: list[float], share: float) -> float:
    return sorted_values[min(len(sorted_values) - 1, round(share * (len(sorted_values) - 1)))]


def timed(calls: list[Callable[[], object]]) -> list[float]:
    """Milliseconds of each call, sorted."""
    taken = []
    for call in calls:
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1000)
    return sorted(taken)


def body(prefix: list[bytes], window: int) -> bytes:
    return (
        b'{"format":"anthropic","model":"%s","context_limit":%d,"capabilities":{"tools":["ctx_reduce"]},'
        b'"messages":[%s]}' % (MODEL.encode(), window, b",".join(prefix))
    )


def resident_mebibytes(pid: int) -> float | None:
    """Memory of a process, where the system says it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = next((line for line in status.splitlines() if line.startswith("VmRSS:")), None)
    return int(found.split()[1]) / 1024 if found else None


def _post(client: httpx.Client, url: str, content: bytes) -> dict[str, object]:
    answer = client.post(url, content=content, headers={"Content-Type": "application/json"})
    if answer.status_code != 200:
        raise RuntimeError(f"{url} answered {answer.status_code}: {answer.text[:300]}")
    return {} if url.endswith("/echo") else dict(json.loads(answer.content).get("pass") or {})


def full_array(client: httpx.Client, base: str, case: Case, calls: int, run: str) -> Iterator[Row]:
    """A defer pass and the echo view over the same bodies, alternating; the first pass apart."""
    all_messages = list(messages(case.count + 2 * (calls + 3)))
    window = 10_000_000  # so that nothing but the array decides
    bodies = [
        body(all_messages[: case.count - case.count % 2 + 1 + 2 * step], window) for step in range(calls + 3)
    ]
    url = f"{base}/api/v1/sessions/custom/bench-{run}-{case.count}/transform"
    echo = f"{base}/bench/echo"
    first = timed([lambda: _post(client, url, bodies[0])])
    for warm in bodies[1:3]:
        _post(client, url, warm)
        _post(client, echo, warm)
    passes: list[float] = []
    echoes: list[float] = []
    levels = set()
    for content in bodies[3:]:
        start = time.perf_counter()
        decided = client.post(url, content=content, headers={"Content-Type": "application/json"})
        passes.append((time.perf_counter() - start) * 1000)
        if decided.status_code != 200:
            raise RuntimeError(f"{url} answered {decided.status_code}: {decided.text[:300]}")
        levels.add(json.loads(decided.content)["pass"]["level"])
        echoes += timed([lambda content=content: _post(client, echo, content)])
    if levels != {"defer"}:
        raise RuntimeError(f"expected defer passes only, got {sorted(levels)}")
    passes.sort()
    echoes.sort()
    echo_p50 = quantile(echoes, 0.5)
    size = sum(map(len, all_messages[: case.count])) / MEBIBYTE
    label = f"{case.count:,} messages, {size:.1f} MiB"
    yield Row(
        f"defer pass, full array, {label}",
        len(passes), quantile(passes, 0.5), quantile(passes, 0.95), passes[-1],
        case.bound, quantile(passes, 0.5) / echo_p50, case.ratio_bound,
    )  # fmt: skip
    yield Row(f"echo view, {label}", len(echoes), echo_p50, quantile(echoes, 0.95), echoes[-1])
    yield Row(
        f"first pass, unseen session, {label}", 1, first[0], first[0], first[0],
        2_000.0 if case.count >= 4_000 else None,
    )  # fmt: skip
