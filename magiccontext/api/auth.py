"""Who calls: `Authorization: Bearer <key>` → the key's row and its owner (design section 8, hosts.md 10)."""

import re
from datetime import datetime, timedelta
from typing import Any, Self

from django.contrib.auth.models import AbstractBaseUser
from django.db import OperationalError, connections, router, transaction
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from magiccontext.api.problems import ProblemError
from sessions_app.models import HostKey

# The library's keys: a prefix of 8 characters and a secret of 32. Nothing else reaches the database.
_KEY = re.compile(r"[A-Za-z0-9]{8}\.[A-Za-z0-9]{32}")

LAST_SEEN_EVERY = timedelta(minutes=1)


def bearer_key(header: str) -> str | None:
    """The key in an `Authorization` header, or None when the header is of another scheme or empty."""
    scheme, _, credentials = header.strip().partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else None


def authenticate_key(request: HttpRequest) -> HostKey | None:
    """The usable key a request carries, its `owner` loaded; None when it carries no bearer key.

    Raises ProblemError `unauthorized` for a key that is unknown, revoked or expired, or whose owner is not
    active. Costs one query, and one small write a minute and key. For plain Django views; DRF views get the
    same through `HostKeyAuthentication`.
    """
    presented = bearer_key(request.META.get("HTTP_AUTHORIZATION", ""))
    if presented is None:
        return None
    host_key = _usable(presented)
    if host_key is None or host_key.has_expired or not host_key.owner.is_active:
        raise ProblemError("unauthorized", "The key is not known here, or no longer valid.")
    note_seen(host_key, timezone.now())
    return host_key


def _usable(presented: str) -> HostKey | None:
    if _KEY.fullmatch(presented) is None:
        return None
    prefix = presented.partition(".")[0]
    found = HostKey.objects.get_usable_keys().select_related("owner").filter(prefix=prefix).first()
    return found if found is not None and found.is_valid(presented) else None


def note_seen(host_key: HostKey, now: datetime) -> bool:
    """Record that the key was used; at most once a minute, and only if that needs no waiting.

    Returns whether it was written. A database somebody else is writing to is left alone: the next request
    tries again, and none is ever held up or failed by this.
    """
    if host_key.last_seen is not None and now - host_key.last_seen < LAST_SEEN_EVERY:
        return False
    try:
        with _without_waiting(), transaction.atomic():
            if connections[router.db_for_write(HostKey)].vendor == "postgresql":
                with connections[router.db_for_write(HostKey)].cursor() as cursor:
                    cursor.execute("SET LOCAL lock_timeout = '10ms'")
            HostKey.objects.filter(pk=host_key.pk).update(last_seen=now)
    except OperationalError:
        return False
    host_key.last_seen = now
    return True


class _without_waiting:  # noqa: N801 - reads as the phrase it is
    """Within it, SQLite reports a held write lock at once instead of after its busy timeout."""

    def __enter__(self) -> None:
        self._connection = connections[router.db_for_write(HostKey)]
        self._set(0)

    def __exit__(self, *exc_info: object) -> None:
        self._set(int(1000 * self._connection.settings_dict["OPTIONS"].get("timeout", 5)))

    def _set(self, milliseconds: int) -> None:
        if self._connection.vendor == "sqlite":
            with self._connection.cursor() as cursor:
                cursor.execute(f"PRAGMA busy_timeout = {milliseconds}")


class HostKeyAuthentication(BaseAuthentication):
    """DRF: `request.user` is the key's owner, `request.auth` the HostKey."""

    def authenticate(self, request: Request) -> tuple[AbstractBaseUser, HostKey] | None:
        """None without a bearer key. Raises ProblemError `unauthorized` for one that is not valid."""
        host_key = authenticate_key(request._request)
        return None if host_key is None else (host_key.owner, host_key)

    def authenticate_header(self, request: Request) -> str:
        """What a 401 asks for."""
        return "Bearer"


class HasScope(BasePermission):
    """`permission_classes = [HasScope("admin")]`: only a key with that scope passes."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.message = f"This key has no scope {scope!r}."

    def __call__(self) -> Self:
        # DRF instantiates what it is given; this one is already an instance.
        return self

    def has_permission(self, request: Request, view: Any) -> bool:
        """Whether the request came with a key, and the key has the scope."""
        return isinstance(request.auth, HostKey) and request.auth.has_scope(self.scope)
