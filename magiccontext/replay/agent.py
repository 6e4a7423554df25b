"""The agent of `--reduce K`: it gives back what it no longer needs, through the real tool.

It knows only what a model would see: the `§N§` at the front of tool results in the array it was sent. A
result is spent once K further calls were made; marks go out in batches, because each one is a tool call.
"""

from __future__ import annotations

from collections.abc import Iterable

BATCH = 5


class ReducingAgent:
    """Keeps track of tags by the call that first showed them."""

    def __init__(self, keep_calls: int) -> None:
        self._keep_calls = keep_calls
        self._first_seen: dict[int, int] = {}
        self._marked: set[int] = set()
        self.outstanding: set[int] = set()

    def see(self, call: int, tags: Iterable[int]) -> None:
        """The tags of all tool results in the array of this call; a marked one that is gone has landed."""
        shown = set(tags)
        for tag in shown:
            self._first_seen.setdefault(tag, call)
        self.outstanding &= shown
        self._first_seen = {tag: seen for tag, seen in self._first_seen.items() if tag in shown}

    def spent(self, call: int) -> list[int]:
        """Tags to mark after this call, ascending; empty until at least five are newly spent."""
        due = sorted(
            tag
            for tag, seen in self._first_seen.items()
            if call - seen >= self._keep_calls and tag not in self._marked
        )
        return due if len(due) >= BATCH else []

    def mark(self, tags: Iterable[int], *, accepted: bool = True) -> None:
        """These were handed to the tool; one it refused is not offered again and is not outstanding."""
        marked = set(tags)
        self._marked |= marked
        if accepted:
            self.outstanding |= marked


def drop_argument(tags: Iterable[int]) -> str:
    """`ctx_reduce`'s `drop` text for ascending tags, neighbours as ranges (reclaim-core section 2)."""
    ranges: list[list[int]] = []
    for tag in tags:
        if ranges and tag == ranges[-1][1] + 1:
            ranges[-1][1] = tag
        else:
            ranges.append([tag, tag])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)
