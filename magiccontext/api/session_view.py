"""What every address below ``/sessions/{harness}/{sid}/`` shares: identity, retries, errors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.views import APIView

from magiccontext.api.auth import HasScope
from magiccontext.api.body import invalid
from magiccontext.api.problems import ProblemError
from magiccontext.api.writes import guarded
from magiccontext.schema_fence import fence
from sessions_app import models
from sessions_app.services.retries import Reply, Retry
from sessions_app.services.sessions import BadRequest, SessionKey, find

T = TypeVar("T")


class SessionView(APIView):
    """The session is named by the path and the key's owner; nothing else is consulted (hosts section 1)."""

    permission_classes = [HasScope("host")]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """After the caller is known: nothing of a database newer than this code is read or written."""
        super().initial(request, *args, **kwargs)
        if unknown := self.guarded(fence.unknown):
            raise ProblemError(
                "schema_fence",
                f"The database is newer than this server ({', '.join(unknown[:3])}). Upgrade the server; "
                "until then no request of this session may be sent to the model.",
            )

    def session_key(self, request: Request, harness: str, sid: str) -> SessionKey:
        try:
            key = SessionKey.of(request.user, harness, sid)
        except BadRequest as error:
            raise invalid(error.field, error.detail) from None
        if not request.auth.allows_harness(key.harness):
            raise ProblemError("foreign_session", f"This key may not reach sessions of {key.harness}.")
        return key

    def existing(self, key: SessionKey) -> models.Session:
        session = find(key)
        if session is None:
            raise ProblemError("unknown_session", "No such session; it begins with its first transform.")
        return session

    def idempotency_key(self, request: Request) -> str:
        value: str = request.headers.get("Idempotency-Key", "")
        if len(value) > 255 or not value.isprintable():
            raise invalid("Idempotency-Key", "must have at most 255 printable characters")
        return value

    def retry(self, request: Request, body: bytes) -> Retry:
        """The identity of this request: the same key with another body, or at another address, conflicts."""
        key = self.idempotency_key(request)
        # Without a key nothing is compared, and big bodies are not hashed.
        digest = hashlib.sha256(request.path_info.encode() + b"\0" + body).digest() if key else b""
        return Retry(request.user, key, digest)

    def replied(self, retry: Retry, work: Callable[[], Reply]) -> HttpResponse:
        """The answer of ``work``, or the first one this request got."""
        reply = self.guarded(lambda: retry.once(work))
        return HttpResponse(reply.text, status=reply.status, content_type="application/json")

    def guarded(self, work: Callable[[], T]) -> T:
        """Run a service call; what it raises leaves as a problem of hosts section 10.5."""
        return guarded(work)
