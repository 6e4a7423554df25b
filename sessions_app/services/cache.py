"""Snapshots of recently used sessions, per process (design section 4).

Only a cache: a snapshot is used only while its version is the stored one, else the rows are read again.
Requests of one session that meet in one process take turns on its lock; between processes the version
decides (design section 5).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager

from django.conf import settings

from magiccontext.engine.state import PendingDrop, SessionState, Vars
from sessions_app import models
from sessions_app.services import store


class StateCache:
    """Least recently used snapshots up to ``max_bytes`` of message bytes."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._states: OrderedDict[int, tuple[SessionState, int]] = OrderedDict()
        self._bytes = 0
        self._guard = threading.Lock()
        self._locks: dict[Hashable, tuple[threading.Lock, int]] = {}
        self._raw_from: dict[int, int | str] = {}

    @contextmanager
    def turn(self, identity: Hashable) -> Iterator[None]:
        """Hold this session's lock in this process."""
        with self._guard:
            lock, users = self._locks.get(identity, (threading.Lock(), 0))
            self._locks[identity] = (lock, users + 1)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, users = self._locks[identity]
                if users == 1:
                    del self._locks[identity]
                else:
                    self._locks[identity] = (lock, users - 1)

    def get(self, session: models.Session) -> SessionState:
        """The snapshot of ``session`` at its stored version.  Hold its turn."""
        with self._guard:
            entry = self._states.get(session.pk)
            if entry is not None and entry[0].vars.version == session.version:
                self._states.move_to_end(session.pk)
                return entry[0]
        self.forget(session.pk)
        state = store.load(session)
        self.put(session.pk, state)
        return state

    def put(self, session_id: int, state: SessionState) -> None:
        size = 4096 + 2 * state.vars.raw_bytes + 1500 * len(state.path)
        with self._guard:
            self._drop(session_id)
            self._states[session_id] = (state, size)
            self._bytes += size
            while self._bytes > self.max_bytes and len(self._states) > 1:
                self._drop(next(iter(self._states)))

    def carry(self, session_id: int, before: int, vars: Vars, queued: Iterable[PendingDrop] = ()) -> None:
        """Bring a snapshot up to a committed write that changed only scalars and the queue.

        ``before`` is the version that write found; a snapshot of another one is left to be read again.  A
        host that reports each response would otherwise pay for a full read on each pass.  Hold the turn.
        """
        with self._guard:
            entry = self._states.get(session_id)
            if entry is not None and entry[0].vars.version == before:
                entry[0].vars = vars
                entry[0].pending.update((drop.number, drop) for drop in queued)

    def note_raw(self, session_id: int, raw_from: int | str) -> None:
        """Remember that an answer of this process had to leave messages raw while nothing could be stored.

        A help for hosts that do not say what they sent; one that does is believed instead.
        """
        with self._guard:
            self._raw_from.setdefault(session_id, raw_from)

    def raw_from(self, session_id: int) -> int | str | None:
        with self._guard:
            return self._raw_from.get(session_id)

    def raw_settled(self, session_id: int) -> None:
        with self._guard:
            self._raw_from.pop(session_id, None)

    def forget(self, session_id: int) -> None:
        with self._guard:
            self._drop(session_id)

    def clear(self) -> None:
        with self._guard:
            self._states.clear()
            self._bytes = 0

    def _drop(self, session_id: int) -> None:
        entry = self._states.pop(session_id, None)
        if entry is not None:
            self._bytes -= entry[1]


states = StateCache(getattr(settings, "SESSION_STATE_BYTES", 192 * 1024 * 1024))
