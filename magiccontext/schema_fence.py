"""The fence against a database newer than this code (design section 5).

An older server writing into a newer schema would break rules it does not know, so it refuses to start on
one, refuses to be called ready on one, and every transform on one is refused as `schema_fence`.
"""

import threading
import time
from dataclasses import dataclass

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder


@dataclass(frozen=True)
class SchemaState:
    """How the database's migrations compare with the code's.

    `unknown`: applied there, not known here (the database is newer). `missing`: known here, not applied
    there. Both hold `app.migration` names, sorted.
    """

    unknown: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def newer_than_code(self) -> bool:
        """Whether this code must not touch the database."""
        return bool(self.unknown)

    @property
    def ready(self) -> bool:
        """Whether code and database are of one version."""
        return not self.unknown and not self.missing


def schema_state(alias: str = DEFAULT_DB_ALIAS) -> SchemaState:
    """Compare the migrations applied in the database with those of the code. Raises DatabaseError.

    Only apps of this installation count: the rows of an app that was removed say nothing about age. A
    migration that a later one replaces counts as known.
    """
    loader = MigrationLoader(connections[alias], ignore_no_migrations=True)
    known = set(loader.disk_migrations)
    for migration in loader.disk_migrations.values():
        known.update(tuple(replaced) for replaced in migration.replaces)
    applied = set(loader.applied_migrations)
    unknown = {key for key in applied - known if key[0] in loader.migrated_apps}
    missing = set(loader.graph.nodes) - applied
    return SchemaState(
        unknown=tuple(sorted(f"{app}.{name}" for app, name in unknown)),
        missing=tuple(sorted(f"{app}.{name}" for app, name in missing)),
    )


CHECK_EVERY_SECONDS = 5.0


class Fence:
    """The same question asked by a running server, whose database somebody may upgrade under it.

    The code's own migrations are read once; the database's are read again when the last answer is older
    than :data:`CHECK_EVERY_SECONDS`.
    """

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()
        self._apps: set[str] = set()
        self._checked = 0.0
        self._unknown: tuple[str, ...] = ()
        self._guard = threading.Lock()

    def unknown(self, alias: str = DEFAULT_DB_ALIAS) -> tuple[str, ...]:
        """Applied migrations that this code does not know; empty when it may go on.  Raises DatabaseError."""
        with self._guard:
            now = time.monotonic()
            if self._checked and now - self._checked < CHECK_EVERY_SECONDS:
                return self._unknown
            if not self._known:
                self._read_code()
            applied = MigrationRecorder(connections[alias]).applied_migrations()
            newer = {key for key in set(applied) - self._known if key[0] in self._apps}
            self._unknown = tuple(sorted(f"{app}.{name}" for app, name in newer))
            self._checked = now
            return self._unknown

    def forget(self) -> None:
        """Ask again on the next call."""
        with self._guard:
            self._checked = 0.0

    def _read_code(self) -> None:
        loader = MigrationLoader(None, ignore_no_migrations=True)
        self._known = set(loader.disk_migrations)
        for migration in loader.disk_migrations.values():
            self._known.update(tuple(replaced) for replaced in migration.replaces)
        self._apps = set(loader.migrated_apps)


fence = Fence()
