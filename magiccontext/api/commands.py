"""``POST /sessions/{harness}/{sid}/commands/{name}``: what a person asks for (hosts section 10.4)."""

from __future__ import annotations

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request

from magiccontext.api.body import TOOL_LIMIT, Envelope, now_ms, read_bytes
from magiccontext.api.schemas import COMMAND_ANSWER, COMMAND_BODY
from magiccontext.api.session_view import SessionView
from sessions_app.services.commands import CommandCall, run_command

CONTROL = frozenset({"confirm", "at"})


class CommandView(SessionView):
    """Run a command."""

    @extend_schema(
        operation_id="session_command",
        request={"application/json": COMMAND_BODY},
        responses={200: OpenApiResponse(COMMAND_ANSWER, description="Text for the person, and the figures.")},
    )
    def post(self, request: Request, harness: str, sid: str, name: str) -> HttpResponse:
        key = self.session_key(request, harness, sid)
        body = read_bytes(request._request, TOOL_LIMIT)
        retry = self.retry(request, body)
        envelope = Envelope(body or b"{}")
        call = CommandCall(
            name=name,
            arguments={m: envelope.value(m) for m in envelope.members if m not in CONTROL},
            confirm=envelope.label("confirm", ""),
            now_ms=envelope.moment("at", now_ms(), allowed=request.auth.has_scope("replay")),
            retry=retry,
        )
        return self.replied(retry, lambda: run_command(key, call))
