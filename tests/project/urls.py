"""Addresses that exist only in tests: one for every way a view can fail."""

from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from rest_framework import exceptions, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from magiccontext.api.auth import HasScope
from magiccontext.api.problems import ProblemError
from magiccontext.urls import handler400, handler403, handler404, handler500
from magiccontext.urls import urlpatterns as project_urls

__all__ = ["handler400", "handler403", "handler404", "handler500"]


class _Limits(serializers.Serializer):  # type: ignore[type-arg]
    soft = serializers.IntegerField(max_value=10)


class _Body(serializers.Serializer):  # type: ignore[type-arg]
    model = serializers.CharField()
    limits = _Limits()
    items = serializers.ListField(child=_Limits(), required=False)


def _validated(request: Request) -> None:
    _Body(data=request.data).is_valid(raise_exception=True)


def _raise(error: Exception) -> None:
    raise error


FAILURES: dict[str, Any] = {
    "gap": lambda request: _raise(ProblemError("history_gap", "Messages are missing.", **{"from": 93})),
    "busy": lambda request: _raise(ProblemError("storage_busy", "Try again.", retry_after=0.2)),
    "field": lambda request: _raise(ProblemError("invalid_params", "Too deep.", field="messages.3")),
    "crash": lambda request: _raise(ValueError("sk-secret-in-an-exception")),
    "missing": lambda request: _raise(Http404("row 7 of secret_table")),
    "denied": lambda request: _raise(PermissionDenied("because")),
    "big": lambda request: _raise(RequestDataTooBig("x")),
    "slow": lambda request: _raise(exceptions.Throttled(wait=7.4)),
    "valid": _validated,
}


class Failing(APIView):
    """Fails as the address says."""

    authentication_classes: list[Any] = []
    permission_classes: list[Any] = []

    def post(self, request: Request, how: str) -> Response:
        FAILURES[how](request)
        return Response({"ok": True})


class WhoAmI(APIView):
    """Says whose key came."""

    permission_classes = [HasScope("host")]

    def get(self, request: Request) -> Response:
        return Response({"user": request.user.get_username(), "key": request.auth.name})


class AdminOnly(WhoAmI):
    """The same for keys with the scope `admin`."""

    permission_classes = [HasScope("admin")]


def crash(request: HttpRequest) -> HttpResponse:
    """A plain view that fails."""
    raise ValueError("sk-secret-in-an-exception")


crash.login_required = False  # type: ignore[attr-defined]


async def echo_async(request: HttpRequest) -> HttpResponse:
    """A plain asynchronous view."""
    return JsonResponse({"ok": True})


echo_async.login_required = False  # type: ignore[attr-defined]


urlpatterns = [
    path("api/test/fail/<str:how>", Failing.as_view()),
    path("api/test/whoami", WhoAmI.as_view()),
    path("api/test/admin", AdminOnly.as_view()),
    path("api/test/crash", crash),
    path("page/crash", crash),
    path("api/test/async", echo_async),
    *project_urls,
]
