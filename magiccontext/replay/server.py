"""A server of our own for the length of a run: started, waited for, given a key, stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import IO

import httpx

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 90.0
STOP_SECONDS = 20.0
SCOPES = "host,replay,admin"
GREETING = "Magic Context: "


class StartError(RuntimeError):
    """The server did not come up; the text says what it printed."""


@dataclass(slots=True)
class Running:
    """A started server. `said` is what it printed so far: address, and on a first start the login."""

    process: subprocess.Popen[str]
    environment: dict[str, str]
    url: str = ""
    said: list[str] = field(default_factory=list)

    def key(self, name: str) -> str:
        """A new API key that may pass recorded times. Raises StartError."""
        made = subprocess.run(  # noqa: S603
            [*_django(), "token", name, "--scope", SCOPES],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise StartError(f"no API key could be made: {made.stderr.strip()}")
        return made.stdout.strip()


@contextmanager
def running_server(port: int = 0, extra: Mapping[str, str] | None = None) -> Iterator[Running]:
    """`manage.py serve` on `port` (0: a free one) with the environment plus `extra`, until the block ends.

    Raises StartError when it does not answer within 90 seconds.
    """
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "magiccontext.settings", **(extra or {})}
    process = subprocess.Popen(  # noqa: S603
        [*_django(), "serve", "--port", str(port)],
        env=environment,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        # Ctrl-C is ours to handle: the table is printed first, then the server is told.
        start_new_session=True,
    )
    running = Running(process, environment)
    assert process.stdout is not None
    Thread(target=_listen, args=(process.stdout, running.said), daemon=True).start()
    try:
        _await_ready(running)
        yield running
    finally:
        _stop(process)


@contextmanager
def private_server() -> Iterator[Running]:
    """A server with a home and a configuration of its own that are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="magic-context-replay-") as folder:
        home = Path(folder)
        extra = {
            "MAGIC_CONTEXT_HOME": str(home / "data"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "DATABASE_URL": "",
            "REDIS_URL": "",
        }
        with running_server(extra=extra) as running:
            yield running


def _django() -> list[str]:
    """The command line of this project: of a checkout, or of an installed package, which has no manage.py."""
    script = ROOT / "manage.py"
    return [sys.executable, str(script)] if script.exists() else [sys.executable, "-m", "django"]


def _listen(stream: IO[str], said: list[str]) -> None:
    for line in stream:
        said.append(line.rstrip("\n"))


def _await_ready(running: Running) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if running.process.poll() is not None:
            raise StartError("the server ended at once: " + (" ".join(running.said) or "see above"))
        if not running.url:
            line = next((line for line in running.said if line.startswith(GREETING)), "")
            running.url = line.removeprefix(GREETING).strip().rstrip("/")
        if running.url and _ready(running.url):
            return
        time.sleep(0.1)
    raise StartError(f"the server did not answer within {START_SECONDS:.0f} seconds")


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            # Its task worker is in the same session of processes and must not outlive it.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.stdout is not None:
        process.stdout.close()
