"""`manage.py serve` starts all, shows the first key once and leaves nothing running (design section 7)."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from magiccontext.management.commands.serve import is_loopback

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 40.0

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="reads the process table of Linux"
)


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    kept.update(
        MAGIC_CONTEXT_HOME=str(home),
        XDG_CONFIG_HOME=str(home / "config"),
        DJANGO_SETTINGS_MODULE="magiccontext.settings",
        PYTHONUNBUFFERED="1",
    )
    return kept


def manage(home: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "manage.py", *args],
        cwd=ROOT,
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def live_processes() -> dict[int, int]:
    """pid → parent pid of every process that is not a zombie."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] not in {"Z", "X"}:
            found[int(folder.name)] = int(fields[1])
    return found


def descendants(root: int) -> set[int]:
    parents = live_processes()
    found: set[int] = set()
    grown = True
    while grown:
        new = {pid for pid, parent in parents.items() if parent == root or parent in found} - found
        found |= new
        grown = bool(new)
    return found


def wait_until(condition: object, seconds: float = SECONDS) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.1)
    return False


class Served:
    """A server started on a free port, and what it printed."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "serve", "--port", "0"],
            cwd=ROOT,
            env=environment(home),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.printed = ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed += line
            if "Ctrl-C" in line:
                break
        found = re.search(r"http://127\.0\.0\.1:\d+", self.printed)
        assert found is not None, self.printed
        self.url = found[0]
        assert wait_until(lambda: self.status("/healthz") == 200), self.printed
        # Sentinel, workers, monitor and pusher of the task worker.
        assert wait_until(lambda: len(descendants(self.process.pid)) >= 5)

    def status(self, path: str, key: str | None = None) -> int:
        request = urllib.request.Request(self.url + path)
        if key is not None:
            request.add_header("Authorization", f"Bearer {key}")
        try:
            with urllib.request.urlopen(request, timeout=5) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def served(home: Path) -> Iterator[Served]:
    server = Served(home)
    started = descendants(server.process.pid)
    yield server
    server.process.kill()
    server.process.wait()
    for pid in started & live_processes().keys():
        os.kill(pid, signal.SIGKILL)


def test_it_starts_and_a_polite_end_leaves_nothing(served: Served, home: Path) -> None:
    assert served.status("/readyz") == 200
    assert served.status("/login/") == 200
    found = re.search(r"API key\s+(\S+)", served.printed)
    assert found is not None
    key = found[1]
    password = re.search(r"password\s+(\S+)", served.printed)
    assert password is not None

    started = descendants(served.process.pid)
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(SECONDS) == 0
    assert wait_until(lambda: not started & live_processes().keys(), 5)

    # The key opens the API; neither it nor the password is anywhere on disk.
    checked = manage(
        home,
        "shell",
        "-v0",
        "-c",
        f"""
from sessions_app.models import HostKey
import json
key = HostKey.objects.get_from_key({key!r})
print(json.dumps([key.scopes, key.owner.username, key.owner.check_password({password[1]!r})]))
""",
    )
    assert json.loads(checked.stdout) == [["admin", "host"], "admin", True], checked.stderr
    for path in home.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert key.partition(".")[2].encode() not in content, path
            assert password[1].encode() not in content, path


def test_a_second_start_shows_no_secret(home: Path) -> None:
    first = Served(home)
    first.process.send_signal(signal.SIGINT)
    assert first.process.wait(SECONDS) == 0
    second = Served(home)
    try:
        assert "API key" in first.printed
        assert "API key" not in second.printed
        assert "password" not in second.printed
    finally:
        second.process.send_signal(signal.SIGTERM)
        second.process.wait(SECONDS)


def test_a_killed_server_takes_its_worker_along(served: Served) -> None:
    started = descendants(served.process.pid)
    served.process.kill()
    served.process.wait(SECONDS)
    assert wait_until(lambda: not started & live_processes().keys(), 25)


def test_a_taken_port_is_said_plainly(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = manage(home, "serve", "--port", str(taken.getsockname()[1]))
    assert result.returncode == 1
    assert "cannot listen" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_address_others_can_reach_needs_a_word(home: Path) -> None:
    result = manage(home, "serve", "--host", "0.0.0.0", "--port", "0")
    assert result.returncode == 1
    assert "--allow-remote" in result.stderr


FROM_THE_FUTURE = """
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
MigrationRecorder(connection).record_applied("sessions_app", "9999_from_the_future")
"""


def test_a_newer_database_is_refused_and_left_alone(home: Path) -> None:
    assert manage(home, "migrate", "-v0").returncode == 0
    assert manage(home, "shell", "-v0", "-c", FROM_THE_FUTURE).returncode == 0
    result = manage(home, "serve", "--port", "0")
    assert result.returncode == 1
    assert "newer than this server" in result.stderr
    assert "API key" not in result.stdout


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.4", False),
        ("example.org", False),
        ("", False),
    ],
)
def test_which_addresses_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
