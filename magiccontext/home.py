"""The one directory this server keeps its data in (design section 7, config.md section 1).

It holds `db.sqlite3`, `secret_key` and `logs/`. It is never a folder of a plugin: those stores are only read
when something is imported from them.
"""

import os
import secrets
from pathlib import Path

APP_FOLDER = "magic-context"


def home_path() -> Path:
    """Where the data directory is, without touching the disk.

    `MAGIC_CONTEXT_HOME` when set (`~` expands), else `$XDG_DATA_HOME/magic-context` when that variable is
    absolute, else `~/.local/share/magic-context`.
    """
    chosen = os.environ.get("MAGIC_CONTEXT_HOME", "").strip()
    if chosen:
        return Path(chosen).expanduser().absolute()
    xdg = os.environ.get("XDG_DATA_HOME", "").strip()
    base = Path(xdg) if xdg and Path(xdg).is_absolute() else Path.home() / ".local" / "share"
    return base / APP_FOLDER


def ensure_home() -> Path:
    """The data directory, created for its owner alone (mode 0700) when missing. Raises OSError."""
    home = home_path()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return home


def database_path() -> Path:
    """The SQLite file used when no `DATABASE_URL` is given."""
    return ensure_home() / "db.sqlite3"


def logs_path() -> Path:
    """The folder for log files, created with mode 0700 when missing."""
    logs = ensure_home() / "logs"
    logs.mkdir(mode=0o700, exist_ok=True)
    return logs


def secret_key() -> str:
    """The installation's secret, made on first use and kept in a file only its owner reads (mode 0600).

    Two processes starting at once agree on one value: the complete file is linked into place, so the first
    wins and the other reads what it finds.
    """
    path = ensure_home() / "secret_key"
    if not path.exists():
        draft = path.with_name(f"secret_key.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as handle:
            handle.write(secrets.token_urlsafe(50))
        try:
            os.link(draft, path)
        except FileExistsError:
            # Another process was first; its key is the one to use.
            pass
        finally:
            draft.unlink()
    key = path.read_text(encoding="ascii").strip()
    if len(key) < 32:
        raise RuntimeError(f"{path} does not hold a usable secret key; remove it to have a new one made")
    return key
