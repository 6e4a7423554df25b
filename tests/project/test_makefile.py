"""What `make` hands on to the commands."""

import shutil
import subprocess

import pytest

from magiccontext.settings import BASE_DIR


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_name_of_a_session_may_hold_spaces(tmp_path):
    recording = tmp_path / "my session.jsonl"
    recording.write_text("")
    (tmp_path / "manage.py").write_text("import sys; print(sys.argv[1:])")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(shutil.which("python3"))
    (tmp_path / "bin" / ".ready").touch()
    done = subprocess.run(
        [
            "make",
            "-s",
            "-o",
            "ready",
            "-f",
            BASE_DIR / "Makefile",
            "demo",
            f"BIN={tmp_path}/bin",
            "READY=ready",
            f"SESSION={recording}",
            "EXIT=1",
            "PORT=1",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == str(["demo", "--session", str(recording), "--exit", "--port", "1"])
