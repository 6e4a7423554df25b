"""Real server processes on one home, started and killed at will."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]


def environment(home: Path) -> dict[str, str]:
    """The environment of a server on ``home``; the database is that of the run (MC_TEST_DATABASE_URL)."""
    values = {
        **os.environ,
        "MAGIC_CONTEXT_HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "DJANGO_SETTINGS_MODULE": "magiccontext.settings",
        "REDIS_URL": "",
    }
    values.pop("DATABASE_URL", None)
    return values


def manage(home: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *words],
        env=environment(home),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.strip()


def prepare(home: Path) -> str:
    """Migrate, make a person and a key; the key."""
    manage(home, "migrate", "--verbosity", "0")
    manage(home, "shell", "-c", "from magiccontext.first_run import create_first_user; create_first_user()")
    return manage(home, "token", "test", "--scope", "host,replay,admin")


class Server:
    """One web server process, without the task worker, on a port of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> None:
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), "serve", "--port", str(port), "--without-tasks"],
            env=environment(self.home),
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self.process.poll() is None, "the server ended at once"
            try:
                if httpx.get(f"{self.url}/healthz", timeout=2).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.05)
        raise AssertionError("the server did not come up")

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()


@contextmanager
def servers(home: Path, count: int) -> Iterator[list[Server]]:
    started = [Server(home) for _ in range(count)]
    try:
        for server in started:
            server.start()
        yield started
    finally:
        for server in started:
            server.stop()


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
