"""Workspaces over the admin API (design section 8; dashboard-cli section 2.5)."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from magiccontext.api.admin_lists import Pages
from magiccontext.api.auth import HasScope
from magiccontext.api.problems import ProblemError
from magiccontext.api.writes import LARGEST_ID, checked, guarded
from memory_app.models import Workspace
from memory_app.services import workspaces
from memory_app.services.workspaces import LONGEST_NAME, Draft, Membership

MOST_MEMBERS = 200


class MemberSerializer(serializers.Serializer[Any]):
    project = serializers.IntegerField(min_value=1, max_value=LARGEST_ID, source="project_id")
    identity = serializers.CharField(source="project.identity", read_only=True)
    display_name = serializers.CharField(max_length=LONGEST_NAME, allow_blank=True, default="")
    display_path = serializers.CharField(max_length=4096, allow_blank=True, default="")


class WorkspaceSerializer(serializers.ModelSerializer):  # type: ignore[type-arg]
    members = MemberSerializer(many=True)

    class Meta:
        model = Workspace
        fields = ["id", "name", "share_categories", "created", "members"]


class NewWorkspace(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=LONGEST_NAME)
    share_categories = serializers.ListField(
        child=serializers.CharField(max_length=64), max_length=50, default=lambda: ["CONSTRAINTS"]
    )
    members = MemberSerializer(many=True, default=list)

    def validate_members(self, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if len(value) > MOST_MEMBERS:
            raise serializers.ValidationError(f"at most {MOST_MEMBERS} members")
        return value


class WorkspaceEdit(NewWorkspace):
    """What is left out stays; a list replaces the stored one."""

    name = serializers.CharField(max_length=LONGEST_NAME, required=False)
    share_categories = serializers.ListField(
        child=serializers.CharField(max_length=64), max_length=50, required=False
    )
    members = MemberSerializer(many=True, required=False)


class WorkspaceList(generics.ListAPIView):  # type: ignore[type-arg]
    """The owner's workspaces by name."""

    permission_classes = [HasScope("admin")]
    pagination_class = Pages
    serializer_class = WorkspaceSerializer
    queryset = Workspace.objects.all()

    @extend_schema(operation_id="workspace_list")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self.list(request, *args, **kwargs)

    @extend_schema(
        operation_id="workspace_create", request=NewWorkspace, responses={201: WorkspaceSerializer}
    )
    def post(self, request: Request) -> Response:
        values = checked(NewWorkspace, request)
        draft = Draft(values["name"], values["share_categories"], _members(values["members"]))
        saved = guarded(lambda: workspaces.save(request.user.pk, draft))
        return Response(WorkspaceSerializer(_mine(request, saved.pk)).data, status=201)

    def get_queryset(self) -> QuerySet[Workspace]:
        if getattr(self, "swagger_fake_view", False):
            return Workspace.objects.none()
        return (
            Workspace.objects.filter(owner=self.request.user)
            .prefetch_related("members__project")
            .order_by("name", "pk")
        )


class WorkspaceDetail(APIView):
    """One workspace."""

    permission_classes = [HasScope("admin")]

    @extend_schema(operation_id="workspace_read", responses=WorkspaceSerializer)
    def get(self, request: Request, pk: int) -> Response:
        return Response(WorkspaceSerializer(_mine(request, pk)).data)

    @extend_schema(operation_id="workspace_edit", request=WorkspaceEdit, responses=WorkspaceSerializer)
    def patch(self, request: Request, pk: int) -> Response:
        values = checked(WorkspaceEdit, request)
        draft = Draft(
            values.get("name"),
            values.get("share_categories"),
            _members(values["members"]) if "members" in values else None,
        )
        guarded(lambda: workspaces.save(request.user.pk, draft, pk))
        return Response(WorkspaceSerializer(_mine(request, pk)).data)

    @extend_schema(operation_id="workspace_delete", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        guarded(lambda: workspaces.delete(request.user.pk, pk))
        return Response(status=204)


def _members(listed: list[dict[str, Any]]) -> list[Membership]:
    return [
        Membership(member["project_id"], member["display_name"], member["display_path"]) for member in listed
    ]


def _mine(request: Request, pk: int) -> Workspace:
    rows = Workspace.objects.filter(owner=request.user, pk=pk).prefetch_related("members__project")
    workspace = rows.first()
    if workspace is None:
        raise ProblemError("not_found", f"no workspace {pk}")
    return workspace
