"""The data directory and the secret in it (design section 7)."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from magiccontext import home


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAGIC_CONTEXT_HOME", str(tmp_path / "deep" / "home"))
    return tmp_path / "deep" / "home"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_made_for_its_owner_alone(place: Path) -> None:
    assert home.ensure_home() == place
    assert (mode(place), mode(home.logs_path())) == (0o700, 0o700)


def test_the_secret_is_made_once_and_read_by_its_owner_alone(place: Path) -> None:
    first = home.secret_key()
    assert (home.secret_key(), mode(place / "secret_key")) == (first, 0o600)
    assert len(first) >= 50
    assert [path.name for path in place.iterdir()] == ["secret_key"]


def test_processes_that_start_together_agree_on_one_secret(place: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: home.secret_key(), range(8)))) == 1


def test_a_damaged_secret_is_not_used(place: Path) -> None:
    home.ensure_home()
    (place / "secret_key").write_text("short")
    with pytest.raises(RuntimeError, match="secret_key"):
        home.secret_key()


@pytest.mark.parametrize(
    ("xdg", "expected"),
    [
        ("/data", "/data/magic-context"),
        ("relative", "~/.local/share/magic-context"),
        ("", "~/.local/share/magic-context"),
    ],
)
def test_the_default_place_follows_xdg(monkeypatch: pytest.MonkeyPatch, xdg: str, expected: str) -> None:
    monkeypatch.setenv("MAGIC_CONTEXT_HOME", " ")
    monkeypatch.setenv("XDG_DATA_HOME", xdg)
    assert home.home_path() == Path(expected).expanduser()
