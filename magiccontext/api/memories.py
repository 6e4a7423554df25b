"""Projects and their memories over the admin API (design section 8; dashboard-cli section 2.3).

An edit made here is a person's: what it does to running sessions is decided by
:mod:`memory_app.services.effects`.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Q, QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from magiccontext.api.admin_lists import Pages
from magiccontext.api.auth import HasScope
from magiccontext.api.body import invalid
from magiccontext.api.problems import ProblemError
from magiccontext.api.writes import LARGEST_ID, checked, guarded, now, query_text
from memory_app.models import Memory, Project
from memory_app.models.memory import CATEGORIES
from memory_app.services import memories
from memory_app.services.effects import Actor, Edit
from memory_app.services.memories import LONGEST_CONTENT, MOST_IDS, Bulk, Reach

STATUSES = tuple(map(str, Memory.Status.values))
ACTIONS = ("archive", "restore", "pin", "unpin", "delete", "set_category")


class ProjectSerializer(serializers.ModelSerializer):  # type: ignore[type-arg]
    memories = serializers.IntegerField(
        source="memory_count", read_only=True, help_text="Rows of any status."
    )
    memory_epoch = serializers.IntegerField(source="state.memory_epoch", default=0, read_only=True)
    workspace = serializers.IntegerField(source="membership.workspace_id", default=None, read_only=True)

    class Meta:
        model = Project
        fields = [
            "id", "identity", "directory", "display_name", "created", "last_seen", "memories", "memory_epoch",
            "workspace",
        ]  # fmt: skip


class MemorySerializer(serializers.ModelSerializer):  # type: ignore[type-arg]
    identity = serializers.CharField(source="project.identity", read_only=True)

    class Meta:
        model = Memory
        fields = [
            "id", "project", "identity", "category", "content", "status", "importance", "scope", "shareable",
            "source_type", "source_session", "source_message", "seen_count", "retrieval_count",
            "first_seen_at", "created_at", "updated_at", "last_seen_at", "last_retrieved_at", "expires_at",
            "verification_status", "verified_at", "classified_at", "superseded_by", "merged_from", "metadata",
        ]  # fmt: skip


class NewMemory(serializers.Serializer[Any]):
    project = serializers.IntegerField(min_value=1, max_value=LARGEST_ID)
    category = serializers.ChoiceField(CATEGORIES)
    content = serializers.CharField(max_length=LONGEST_CONTENT)
    importance = serializers.IntegerField(min_value=1, max_value=100, required=False)


class MemoryEdit(serializers.Serializer[Any]):
    """What is left out stays; new content makes a memory private."""

    content = serializers.CharField(max_length=LONGEST_CONTENT, required=False)
    category = serializers.CharField(max_length=64, required=False, help_text=" | ".join(CATEGORIES))
    status = serializers.ChoiceField(STATUSES, required=False)
    importance = serializers.IntegerField(min_value=1, max_value=100, required=False)
    shareable = serializers.BooleanField(required=False)
    scope = serializers.ChoiceField(Memory.Scope.values, required=False)


class BulkBody(serializers.Serializer[Any]):
    ids = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=LARGEST_ID), min_length=1, max_length=MOST_IDS
    )
    action = serializers.ChoiceField(ACTIONS)
    category = serializers.ChoiceField(CATEGORIES, required=False, help_text="Of set_category.")


class BulkAnswer(serializers.Serializer[Any]):
    changed = serializers.ListField(child=serializers.IntegerField(), help_text="Ids that really changed.")


class ProjectList(generics.ListAPIView):  # type: ignore[type-arg]
    """The owner's projects, newest first."""

    permission_classes = [HasScope("admin")]
    pagination_class = Pages
    serializer_class = ProjectSerializer
    queryset = Project.objects.all()

    @extend_schema(
        operation_id="project_list",
        parameters=[
            OpenApiParameter("identity", str),
            OpenApiParameter("search", str, description="In name, path and identity."),
        ],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self.list(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[Project]:
        if getattr(self, "swagger_fake_view", False):
            return Project.objects.none()
        rows = Project.objects.filter(owner=self.request.user)
        if identity := query_text(self.request, "identity"):
            rows = rows.filter(identity=identity)
        if search := query_text(self.request, "search"):
            rows = rows.filter(
                Q(display_name__icontains=search)
                | Q(directory__icontains=search)
                | Q(identity__icontains=search)
            )
        return (
            rows.select_related("state", "membership")
            .annotate(memory_count=Count("memories"))
            .order_by("-last_seen", "-pk")
        )


class MemoryList(generics.ListAPIView):  # type: ignore[type-arg]
    """The owner's memories by category, newest first; and the way to write one down."""

    permission_classes = [HasScope("admin")]
    pagination_class = Pages
    serializer_class = MemorySerializer
    queryset = Memory.objects.all()

    @extend_schema(
        operation_id="memory_list",
        parameters=[
            OpenApiParameter("project", str, description="A project's id or identity."),
            OpenApiParameter("category", str),
            OpenApiParameter("status", str, enum=list(STATUSES)),
            OpenApiParameter("search", str, description="In the content."),
        ],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self.list(request, *args, **kwargs)

    @extend_schema(
        operation_id="memory_create",
        request=NewMemory,
        responses={201: MemorySerializer, 200: MemorySerializer},
        description="201: written. 200: the project has that text in that category; it was seen once more.",
    )
    def post(self, request: Request) -> Response:
        values = checked(NewMemory, request)
        project = Project.objects.filter(owner=request.user, pk=values["project"]).first()
        if project is None:
            raise ProblemError("not_found", "no such project", field="project")
        added = guarded(
            lambda: memories.add(
                project,
                values["category"],
                values["content"],
                actor=Actor.PERSON,
                now=now(),
                importance=values.get("importance"),
            )
        )
        return Response(MemorySerializer(added.memory).data, status=201 if added.created else 200)

    def get_queryset(self) -> QuerySet[Memory]:
        if getattr(self, "swagger_fake_view", False):
            return Memory.objects.none()
        rows = Memory.objects.filter(project__owner=self.request.user).select_related("project")
        if project := query_text(self.request, "project"):
            rows = rows.filter(_project(project))
        if category := query_text(self.request, "category"):
            rows = rows.filter(category=category)
        if status := query_text(self.request, "status"):
            if status not in STATUSES:
                raise invalid("status", f"must be one of {', '.join(STATUSES)}")
            rows = rows.filter(status=status)
        if search := query_text(self.request, "search"):
            rows = rows.filter(content__icontains=search)
        return rows.order_by("category", "-updated_at", "pk")


def _project(value: str) -> Q:
    if value.isascii() and value.isdigit():
        if int(value[:20]) > LARGEST_ID:
            raise invalid("project", "is not the id of a project")
        return Q(project=int(value))
    return Q(project__identity=value)


class MemoryDetail(APIView):
    """One memory."""

    permission_classes = [HasScope("admin")]

    @extend_schema(operation_id="memory_read", responses=MemorySerializer)
    def get(self, request: Request, pk: int) -> Response:
        return Response(MemorySerializer(_mine(request, pk)).data)

    @extend_schema(operation_id="memory_edit", request=MemoryEdit, responses=MemorySerializer)
    def patch(self, request: Request, pk: int) -> Response:
        memory = _mine(request, pk)
        edit = Edit(**checked(MemoryEdit, request))
        reach = Reach.of(memory.project)
        changed = guarded(lambda: memories.update(reach, memory.pk, edit, actor=Actor.PERSON, now=now()))
        return Response(MemorySerializer(changed).data)

    @extend_schema(operation_id="memory_delete", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        memory = _mine(request, pk)
        guarded(lambda: memories.delete(Reach.of(memory.project), [memory.pk], now=now()))
        return Response(status=204)


def _mine(request: Request, pk: int) -> Memory:
    memory = Memory.objects.filter(project__owner=request.user, pk=pk).select_related("project").first()
    if memory is None:
        raise ProblemError("not_found", f"no memory {pk}")
    return memory


@extend_schema_view(
    post=extend_schema(operation_id="memory_bulk", request=BulkBody, responses={200: BulkAnswer})
)
class MemoryBulk(APIView):
    """One action on many memories, of any of the owner's projects: all or none."""

    permission_classes = [HasScope("admin")]

    def post(self, request: Request) -> Response:
        values = checked(BulkBody, request)
        if values["action"] == "set_category" and "category" not in values:
            raise invalid("category", "is required to set it")
        reach = Reach(request.user.pk)
        return Response({"changed": guarded(lambda: _act(reach, values))})


def _act(reach: Reach, values: dict[str, Any]) -> list[int]:
    ids, moment = values["ids"], now()
    if values["action"] == "delete":
        return memories.delete(reach, ids, now=moment)
    done: Bulk
    if values["action"] == "set_category":
        done = memories.set_category(reach, ids, values["category"], actor=Actor.PERSON, now=moment)
    else:
        act = {
            "archive": memories.archive,
            "restore": memories.restore,
            "pin": memories.pin,
            "unpin": memories.unpin,
        }[values["action"]]
        done = act(reach, ids, actor=Actor.PERSON, now=moment)
    return done.changed
