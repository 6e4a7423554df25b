"""``POST /sessions/{harness}/{sid}/tools/{name}``: one call of a ctx tool (hosts section 10.4)."""

from __future__ import annotations

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request

from magiccontext.api.body import TOOL_LIMIT, Envelope, now_ms, read_bytes
from magiccontext.api.schemas import TOOL_ANSWER, TOOL_BODY
from magiccontext.api.session_view import SessionView
from sessions_app.services.retries import Retry
from sessions_app.services.tool_call import ToolCall
from sessions_app.services.tools import run_tool

CONTROL = frozenset({"call_key", "agent", "at"})
"""Members of the body that are not arguments of the tool."""


def read_tool_call(name: str, body: bytes, retry: Retry, *, replay_scope: bool) -> ToolCall:
    """The call in a request body; an empty body has no arguments.  Raises ``invalid_params``."""
    envelope = Envelope(body or b"{}")
    at = envelope.moment("at", now_ms(), allowed=replay_scope)
    return ToolCall(
        tool=name,
        arguments={member: envelope.value(member) for member in envelope.members if member not in CONTROL},
        call_key=envelope.label("call_key", ""),
        agent=envelope.label("agent", ""),
        now_ms=at,
        retry=retry,
    )


class ToolView(SessionView):
    """Run a tool.  What it says of a wrong call is an answer with ``is_error``, not an HTTP error."""

    @extend_schema(
        operation_id="session_tool",
        request={"application/json": TOOL_BODY},
        responses={200: OpenApiResponse(TOOL_ANSWER, description="What the agent reads.")},
    )
    def post(self, request: Request, harness: str, sid: str, name: str) -> HttpResponse:
        key = self.session_key(request, harness, sid)
        body = read_bytes(request._request, TOOL_LIMIT)
        retry = self.retry(request, body)
        call = read_tool_call(name, body, retry, replay_scope=request.auth.has_scope("replay"))
        return self.replied(retry, lambda: run_tool(key, call))
