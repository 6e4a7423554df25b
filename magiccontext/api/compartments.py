"""Compartments over the admin API (design section 8): published, rewritten and deleted by a person.

Publishing changes nothing that is being sent; a later pass with permission takes it up.  A rewrite or a
deletion makes the session's head anew with its next pass.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from magiccontext.api.admin_lists import OwnedList, session_filter
from magiccontext.api.auth import HasScope
from magiccontext.api.memories import MemorySerializer
from magiccontext.api.problems import ProblemError
from magiccontext.api.writes import LARGEST_ORDINAL, checked, guarded, now
from sessions_app import models
from sessions_app.services import compartments
from sessions_app.services.compartments import MOST_ROWS
from sessions_app.services.drafts import LONGEST_TEXT, TIERS, Draft, Text

PRODUCER = "person"
TEXT_FIELDS = ("title", "content", *TIERS, "importance", "episode_type")
MOST_FACTS = 500


class CompartmentSerializer(serializers.ModelSerializer):  # type: ignore[type-arg]
    class Meta:
        model = models.Compartment
        fields = [
            "id", "session", "sequence", "lineage", "start", "end", "start_mid", "end_mid", "start_block",
            "end_block", "title", "content", "p1", "p2", "p3", "p4", "importance", "episode_type", "legacy",
            "producer", "started_at", "ended_at", "created",
        ]  # fmt: skip


def _text(**options: Any) -> serializers.CharField:
    return serializers.CharField(
        max_length=LONGEST_TEXT, allow_blank=True, trim_whitespace=False, required=False, **options
    )


class CompartmentText(serializers.Serializer[Any]):
    """What a compartment says.  A tier that is null was never written; an empty one has nothing to say."""

    title = _text()
    content = _text(help_text="Flat text; without it, p1.")
    p1 = _text(allow_null=True)
    p2 = _text(allow_null=True)
    p3 = _text(allow_null=True)
    p4 = _text(allow_null=True)
    importance = serializers.IntegerField(required=False, min_value=1, max_value=100)
    episode_type = serializers.CharField(max_length=255, allow_blank=True, required=False)


class CompartmentDraft(CompartmentText):
    """Inclusive ordinals of the session's present messages; ids, where given, must be theirs."""

    start = serializers.IntegerField(min_value=1, max_value=LARGEST_ORDINAL)
    end = serializers.IntegerField(min_value=1, max_value=LARGEST_ORDINAL)
    start_mid = serializers.CharField(max_length=255, required=False)
    end_mid = serializers.CharField(max_length=255, required=False)
    start_block = serializers.IntegerField(
        min_value=0, max_value=LARGEST_ORDINAL, required=False, allow_null=True
    )
    end_block = serializers.IntegerField(
        min_value=0, max_value=LARGEST_ORDINAL, required=False, allow_null=True
    )


class Fact(serializers.Serializer[Any]):
    """Promoted to a memory of the session's project; an unknown category or blank text is left out."""

    category = serializers.CharField(max_length=64)
    content = serializers.CharField(max_length=LONGEST_TEXT, allow_blank=True)


class Publication(serializers.Serializer[Any]):
    session = serializers.CharField(max_length=512, help_text="A session's id, or harness/sid.")
    compartments = CompartmentDraft(many=True, allow_empty=False)
    facts = Fact(many=True, required=False)
    producer = serializers.CharField(max_length=255, required=False, default=PRODUCER)

    def validate_compartments(self, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if len(value) > MOST_ROWS:
            raise serializers.ValidationError(f"at most {MOST_ROWS} at once")
        return value

    def validate_facts(self, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if len(value) > MOST_FACTS:
            raise serializers.ValidationError(f"at most {MOST_FACTS} at once")
        return value


class PublishedFact(serializers.Serializer[Any]):
    memory = MemorySerializer()
    created = serializers.BooleanField(help_text="False: it was known, and seen once more.")


class Published(serializers.Serializer[Any]):
    compartments = CompartmentSerializer(source="rows", many=True)
    facts = PublishedFact(many=True)


class CompartmentList(OwnedList):
    """Compartments by session and sequence; and the way to publish some."""

    queryset = models.Compartment.objects.order_by("session", "sequence")
    serializer_class = CompartmentSerializer

    @extend_schema(
        operation_id="compartment_list",
        parameters=[OpenApiParameter("session", str, description="A session's id, or harness/sid.")],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self.list(request, *args, **kwargs)

    @extend_schema(operation_id="compartment_publish", request=Publication, responses={201: Published})
    def post(self, request: Request) -> Response:
        values = checked(Publication, request)
        session = models.Session.objects.filter(
            session_filter(values["session"]), owner=request.user, cleanup_pending=False
        ).first()
        if session is None:
            raise ProblemError("unknown_session", "No such session; it begins with its first transform.")
        drafts = [_draft(row) for row in values["compartments"]]
        facts = [(fact["category"], fact["content"]) for fact in values.get("facts", [])]
        published = guarded(
            lambda: compartments.publish(session, drafts, facts, now=now(), producer=values["producer"])
        )
        return Response(Published(published).data, status=201)


class CompartmentDetail(APIView):
    """One compartment."""

    permission_classes = [HasScope("admin")]

    @extend_schema(operation_id="compartment_read", responses=CompartmentSerializer)
    def get(self, request: Request, pk: int) -> Response:
        return Response(CompartmentSerializer(_mine(request, pk)).data)

    @extend_schema(
        operation_id="compartment_rewrite", request=CompartmentText, responses=CompartmentSerializer
    )
    def patch(self, request: Request, pk: int) -> Response:
        row = _mine(request, pk)
        values = checked(CompartmentText, request)
        if values.get("p1"):
            values.setdefault("content", "")  # repeats p1 unless something else is said
        text = Text(**{name: values.get(name, getattr(row, name)) for name in TEXT_FIELDS})
        changed = guarded(
            lambda: compartments.rewrite(row.session, row.sequence, text, now=now(), producer=PRODUCER)
        )
        return Response(CompartmentSerializer(changed).data)

    @extend_schema(operation_id="compartment_delete", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        row = _mine(request, pk)
        guarded(lambda: compartments.delete(row.session, [row.sequence], now=now()))
        return Response(status=204)


def _draft(row: dict[str, Any]) -> Draft:
    return Draft(
        start=row["start"],
        end=row["end"],
        text=Text(**{name: row[name] for name in TEXT_FIELDS if name in row}),
        start_mid=row.get("start_mid", ""),
        end_mid=row.get("end_mid", ""),
        start_block=row.get("start_block"),
        end_block=row.get("end_block"),
    )


def _mine(request: Request, pk: int) -> models.Compartment:
    rows = models.Compartment.objects.filter(
        session__owner=request.user, session__cleanup_pending=False, pk=pk
    ).select_related("session")
    row = rows.first()
    if row is None:
        raise ProblemError("not_found", f"no compartment {pk}")
    return row
