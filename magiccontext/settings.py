"""Django's settings, from the environment, with defaults that are safe for one person on one machine.

| Variable | Default | Effect |
|---|---|---|
| `MAGIC_CONTEXT_HOME` | XDG data directory | where the database, the secret key and the logs live |
| `MAGIC_CONTEXT_SECRET_KEY` | a file in the home, made on first use | signs sessions |
| `MAGIC_CONTEXT_ALLOWED_HOSTS` | loopback names | comma list of host names to answer to |
| `MAGIC_CONTEXT_HTTPS` | off | behind a TLS proxy: secure cookies, HSTS, `X-Forwarded-Proto` is believed |
| `MAGIC_CONTEXT_DEBUG` | off | Django's debug pages |
| `MAGIC_CONTEXT_LOG_LEVEL` | `INFO` | of the project's own loggers |
| `MAGIC_CONTEXT_WORKERS` | 2 | background worker processes of one cluster |
| `DATABASE_URL` | SQLite in the home | PostgreSQL (`postgres://…`), with a connection pool per process |
| `MAGIC_CONTEXT_DB_POOL` | 16 | most connections of that pool |
| `REDIS_URL` | none | channel layer, task queue and cache on Redis, so that many processes share them |

What a person may configure about *behaviour* is not here but in `magiccontext.config` (config.md).
"""

import os
import sys
from pathlib import Path
from typing import Any

import dj_database_url

from magiccontext import config, home

BASE_DIR = Path(__file__).resolve().parent.parent


def _flag(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() in {"1", "true", "yes", "on"}


def _names(name: str, default: str) -> list[str]:
    return [part.strip() for part in os.environ.get(name, default).split(",") if part.strip()]


DEBUG = _flag("MAGIC_CONTEXT_DEBUG")
SECRET_KEY = os.environ.get("MAGIC_CONTEXT_SECRET_KEY") or home.secret_key()
LOOPBACK_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
ALLOWED_HOSTS = _names("MAGIC_CONTEXT_ALLOWED_HOSTS", ",".join(LOOPBACK_HOSTS))

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "rest_framework_api_key",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_htmx",
    "django_q",
    "magiccontext",
    "memory_app",
    "sessions_app",
]

# All of these run in the mode they are called in; a synchronous-only one would cost every API call two
# thread hops under ASGI.
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "magiccontext.security.content_security_middleware",
    "magiccontext.static_files.static_files_middleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    # A page is private unless it says otherwise; REST views authenticate by key and are exempt as such.
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "magiccontext.urls"
WSGI_APPLICATION = "magiccontext.wsgi.application"
ASGI_APPLICATION = "magiccontext.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# The echo view that `manage.py bench` compares with; off outside of a bench.
BENCH = _flag("MAGIC_CONTEXT_BENCH")

# --- storage ---------------------------------------------------------------------------------------------

_memory = config.load().config.sqlite
SQLITE_OPTIONS: dict[str, Any] = {
    "timeout": 5,
    "transaction_mode": "IMMEDIATE",
    "init_command": (
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; "
        f"PRAGMA cache_size=-{int(_memory.cache_size_mb * 1024)}; "
        f"PRAGMA mmap_size={int(_memory.mmap_size_mb * 1024 * 1024)}"
    ),
}


# The background workers fork: a connection pool (its threads do not survive that) is none of their business,
# a connection kept for a while is.
FORKS = sys.argv[1:2] in (["qcluster"], ["task_worker"])
CONNECTION_SECONDS = 60


