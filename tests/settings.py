"""The settings of the test run: the real ones, on a home of their own.

The database is a file, because an in-memory SQLite knows neither WAL nor a second connection. With
`MC_TEST_DATABASE_URL` the same tests run on that server.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_home = tempfile.mkdtemp(prefix="magic-context-tests-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)

os.environ["MAGIC_CONTEXT_HOME"] = _home
# A person's own configuration must not decide what a test sees.
os.environ["XDG_CONFIG_HOME"] = str(Path(_home) / "config")
os.environ.pop("REDIS_URL", None)
_database_url = os.environ.get("MC_TEST_DATABASE_URL", "")
if _database_url:
    os.environ["DATABASE_URL"] = _database_url
else:
    os.environ.pop("DATABASE_URL", None)

from magiccontext.settings import *  # noqa: E402, F403
from magiccontext.settings import DATABASES  # noqa: E402

if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["TEST"] = {"NAME": str(Path(_home) / "test.sqlite3")}

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
