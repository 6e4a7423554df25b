"""Read-only lists of the admin API (design section 8): only what belongs to the key's owner."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Q, QuerySet
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_view
from rest_framework import generics, serializers
from rest_framework.pagination import LimitOffsetPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from magiccontext.api.auth import HasScope
from magiccontext.api.body import invalid
from magiccontext.api.schemas import STATUS_ANSWER
from sessions_app import models
from sessions_app.models.session import HARNESS_ALIASES

LARGEST_ID = 2**63 - 1


class Pages(LimitOffsetPagination):
    """50 rows, at most 500."""

    default_limit = 50
    max_limit = 500


class SessionSerializer(serializers.ModelSerializer):  # type: ignore[type-arg]
    class Meta:
        model = models.Session
        fields = [
            "id", "harness", "sid", "parent_sid", "role", "project", "format", "model", "context_limit",
            "usable_limit", "threshold", "usage_percentage", "input_tokens", "view_version", "lineage",
            "last_error", "created", "last_seen",
        ]  # fmt: skip


class PassSerializer(serializers.ModelSerializer):  # type: ignore[type-arg]
    class Meta:
        model = models.Pass
        exclude = ["last_mid"]


class TagSerializer(serializers.ModelSerializer):  # type: ignore[type-arg]
    class Meta:
        model = models.Tag
        fields = [
            "id", "session", "number", "type", "mid", "part", "call_id", "tool_name", "status", "drop_mode",
            "output_bytes", "input_bytes", "token_count", "input_token_count", "attachments", "inert",
        ]  # fmt: skip


class IncidentSerializer(serializers.ModelSerializer):  # type: ignore[type-arg]
    class Meta:
        model = models.Incident
        fields = ["id", "session", "kind", "code", "detail", "time", "view_version"]


def session_filter(value: str, prefix: str = "") -> Q:
    """``?session=``: a row's id, or ``harness/sid``.  Raises ``invalid_params``."""
    if value.isascii() and value.isdigit():
        if int(value[:20]) > LARGEST_ID:
            raise invalid("session", "is not the id of a session")
        return Q(**{f"{prefix}pk": int(value)})
    harness, _, sid = value.partition("/")
    if not harness or not sid or "\x00" in value:
        raise invalid("session", "must be the id of a session, or harness/sid")
    return Q(**{f"{prefix}harness": HARNESS_ALIASES.get(harness, harness), f"{prefix}sid": sid})


class OwnedList(generics.ListAPIView):  # type: ignore[type-arg]
    """A list of one model.  ``choices`` are query parameters that compare a column with one of its values."""

    permission_classes = [HasScope("admin")]
    pagination_class = Pages
    owner_path = "session__owner"
    session_path = "session__"
    choices: dict[str, tuple[str, ...]] = {}

    def get_queryset(self) -> QuerySet[Any]:
        if getattr(self, "swagger_fake_view", False):
            return self.queryset.none()  # type: ignore[union-attr]
        rows: QuerySet[Any] = (
            super()
            .get_queryset()
            .filter(Q(**{self.owner_path: self.request.user, f"{self.session_path}cleanup_pending": False}))
        )
        query = self.request.query_params
        if "session" in query:
            rows = rows.filter(session_filter(query["session"], self.session_path))
        for name, values in self.choices.items():
            if name in query:
                if query[name] not in values:
                    raise invalid(name, f"must be one of {', '.join(values)}")
                rows = rows.filter(**{name: query[name]})
        return rows


def _parameters(choices: dict[str, tuple[str, ...]]) -> list[OpenApiParameter]:
    session = OpenApiParameter("session", str, description="A session's id, or harness/sid.")
    return [session, *(OpenApiParameter(name, str, enum=list(values)) for name, values in choices.items())]


SESSION_CHOICES = {"role": tuple(map(str, models.Session.Role)), "harness": models.session.HARNESSES}
PASS_CHOICES = {"level": tuple(map(str, models.Pass.Level))}
TAG_CHOICES = {
    name: tuple(str(value) for value, _ in models.Tag._meta.get_field(name).choices or ())
    for name in ("status", "type")
}
INCIDENT_CHOICES = {"kind": tuple(map(str, models.Incident.Kind))}


@extend_schema_view(get=extend_schema(parameters=_parameters(SESSION_CHOICES)))
class SessionList(OwnedList):
    """The owner's sessions, newest first."""

    queryset = models.Session.objects.order_by("-last_seen", "-pk")
    serializer_class = SessionSerializer
    owner_path = "owner"
    session_path = ""
    choices = SESSION_CHOICES


@extend_schema_view(get=extend_schema(parameters=_parameters(PASS_CHOICES)))
class PassList(OwnedList):
    """Passes, newest first, each with the proof of its permission."""

    queryset = models.Pass.objects.order_by("-pk")
    serializer_class = PassSerializer
    choices = PASS_CHOICES


@extend_schema_view(get=extend_schema(parameters=_parameters(TAG_CHOICES)))
class TagList(OwnedList):
    """Tags by session and number."""

    queryset = models.Tag.objects.order_by("session", "number")
    serializer_class = TagSerializer
    choices = TAG_CHOICES


@extend_schema_view(get=extend_schema(parameters=_parameters(INCIDENT_CHOICES)))
class IncidentList(OwnedList):
    """Refusals and faults, newest first."""

    queryset = models.Incident.objects.order_by("-pk")
    serializer_class = IncidentSerializer
    choices = INCIDENT_CHOICES


class StatusView(APIView):
    """How much there is, and the newest trouble."""

    permission_classes = [HasScope("admin")]

    @extend_schema(operation_id="status", responses={200: OpenApiResponse(STATUS_ANSWER)})
    def get(self, request: Request) -> Response:
        sessions = models.Session.objects.filter(owner=request.user)
        mine = Q(session__owner=request.user, session__cleanup_pending=False)
        levels = models.Pass.objects.filter(mine).order_by().values("level").annotate(count=Count("pk"))
        newest = models.Incident.objects.filter(mine).order_by("-pk").first()
        return Response(
            {
                "sessions": sessions.filter(cleanup_pending=False).count(),
                "sessions_being_deleted": sessions.filter(cleanup_pending=True).count(),
                "sessions_with_error": sessions.filter(cleanup_pending=False).exclude(last_error="").count(),
                "passes": {
                    **dict.fromkeys(map(str, models.Pass.Level), 0),
                    **{row["level"]: row["count"] for row in levels},
                },
                "incidents": models.Incident.objects.filter(mine).count(),
                "newest_incident": None if newest is None else IncidentSerializer(newest).data,
            }
        )
