"""``POST /sessions/{harness}/{sid}/transform``: the full-array pass (hosts section 10.2)."""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
import orjson
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request

from magiccontext.api.body import TRANSFORM_LIMIT, Envelope, invalid, milliseconds, now_ms, read_bytes
from magiccontext.api.schemas import TRANSFORM_ANSWER, TRANSFORM_BODY
from magiccontext.api.session_view import SessionView
from magiccontext.api.usage import Usage
from magiccontext.engine.toolnames import is_reduce_tool
from magiccontext.engine.wire import FORMATS
from sessions_app.services.calls import Answer, LastSent, SyncBase, TransformCall
from sessions_app.services.retries import Retry
from sessions_app.services.transform import transform

ModelKey = msgspec.Meta(min_length=1, max_length=255)


class Project(msgspec.Struct):
    directory: str | None = None
    identity: str | None = None
    docs: dict[str, str] | None = None


class Sent(msgspec.Struct):
    view_version: int
    raw_from: int | str | None = None


class Base(msgspec.Struct):
    count: int
    chain: str


class Sync(msgspec.Struct):
    base: Base


class Estimate(msgspec.Struct):
    request_tokens: int


class Capabilities(msgspec.Struct):
    tools: list[str] | None = None
    remove_messages: bool = True
    images: bool = False
    abort: bool = False
    own_tools: bool = False
    stores_nudges: bool = False
    compaction_marker: bool = False


class ToolName(msgspec.Struct):
    """A tool definition, as far as its name goes: at the top (Anthropic) or under ``function`` (OpenAI)."""

    name: str | None = None
    function: dict[str, Any] | None = None

    def named(self) -> str:
        inner = self.function.get("name") if self.function else None
        return self.name or (inner if isinstance(inner, str) else "")


def _clean(value: str, field: str) -> str:
    if any(ord(c) < 32 or 0xD800 <= ord(c) <= 0xDFFF for c in value):
        raise invalid(field, "must not hold control characters")
    return value


def read_call(body: bytes, retry: Retry, *, replay_scope: bool) -> tuple[TransformCall, bytes | None]:
    """The call in a request body, and its raw ``system``.  Raises ``invalid_params`` naming the member."""
    envelope = Envelope(body)
    purpose = envelope.get("purpose", Literal["turn", "utility"], "turn")
    wire_format = envelope.require("format", str)
    if wire_format not in FORMATS:
        raise invalid("format", f"unknown format; known are {', '.join(sorted(FORMATS))}")
    if "at" in envelope.members and not replay_scope:
        raise invalid("at", "only a key with scope replay may say what time it is")
    at = envelope.get("at", str)
    at_ms = now_ms() if at is None else milliseconds(at, "at")
    model = _clean(envelope.require("model", str), "model")
    if not 0 < len(model) <= 255:
        raise invalid("model", "must have 1 to 255 characters")
    capabilities: Capabilities | None = envelope.get("capabilities", Capabilities)
    project: Project | None = envelope.get("project", Project)
    if project is not None:
        for name in ("directory", "identity"):
            value = getattr(project, name)
            if value is not None:
                _clean(value, f"project.{name}")
                if len(value) > 512:
                    raise invalid(f"project.{name}", "must have at most 512 characters")
    usage: Usage | None = envelope.get("usage", Usage)
    estimate: Estimate | None = envelope.get("estimate", Estimate)
    parent = _clean(envelope.get("parent_session", str, ""), "parent_session")
    if len(parent) > 255:
        raise invalid("parent_session", "must have at most 255 characters")
    call = TransformCall(
        format=wire_format,
        model=model,
        messages=envelope.array("messages"),
        at_ms=at_ms,
        context_limit=_limit(envelope, "context_limit"),
        output_limit=_limit(envelope, "output_limit"),
        project=msgspec.to_builtins(project) if project is not None else None,
        parent_session=parent,
        subagent=envelope.get("subagent", bool, False),
        utility=purpose == "utility",
        reduce_callable=_reduce_callable(envelope, capabilities),
        can_remove=capabilities.remove_messages if capabilities is not None else True,
        capabilities=msgspec.to_builtins(capabilities) if capabilities is not None else {},
        overhead_bytes=envelope.size(("system", "tools")),
        system=envelope.members.get("system", b""),
        tools=envelope.members.get("tools", b""),
        usage=usage.report("usage", at_ms, model) if usage is not None else None,
        usage_reports_cache=usage.reports_cache if usage is not None else True,
        last_sent=_last_sent(envelope),
        estimate_tokens=estimate.request_tokens
        if estimate is not None and estimate.request_tokens > 0
        else None,
        provider_error=envelope.get("provider_error", str | dict[str, Any]),
        sync=_sync(envelope),
        idempotency_key=retry.key,
        body_digest=retry.digest,
        want_edits=envelope.get("answer", Literal["messages", "edits"], "messages") == "edits",
    )
    return call, envelope.members.get("system")


