"""The replay's side of the REST contract (design section 8, hosts sections 10.1 and 10.2)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec

from magiccontext.replay.raw_json import NULL, decode_slices

RETRIED = {"storage_busy", "in_progress", "degraded_pass"}
ATTEMPTS = 4
LONGEST_WAIT_S = 5.0


class ServerGoneError(RuntimeError):
    """The server cannot be reached any more; there is nothing left to measure."""


class _Body(msgspec.Struct):
    messages: list[msgspec.Raw]
    view_version: int
    report: dict[str, Any] = msgspec.field(name="pass")
    system: msgspec.Raw = NULL
    raw_from: Any = None
    chain: str | None = None
    notices: list[dict[str, Any]] = msgspec.field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Answer:
    """A transform answer. Messages and system are the bytes they came as; `report` is its `pass` object."""

    messages: tuple[bytes, ...]
    system: bytes | None
    view_version: int
    report: dict[str, Any]
    raw_from: Any
    chain: str | None
    notices: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer with an error status: its problem code and text."""

    status: int
    code: str
    detail: str


class ApiClient:
    """Sends one session's requests over one kept-alive connection."""

    def __init__(self, client: httpx.Client, session: str) -> None:
        self._client = client
        self._session = f"custom/{session}"
        self._base = f"/api/v1/sessions/{self._session}"

    def transform(self, key: str, body: dict[str, Any]) -> Answer | Refusal:
        """Raises ServerGoneError, or ValueError when a 200 answer is not what the contract says."""
        response = self._post(f"{self._base}/transform", key, body)
        if response.status_code != 200:
            return _refusal(response)
        read, restore = decode_slices(response.content, _Body)
        return Answer(
            messages=tuple(restore(raw) for raw in read.messages),
            system=None if read.system == NULL else restore(read.system),
            view_version=read.view_version,
            report=read.report,
            raw_from=read.raw_from,
            chain=read.chain,
            notices=read.notices,
        )

    def ctx_reduce(self, key: str, drop: str, at: str) -> str | Refusal | None:
        """Call the tool; None when it worked, the tool's own error text when it refused."""
        body = {"drop": drop, "call_key": key, "at": at}
        response = self._post(f"{self._base}/tools/ctx_reduce", key, body)
        if response.status_code != 200:
            return _refusal(response)
        answer = msgspec.json.decode(response.content)
        return str(answer.get("content")) if answer.get("is_error") else None

    def publish(self, key: str, compartments: list[dict[str, Any]]) -> Refusal | None:
        """Publish compartments of the session over the admin API; None when it worked."""
        body = {"session": self._session, "compartments": compartments, "producer": "replay"}
        response = self._post("/api/v1/compartments/", key, body)
        return None if response.status_code == 201 else _refusal(response)

    def _post(self, path: str, key: str, body: dict[str, Any]) -> httpx.Response:
        content = msgspec.json.encode(body)
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                response = self._client.post(path, content=content, headers=headers)
            except httpx.HTTPError as error:
                raise ServerGoneError(f"{type(error).__name__}: {error}") from error
            if attempt == ATTEMPTS or response.status_code < 400 or _refusal(response).code not in RETRIED:
                break
            time.sleep(_wait_s(response))
        return response


def _refusal(response: httpx.Response) -> Refusal:
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        return Refusal(response.status_code, "not_json", response.text[:200])
    return Refusal(response.status_code, str(problem.get("code", "")), str(problem.get("detail", "")))


def _wait_s(response: httpx.Response) -> float:
    try:
        return min(max(float(response.headers.get("Retry-After", "1")), 0.0), LONGEST_WAIT_S)
    except ValueError:
        return 1.0


def rfc3339(time_ms: int) -> str:
    """Milliseconds since the epoch as the contract writes times."""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
