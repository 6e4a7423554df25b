"""Errors as `application/problem+json` (hosts.md section 10.5).

The table is the contract: a host decides by `code` what to do. A refusal says what was wrong and never
repeats what was sent: no messages, no secrets, no traceback.
"""

import http
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, JsonResponse
from rest_framework import exceptions
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response

logger = logging.getLogger(__name__)

PROBLEM_MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True)
class ProblemKind:
    """One row of the error table: its HTTP status and a short title that does not change."""

    status: int
    title: str


PROBLEMS: dict[str, ProblemKind] = {
    # The caller is not who may do this: stop.
    "unauthorized": ProblemKind(401, "A valid key is needed"),
    "forbidden": ProblemKind(403, "This key may not do that"),
    "foreign_session": ProblemKind(403, "The session belongs to another key owner"),
    "identity_forbidden": ProblemKind(403, "The project identity is not open to this key"),
    # The request names something that is not there: fix it, no retry.
    "not_found": ProblemKind(404, "Nothing at this address"),
    "unknown_session": ProblemKind(404, "No such session"),
    "unknown_tool": ProblemKind(404, "No such tool"),
    "unknown_job": ProblemKind(404, "No such job"),
    "method_not_allowed": ProblemKind(405, "The address does not take this method"),
    "not_acceptable": ProblemKind(406, "The answer cannot be given in that media type"),
    # The model must not be called with what was sent.
    "context_refused": ProblemKind(409, "The request does not fit the model's window"),
    "assistant_terminal_retry": ProblemKind(409, "The array ends with an assistant message"),
    "incomplete_user_message": ProblemKind(409, "The newest user message is incomplete"),
    # Resend with what is named.
    "need_full_sync": ProblemKind(409, "The whole message array is needed"),
    "history_gap": ProblemKind(409, "Messages are missing before the ones sent"),
    # Drop this request.
    "stale_lineage": ProblemKind(409, "The lineage was replaced"),
    "superseded_request": ProblemKind(409, "A newer request replaced this one"),
    "lease_lost": ProblemKind(409, "The job's lease was lost"),
    "job_expired": ProblemKind(409, "The job's deadline has passed"),
    # Runner setup (hosts.md 10.3).
    "window_too_small": ProblemKind(409, "The model's window is too small"),
    "misconfigured": ProblemKind(409, "The session cannot be set up as configured"),
    # Idempotency (hosts.md 10.1).
    "idempotency_conflict": ProblemKind(409, "The Idempotency-Key was used with another body"),
    "in_progress": ProblemKind(409, "The same request is still running"),
    "too_large": ProblemKind(413, "The body is too large"),
    "unsupported_media_type": ProblemKind(415, "The body's media type is not read here"),
    "invalid_params": ProblemKind(422, "The body does not fit"),
    "identity_required": ProblemKind(422, "A project identity is needed"),
    # Budgets: shown to the agent.
    "search_budget_exhausted": ProblemKind(429, "The agent's search budget is used up"),
    "principal_budget_exhausted": ProblemKind(429, "The key owner's budget is used up"),
    "budget_capacity": ProblemKind(429, "The search budget keeps too many keys"),
    "throttled": ProblemKind(429, "Too many requests"),
    "internal_error": ProblemKind(500, "The server failed on this request"),
    # Storage: retry, replay the last good request, or refuse the turn.
    "storage_busy": ProblemKind(503, "The storage is busy"),
    "degraded_pass": ProblemKind(503, "The pass could not be completed"),
    "schema_fence": ProblemKind(503, "The database is newer than this server"),
    "storage_failure": ProblemKind(503, "The storage cannot be used"),
    "migration_guard": ProblemKind(503, "The database has not been migrated"),
    "budget_unavailable": ProblemKind(503, "The search did not run"),
}

# HTTP status → code, for errors raised by the frameworks and not by us.
CODE_OF_STATUS: dict[int, str] = {
    400: "invalid_params",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid_params",
    429: "throttled",
}


