"""What makes a run fail."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that must not happen in a run; any of them makes it fail."""

    code: str
    call: int
    detail: str
