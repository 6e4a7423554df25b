"""What edits over the API share: refusals of the services leave as problems (hosts section 10.5)."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError
from rest_framework import serializers
from rest_framework.request import Request

from magiccontext.api.body import invalid
from magiccontext.api.problems import ProblemError
from memory_app.services.refusals import Code, MemoryRefused
from sessions_app.services.calls import Refused
from sessions_app.services.sessions import BadRequest

logger = logging.getLogger(__name__)

T = TypeVar("T")

LARGEST_ID = 2**63 - 1
LARGEST_ORDINAL = 2**31 - 1

_SQLITE_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def _may_pass(error: Exception) -> bool:
    """Whether a retry can help.  SQLite reports a missing column or a full disk by the same exception as a
    held lock, and only its code tells them apart.
    """
    code: int | None = getattr(error.__cause__, "sqlite_errorcode", None)
    return code is None or code & 0xFF in _SQLITE_BUSY


def guarded(work: Callable[[], T]) -> T:
    """Run a service call.  What it refuses leaves as a problem naming the field; a foreign or missing row
    is ``not_found``, a duplicate says what it would repeat in ``duplicate_of``.
    """
    try:
        return work()
    except MemoryRefused as error:
        if error.code is Code.NOT_FOUND:
            raise ProblemError("not_found", error.detail, field=error.field or None) from None
        raise ProblemError(
            "invalid_params",
            f"{error.field}: {error.detail}" if error.field else error.detail,
            field=error.field or None,
            reason=str(error.code),
            duplicate_of=error.other_id,
        ) from None
    except BadRequest as error:
        raise invalid(error.field, error.detail) from None
    except Refused as error:
        raise ProblemError(error.code, error.detail, retry_after=error.retry_after, **error.members) from None
    except (OperationalError, InterfaceError) as error:
        if not _may_pass(error):
            logger.error("the storage cannot be used: %s", error)
            raise ProblemError(
                "storage_failure",
                "The storage cannot be used; the server's log says why. Nothing was changed.",
            ) from None
        raise ProblemError(
            "storage_busy",
            "The storage is busy. Nothing was changed; send the request again.",
            retry_after=2,
        ) from None


def checked(serializer: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    """The body as ``serializer`` reads it.  Raises ``invalid_params`` naming the first member at fault."""
    body = serializer(data=request.data)
    body.is_valid(raise_exception=True)
    values: dict[str, Any] = body.validated_data
    return values


def now() -> datetime:
    return datetime.now(UTC)


def query_text(request: Request, name: str, limit: int = 512) -> str | None:
    """A text of the query string, None when it is absent or empty.  Raises ``invalid_params``."""
    value: str = request.query_params.get(name, "")
    if len(value) > limit or "\x00" in value:
        raise invalid(name, f"must have at most {limit} characters and no NUL")
    return value or None