class ProblemError(exceptions.APIException):
    """An error with a code of the table, raised anywhere under a view.

    `status` replaces the table's HTTP status, `field` names the request member at fault (a dotted path),
    `retry_after` is in seconds, `members` become further members of the answer. Raises KeyError for a code
    that the table does not have.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int | None = None,
        field: str | None = None,
        retry_after: float | None = None,
        **members: Any,
    ) -> None:
        kind = PROBLEMS[code]
        super().__init__(detail=detail, code=code)
        self.problem_code = code
        self.problem_detail = detail
        self.status_code = kind.status if status is None else status
        self.field = field
        self.retry_after = retry_after
        self.members = members


def problem_body(code: str, detail: str, *, status: int | None = None, **members: Any) -> dict[str, Any]:
    """The members `type`, `title`, `status`, `detail`, `code` and the given ones (those not None)."""
    kind = PROBLEMS[code]
    body: dict[str, Any] = {
        "type": f"urn:magic-context:problem:{code}",
        "title": kind.title,
        "status": kind.status if status is None else status,
        "detail": detail,
        "code": code,
    }
    body.update((name, value) for name, value in members.items() if value is not None)
    return body


def _retry_header(seconds: float | None) -> dict[str, str]:
    return {} if seconds is None else {"Retry-After": str(max(1, math.ceil(seconds)))}


def problem_response(
    code: str, detail: str, *, retry_after: float | None = None, **members: Any
) -> JsonResponse:
    """A problem answer for a plain Django view, where no exception handler of DRF stands behind."""
    body = problem_body(code, detail, **members)
    return JsonResponse(
        body, status=body["status"], content_type=PROBLEM_MEDIA_TYPE, headers=_retry_header(retry_after)
    )


def response_of(error: ProblemError) -> JsonResponse:
    """The answer to a ProblemError caught in a plain Django view."""
    return problem_response(
        error.problem_code,
        error.problem_detail,
        status=error.status_code,
        retry_after=error.retry_after,
        field=error.field,
        **error.members,
    )


class ProblemRenderer(JSONRenderer):
    """JSON under the problem media type."""

    media_type = PROBLEM_MEDIA_TYPE
    format = "problem+json"


def _first_issue(detail: Any, path: tuple[str, ...] = ()) -> tuple[str, str]:
    """(dotted field, message) of the first validation issue; the field is empty for an object-wide one."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            step = () if name == "non_field_errors" else (str(name),)
            return _first_issue(inner, path + step)
    if isinstance(detail, list):
        for index, inner in enumerate(detail):
            if isinstance(inner, Mapping) and not inner:
                continue
            step = (str(index),) if isinstance(inner, Mapping | list) else ()
            return _first_issue(inner, path + step)
    return ".".join(path), str(detail)


def _as_problem(error: Exception) -> ProblemError | None:
    """The problem an exception of Django or DRF stands for, or None for one that is nobody's answer."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, exceptions.ValidationError):
        field, message = _first_issue(error.detail)
        return ProblemError("invalid_params", message, field=field or None)
    if isinstance(error, exceptions.ParseError):
        # The parser's own message can quote the body.
        return ProblemError("invalid_params", "The body is not valid JSON.")
    if isinstance(error, RequestDataTooBig):
        return ProblemError("too_large", "The body is larger than this server reads.")
    if isinstance(error, Http404):
        return ProblemError("not_found", "Nothing is there.")
    if isinstance(error, PermissionDenied):
        return ProblemError("forbidden", "This key may not do that.")
    if isinstance(error, exceptions.Throttled):
        return ProblemError("throttled", "Too many requests.", retry_after=error.wait)
    if isinstance(error, exceptions.APIException):
        code = CODE_OF_STATUS.get(error.status_code)
        if code is not None:
            return ProblemError(code, str(error.detail), status=PROBLEMS[code].status)
    return None


def exception_handler(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler: every error, ours or not, leaves as a problem.

    An error nobody meant is logged with its traceback and answered as `internal_error` without a word of it.
    """
    problem = _as_problem(error)
    if problem is None:
        view = type(context.get("view")).__name__
        logger.error("unexpected %s in %s", type(error).__name__, view, exc_info=error)
        problem = ProblemError(
            "internal_error", "The server failed on this request. Nothing of it was applied."
        )
    body = problem_body(
        problem.problem_code,
        problem.problem_detail,
        status=problem.status_code,
        field=problem.field,
        **problem.members,
    )
    headers = _retry_header(problem.retry_after)
    if problem.status_code == http.HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, exceptions.MethodNotAllowed):
        view = context.get("view")
        headers["Allow"] = ", ".join(view.allowed_methods) if view is not None else ""
    request = context.get("request")
    response = Response(body, status=problem.status_code, headers=headers, content_type=PROBLEM_MEDIA_TYPE)
    if request is not None:
        _render_as_problem(request)
    return response


def _render_as_problem(request: Any) -> None:
    # DRF renders with the negotiated renderer, which may have failed to be chosen or may write raw bytes.
    request.accepted_renderer = ProblemRenderer()
    request.accepted_media_type = PROBLEM_MEDIA_TYPE


def is_api_path(request: HttpRequest) -> bool:
    """Whether an address belongs to programs, which get problems, and not to people, who get pages."""
    return request.path_info.startswith("/api/") or request.path_info in {"/healthz", "/readyz", "/metrics"}
