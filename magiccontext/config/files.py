"""Where the person's file is, and reading it again when it changes (config.md sections 1, 3 and 9)."""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from magiccontext.config.jsonc import parse
from magiccontext.config.problems import ConfigProblem, Outcome, ProblemClass, outcome_of
from magiccontext.config.recovery import recover
from magiccontext.config.schema import Config, restart_keys
from magiccontext.config.substitution import substitute

SUFFIXES = (".jsonc", ".json")
# Outcomes that a reload does not adopt: the last good settings stay.
BROKEN = frozenset({Outcome.PARSE_ERROR, Outcome.IO_ERROR, Outcome.SCHEMA_RECOVERY})
READ_ATTEMPTS = 3

Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class Loaded:
    """Settings in force and how they came about.

    `path` is the file in use, or the place where one would be looked for first. `problems` are those of the
    file as it is now, also when it was too broken to be adopted (`adopted` is then False). `waiting` names
    keys whose new value waits for a restart.
    """

    config: Config
    problems: tuple[ConfigProblem, ...]
    path: Path
    adopted: bool = True
    waiting: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The worst thing that happened."""
        return outcome_of(self.problems)


def user_config_base(environment: Mapping[str, str], home: Path) -> Path:
    """The user file's path without its suffix (section 1)."""
    xdg = environment.get("XDG_CONFIG_HOME", "")
    root = Path(xdg) if xdg and Path(xdg).is_absolute() else home / ".config"
    return root / "cortexkit" / "magic-context"


def find_file(base: Path) -> Path:
    """The first of `.jsonc` and `.json` that exists; the `.jsonc` path when neither does."""
    candidates = [base.with_name(base.name + suffix) for suffix in SUFFIXES]
    return next((path for path in candidates if path.exists()), candidates[0])


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def read_file(path: Path, environment: Mapping[str, str], home: Path) -> Loaded:
    """Read one user file whatever its state; a missing one gives the defaults. Never raises.

    Order: bytes, substitution, parsing, validation with recovery (section 3, the steps of one tier).
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Loaded(Config(), (), path)
    except OSError as error:
        message = f"the file cannot be read ({error.strerror or type(error).__name__}); defaults apply"
        return Loaded(Config(), (ConfigProblem(ProblemClass.FILE_IO, str(path), message),), path)
    problems: list[ConfigProblem] = []
    text = data.decode("utf-8-sig", errors="replace")
    substituted, found = substitute(text, path, environment, home)
    problems += found
    parsed = parse(substituted)
    if parsed.error is not None:
        place, message = parsed.error
        problems.append(
            ConfigProblem(
                ProblemClass.FILE_PARSE, str(path), message, place.line, place.column, bool(parsed.value)
            )
        )
    if not parsed.root_is_object:
        message = "the file holds no object; defaults apply"
        problems.append(ConfigProblem(ProblemClass.INVALID_LEAF, str(path), message, 1, 1))
    for place, dotted in parsed.unsafe:
        message = f"the key {dotted} is never used and was left out"
        problems.append(ConfigProblem(ProblemClass.SECURITY, str(path), message, place.line, place.column))
    config, invalid = recover(parsed.value, parsed.places, path)
    return Loaded(config, tuple(problems + invalid), path)


class ConfigReader:
    """Reads one user file, again whenever it changes on disk.

    The first read takes what it can get. A later one is adopted only when the file is whole and valid, so a
    half-written save changes nothing; and of it only the live keys, while the others keep their first value
    until a restart (section 9).
    """

    def __init__(self, base: Path, environment: Mapping[str, str], home: Path) -> None:
        self._base = base
        self._environment = environment
        self._home = home
        self._lock = threading.Lock()
        self._seen: tuple[Path, Stamp | None] | None = None
        self._boot: Config | None = None
        self._loaded: Loaded | None = None

    def load(self) -> Loaded:
        """The settings in force; one `stat` or two when nothing changed."""
        with self._lock:
            path = find_file(self._base)
            seen = (path, _stamp(path))
            if self._loaded is None or seen != self._seen:
                fresh, seen = self._settled(path)
                self._loaded = self._adopt(fresh)
                self._seen = seen
            return self._loaded

    def _settled(self, path: Path) -> tuple[Loaded, tuple[Path, Stamp | None]]:
        # A file changed while it was read is read again; still changing, it is read once more next time.
        before = _stamp(path)
        for _ in range(READ_ATTEMPTS):
            fresh = read_file(path, self._environment, self._home)
            after = _stamp(path)
            if after == before:
                break
            before = after
        return fresh, (path, before)

    def _adopt(self, fresh: Loaded) -> Loaded:
        if self._boot is None or self._loaded is None:
            self._boot = fresh.config
            return fresh
        if fresh.outcome in BROKEN:
            return replace(self._loaded, problems=fresh.problems, path=fresh.path, adopted=False)
        return _with_boot_values(fresh, self._boot)


def _with_boot_values(fresh: Loaded, boot: Config) -> Loaded:
    held = restart_keys()
    waiting = sorted(name for name in held if getattr(fresh.config, name) != getattr(boot, name))
    values = {name: getattr(boot if name in held else fresh.config, name) for name in Config.model_fields}
    written = (boot.model_fields_set & held) | (fresh.config.model_fields_set - held)
    # Both sides are validated already; what was written down must stay distinguishable from a default.
    config = Config.model_construct(_fields_set=written, **values)
    return replace(fresh, config=config, waiting=tuple(waiting))


_readers: dict[tuple[Path, Path], ConfigReader] = {}
_readers_lock = threading.Lock()


def load() -> Loaded:
    """The person's settings, as `ConfigReader.load` gives them for this process's environment."""
    home = Path.home()
    base = user_config_base(os.environ, home)
    with _readers_lock:
        reader = _readers.setdefault((base, home), ConfigReader(base, os.environ, home))
    return reader.load()