def _database() -> dict[str, Any]:
    """The one database: `DATABASE_URL`, else SQLite in the home.

    Threads of the web server keep no connection (an ASGI request has a thread of its own); PostgreSQL's are
    kept in a pool instead.
    """
    url = os.environ.get("DATABASE_URL", "").strip()
    if not url:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(home.database_path()),
            "CONN_MAX_AGE": CONNECTION_SECONDS,
            "OPTIONS": dict(SQLITE_OPTIONS),
        }
    database: dict[str, Any] = dict(dj_database_url.parse(url, conn_max_age=CONNECTION_SECONDS))
    options = database.setdefault("OPTIONS", {})
    if database["ENGINE"] == "django.db.backends.sqlite3":
        options.update(SQLITE_OPTIONS)
    elif database["ENGINE"] == "django.db.backends.postgresql" and not FORKS:
        database["CONN_MAX_AGE"] = 0  # kept in the pool, not by the thread
        most = max(2, int(os.environ.get("MAGIC_CONTEXT_DB_POOL", "16")))
        options["pool"] = {"min_size": 1, "max_size": most, "timeout": 10}
    return database


DATABASES = {"default": _database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- shared between processes ----------------------------------------------------------------------------

REDIS_URL = os.environ.get("REDIS_URL", "").strip()

Q_CLUSTER: dict[str, Any] = {
    "name": "magic-context",
    "label": "Background work",
    "workers": max(1, int(os.environ.get("MAGIC_CONTEXT_WORKERS", "2"))),
    # A task is offered again only after it can no longer be running.
    "timeout": 1200,
    "retry": 1500,
    "max_attempts": 3,
    "catch_up": False,
    "guard_cycle": 1,
    "poll": 0.5,
    "save_limit": 500,
}

if REDIS_URL:
    CHANNEL_LAYERS: dict[str, Any] = {
        "default": {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": [REDIS_URL]}}
    }
    CACHES: dict[str, Any] = {
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}
    }
    Q_CLUSTER["redis"] = REDIS_URL
else:
    CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    Q_CLUSTER["orm"] = "default"

# --- web -------------------------------------------------------------------------------------------------

# A transform body may have 64 MiB (hosts.md 10.1); the API refuses more itself, with a problem answer.
TRANSFORM_BODY_BYTES = 64 * 1024 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = TRANSFORM_BODY_BYTES + 64 * 1024
FILE_UPLOAD_PERMISSIONS = 0o600

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

HTTPS = _flag("MAGIC_CONTEXT_HTTPS")
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = HTTPS
CSRF_TRUSTED_ORIGINS = [f"https://{name}" for name in ALLOWED_HOSTS if name != "*"] if HTTPS else []
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if HTTPS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = 31_536_000

STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True
WHITENOISE_ALLOW_ALL_ORIGINS = False

USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

# --- REST ------------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["magiccontext.api.auth.HostKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.LimitOffsetPagination",
    "PAGE_SIZE": 50,
    "EXCEPTION_HANDLER": "magiccontext.api.problems.exception_handler",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Magic Context",
    "DESCRIPTION": "Rewrites the message array of coding agents before each model call.",
    "VERSION": "1",
    # The bodies that are read raw are described with null types and constants.
    "OAS_VERSION": "3.1.1",
    "ENUM_NAME_OVERRIDES": {"LevelEnum": "sessions_app.models.record.Pass.Level"},
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    # Gaps in the description are found by the tests, not told to the log of everybody who opens the page.
    "DISABLE_ERRORS_AND_WARNINGS": True,
}

# --- logs ------------------------------------------------------------------------------------------------

# To standard error only. Nothing here logs bodies, headers or query strings.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "django": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        # A refusal is the API's normal answer, not something to warn the operator about.
        "django.request": {"handlers": ["stderr"], "level": "ERROR", "propagate": False},
        "magiccontext": {"level": os.environ.get("MAGIC_CONTEXT_LOG_LEVEL", "INFO").upper()},
        "sessions_app": {"level": os.environ.get("MAGIC_CONTEXT_LOG_LEVEL", "INFO").upper()},
        "memory_app": {"level": os.environ.get("MAGIC_CONTEXT_LOG_LEVEL", "INFO").upper()},
        "django-q": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        "uvicorn": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
    },
}
