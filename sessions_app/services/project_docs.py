"""A project's documents, read by the server where the host sends none (history-render section 1).

Only below the directories the person configured (``project_docs_root``), and only what really lies there:
every step of the path is opened relative to the one before it and none is followed, so neither a symbolic
link nor a directory that is swapped meanwhile leads anywhere else.  POSIX only.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

NAMES = ("ARCHITECTURE.md", "STRUCTURE.md")
"""In the order in which they are rendered."""

MOST_BYTES = 256 * 1024
MOST_KEPT = 64

_STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A named pipe must not hold the pass up before anybody has seen what it is.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Print = tuple[int, int, int, int]
"""Device, inode, size and modification time in ns: equal ones, equal contents."""


class TextCache:
    """The newest text of recently read files, under what they looked like when it was read."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, str], tuple[Print, str]] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, key: tuple[str, str], looks: Print) -> str | None:
        with self._guard:
            found = self._kept.get(key)
            if found is None or found[0] != looks:
                return None
            self._kept.move_to_end(key)
            return found[1]

    def put(self, key: tuple[str, str], looks: Print, text: str) -> None:
        with self._guard:
            self._kept[key] = (looks, text)
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        with self._guard:
            self._kept.clear()


texts = TextCache()


def read(directory: str, roots: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(name, text) of the documents in ``directory``; empty when it lies below none of ``roots``.

    ``roots`` are absolute directories.  A file is absent unless it is a regular one of at most 256 KiB, when
    it is looked at and again when it is read.  Bytes that are no UTF-8 become replacement characters.
    """
    for root in roots:
        steps = _below(directory, root)
        if steps is not None:
            with _opened(root, steps) as folder:
                return () if folder is None else tuple(_documents(folder, directory))
    return ()


def _below(directory: str, root: str) -> list[str] | None:
    """The names from ``root`` down to ``directory``; None when it does not lie there.

    ``..`` is refused wherever it stands: behind a link it would mean another place than the text says.
    """
    wanted, base = Path(directory), Path(root)
    if not wanted.is_absolute() or os.pardir in wanted.parts or "\0" in directory:
        return None
    return list(wanted.relative_to(base).parts) if wanted.is_relative_to(base) else None


@contextmanager
def _opened(root: str, steps: Sequence[str]) -> Iterator[int | None]:
    """A descriptor of the directory, or None when a step is missing, a link, or no directory.

    The root itself may be a link: the person named it.
    """
    folder = None
    try:
        folder = os.open(root, _STEP & ~os.O_NOFOLLOW)
        for name in steps:
            inner = os.open(name, _STEP, dir_fd=folder)
            os.close(folder)
            folder = inner
    except OSError:
        if folder is not None:
            os.close(folder)
        folder = None
    try:
        yield folder
    finally:
        if folder is not None:
            os.close(folder)


def _documents(folder: int, directory: str) -> Iterator[tuple[str, str]]:
    for name in NAMES:
        text = _text(folder, directory, name)
        if text is not None:
            yield name, text


def _text(folder: int, directory: str, name: str) -> str | None:
    try:
        if not _counts(os.stat(name, dir_fd=folder, follow_symlinks=False)):
            return None
        file = os.open(name, _FILE, dir_fd=folder)
    except OSError:
        return None
    with os.fdopen(file, "rb") as stream:
        found = os.fstat(file)
        if not _counts(found):
            return None
        looks = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        known = texts.get((directory, name), looks)
        if known is not None:
            return known
        try:
            raw = stream.read(MOST_BYTES + 1)
        except OSError:
            return None
    if len(raw) > MOST_BYTES:
        return None
    text = raw.decode("utf-8", "replace")
    texts.put((directory, name), looks, text)
    return text


def _counts(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_size <= MOST_BYTES