def _limit(envelope: Envelope, name: str) -> int | None:
    """A token limit.  Absurd values are no error: the default window stands in, marked as estimated."""
    value = envelope.get(name, int | float)
    if value is None or not 0 < value < 2**53:
        return None
    return int(value)


def _reduce_callable(envelope: Envelope, capabilities: Capabilities | None) -> bool | None:
    """Is ctx_reduce callable: what the host declares, else its tool list (reclaim-core section 1.4)."""
    if capabilities is not None and capabilities.tools is not None:
        return any(is_reduce_tool(name) for name in capabilities.tools)
    if "tools" not in envelope.members:
        return None
    try:
        tools = msgspec.json.decode(envelope.members["tools"], type=list[ToolName])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Tool lists of other shapes pass through untouched; they just carry no signal.
        return None
    return any(is_reduce_tool(tool.named()) for tool in tools)


def _last_sent(envelope: Envelope) -> LastSent | None:
    sent: Sent | None = envelope.get("last_sent", Sent)
    return None if sent is None else LastSent(sent.view_version, sent.raw_from)


def _sync(envelope: Envelope) -> SyncBase | None:
    sync: Sync | None = envelope.get("sync", Sync)
    if sync is None:
        return None
    scheme, _, value = sync.base.chain.partition(":")
    if scheme != "sha256" or len(value) != 64 or not 0 <= sync.base.count < 2**31:
        raise invalid(
            "sync.base", "needs a count of at least 0 and a chain of the form sha256:<64 hex digits>"
        )
    try:
        return SyncBase(sync.base.count, bytes.fromhex(value))
    except ValueError:
        raise invalid("sync.base.chain", "is not hexadecimal") from None


def answer_bytes(answer: Answer, system: bytes | None) -> bytes:
    """The answer as JSON: messages and system are the very bytes, everything else is encoded."""
    pieces = [b'{"messages":[', b",".join(answer.messages), b"]"]
    if answer.view is not None:
        # A runner applies this to its own array; lone surrogates in texts stay escaped.
        pieces = [b'{"view":', _json(answer.view)]
        pieces += [b',"message_ids":', orjson.dumps(answer.mids)]
    if system is not None:
        pieces += [b',"system":', system]
    rest: dict[str, Any] = {
        "pass": answer.summary,
        "view_version": answer.view_version,
        "raw_from": answer.raw_from,
        "chain": f"sha256:{answer.chain.hex()}" if answer.chain else None,
        "outcome": answer.outcome,
        "notices": answer.notices,
        "directives": answer.directives,
        "jobs": 0,
    }
    pieces += [b",", orjson.dumps(rest)[1:]]
    return b"".join(pieces)


def _json(value: Any) -> bytes:
    """JSON of a value whose strings may hold lone surrogates."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()


class TransformView(SessionView):
    """Run a pass and answer what to send to the model."""

    @extend_schema(
        operation_id="session_transform",
        request={"application/json": TRANSFORM_BODY},
        responses={200: OpenApiResponse(TRANSFORM_ANSWER, description="What to send to the model.")},
    )
    def post(self, request: Request, harness: str, sid: str) -> HttpResponse:
        key = self.session_key(request, harness, sid)
        body = read_bytes(request._request, TRANSFORM_LIMIT)
        call, system = read_call(
            body, self.retry(request, body), replay_scope=request.auth.has_scope("replay")
        )
        answer = self.guarded(lambda: transform(key, call))
        return HttpResponse(answer_bytes(answer, system), content_type="application/json")
