"""The lines of the table: what was measured, in which unit, and the bounds it is held against."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One line: values of ``calls`` measurements in ``unit``.

    ``bound`` is held against the median.  ``ratio`` is the median over that of what ``to`` names, held
    against ``ratio_bound``.  A bound of None: for comparison only.
    """

    name: str
    calls: int
    p50: float
    p95: float
    most: float
    bound: float | None = None
    ratio: float | None = None
    ratio_bound: float | None = None
    to: str = ""
    unit: str = "ms"

    @property
    def held(self) -> bool:
        return (self.bound is None or self.p50 <= self.bound) and (
            self.ratio is None or self.ratio_bound is None or self.ratio <= self.ratio_bound
        )

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "held": self.held}


def timings(
    name: str,
    milliseconds: Sequence[float],
    *,
    bound: float | None = None,
    against: Row | None = None,
    ratio_bound: float | None = None,
    to: str = "",
) -> Row:
    """A row of timings; ``against`` is the row its ratio is taken to, ``to`` what the table calls that."""
    ordered = sorted(milliseconds)
    middle = quantile(ordered, 0.5)
    return Row(
        name,
        len(ordered),
        middle,
        quantile(ordered, 0.95),
        ordered[-1],
        bound,
        middle / against.p50 if against is not None else None,
        ratio_bound,
        to,
    )


def single(name: str, value: float, unit: str, bound: float | None = None) -> Row:
    """A row of one value."""
    return Row(name, 1, value, value, value, bound, unit=unit)


def quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def timed(call: Callable[[], object]) -> float:
    """Milliseconds one call took."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1000
