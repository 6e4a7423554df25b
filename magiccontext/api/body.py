"""Reading request bodies as raw members (design section 4).

The envelope is read once; big members stay bytes, small ones are checked against their type.  Every error
names the member.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime

from magiccontext.api.problems import ProblemError
from magiccontext.engine.wire.spans import InvalidJson, check_depth, read_array, split_body

T = TypeVar("T")

TRANSFORM_LIMIT = 64 * 1024 * 1024
NOTICE_LIMIT = 4 * 1024 * 1024
TOOL_LIMIT = 256 * 1024


def invalid(field: str, detail: str) -> ProblemError:
    return ProblemError("invalid_params", f"{field}: {detail}" if field else detail, field=field or None)


def read_bytes(request: HttpRequest, limit: int) -> bytes:
    """The body, at most ``limit`` bytes.  Raises the problem ``too_large``."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    if length.isdigit() and int(length) > limit:
        raise ProblemError("too_large", f"The body has {length} bytes; at most {limit} are read here.")
    body = request.read(limit + 1)
    if len(body) > limit:
        raise ProblemError("too_large", f"The body is larger than the {limit} bytes that are read here.")
    return body


class Envelope:
    """The members of a JSON object body, raw.  ``null`` counts as absent."""

    def __init__(self, body: bytes) -> None:
        try:
            self.members = {name: raw for name, raw in split_body(body).items() if raw.strip() != b"null"}
        except InvalidJson as error:
            raise invalid(
                "", f"The body is not a JSON object: {error.detail} at byte {error.position}."
            ) from None

    def get(self, name: str, type: type[T] | Any, default: Any = None) -> Any:
        """A small member as ``type``; ``default`` when absent.  Raises ``invalid_params`` naming it."""
        raw = self.members.get(name)
        if raw is None:
            return default
        try:
            return msgspec.json.decode(raw, type=type)
        except msgspec.ValidationError as error:
            raise invalid(name, str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise invalid(name, "cannot be read") from None

    def require(self, name: str, type: type[T] | Any) -> Any:
        if name not in self.members:
            raise invalid(name, "is required")
        return self.get(name, type)

    def moment(self, name: str, now: int, *, allowed: bool) -> int:
        """``at``, the time it is said to be: milliseconds, ``now`` when absent (hosts section 10.1)."""
        if name not in self.members:
            return now
        if not allowed:
            raise invalid(name, "only a key with scope replay may say what time it is")
        return milliseconds(self.require(name, str), name)

    def label(self, name: str, default: str | None = None) -> str:
        """A short text that names something: 1 to 255 characters, none of them control characters.

        Without ``default`` it is required; with one, an empty text counts as absent.
        """
        value: str = self.require(name, str) if default is None else self.get(name, str, "")
        if default is not None and not value:
            return default
        if not 0 < len(value) <= 255 or any(ord(c) < 32 or ord(c) == 127 for c in value):
            raise invalid(name, "must have 1 to 255 characters and no control characters")
        return value

    def value(self, name: str) -> Any:
        """Any JSON value, strings with lone surrogates included; None when absent."""
        raw = self.members.get(name)
        if raw is None:
            return None
        try:
            check_depth(raw, 1)
            return json.loads(raw)
        except InvalidJson as error:
            raise invalid(name, f"{error.detail} at byte {error.position} of it") from None
        except ValueError:
            raise invalid(name, "cannot be read") from None

    def array(self, name: str) -> list[bytes]:
        """The raw elements of a required array."""
        if name not in self.members:
            raise invalid(name, "is required")
        try:
            return read_array(self.members[name], 1)
        except InvalidJson as error:
            raise invalid(name, f"{error.detail} at byte {error.position} of it") from None

    def size(self, names: Sequence[str]) -> int:
        return sum(len(self.members.get(name, b"")) for name in names)


def milliseconds(value: str, field: str) -> int:
    """An RFC 3339 time as milliseconds since the epoch; without a zone it is refused."""
    try:
        moment = parse_datetime(value)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise invalid(field, "must be an RFC 3339 time with a zone, such as 2026-11-30T12:00:00Z")
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        raise invalid(field, "is out of range") from None
    if not 2000 <= moment.year <= 2200:
        raise invalid(field, "must lie between the years 2000 and 2200")
    return int(moment.timestamp() * 1000)


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)
