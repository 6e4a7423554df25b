"""The background worker as a child of the server, which cannot outlive it.

The child reads a pipe whose only writing end is held by the server. However the server ends, even killed
outright, the operating system closes that end, the child reads end-of-file and stops: first politely, then,
after a grace time, with everything it started (they share a process group of their own).
"""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from typing import IO

logger = logging.getLogger(__name__)

# Seconds a running task gets to finish when everything is to stop.
GRACE_SECONDS = 8.0
RESTART_SECONDS = (1.0, 2.0, 5.0, 15.0, 60.0)


def kill_group(group: int) -> None:
    """End every process of a group at once; nothing happens when none is left."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def stop_when_closed(pipe: IO[bytes], grace: float = GRACE_SECONDS) -> threading.Thread:
    """In the child: once `pipe` ends, send this process SIGTERM, and after `grace` seconds end its group."""

    def watch() -> None:
        while pipe.read(1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace)
        if hasattr(os, "getpgrp"):
            kill_group(os.getpgrp())
        os._exit(1)

    thread = threading.Thread(target=watch, name="server-watch", daemon=True)
    thread.start()
    return thread


class TaskProcess:
    """In the server: keeps one worker child running until `stop()`."""

    def __init__(self, command: list[str] | None = None) -> None:
        self._command = command or [sys.executable, sys.argv[0], "task_worker"]
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._keeper = threading.Thread(target=self._keep, name="task-keeper", daemon=True)

    def start(self) -> None:
        """Start the child and the thread that restarts it should it die on its own."""
        self._keeper.start()

    def _spawn(self) -> "subprocess.Popen[bytes] | None":
        with self._lock:
            if self._stopping.is_set():
                return None
            # A session of its own: the terminal's Ctrl-C reaches only the server, which then stops the child.
            self._child = subprocess.Popen(  # noqa: S603 - our own command line
                self._command, stdin=subprocess.PIPE, start_new_session=True
            )
            return self._child

    def _keep(self) -> None:
        failures = 0
        while (child := self._spawn()) is not None:
            started = time.monotonic()
            status = child.wait()
            kill_group(child.pid)
            if self._stopping.is_set():
                return
            failures = 0 if time.monotonic() - started > 60 else failures + 1
            delay = RESTART_SECONDS[min(failures, len(RESTART_SECONDS) - 1)]
            logger.error("the task worker ended with status %s; starting it again in %.0f s", status, delay)
            if self._stopping.wait(delay):
                return

    def stop(self) -> None:
        """Stop the child and everything it started; returns when nothing of it is left."""
        with self._lock:
            self._stopping.set()
            child = self._child
        if child is None:
            return
        if child.stdin is not None:
            child.stdin.close()
        try:
            child.wait(GRACE_SECONDS + 2)
        except subprocess.TimeoutExpired:
            logger.error("the task worker did not stop in time and was ended")
        kill_group(child.pid)
        child.wait()
