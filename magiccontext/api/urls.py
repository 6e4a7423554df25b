"""The REST API, version 1 (hosts.md section 10)."""

from django.urls import URLPattern, URLResolver, path

from magiccontext.api.admin_lists import IncidentList, PassList, SessionList, StatusView, TagList
from magiccontext.api.commands import CommandView
from magiccontext.api.compartments import CompartmentDetail, CompartmentList
from magiccontext.api.events import EventsView
from magiccontext.api.memories import MemoryBulk, MemoryDetail, MemoryList, ProjectList
from magiccontext.api.tools import ToolView
from magiccontext.api.transform import TransformView
from magiccontext.api.workspaces import WorkspaceDetail, WorkspaceList

SESSION = "sessions/<str:harness>/<path:sid>"

urlpatterns: list[URLPattern | URLResolver] = [
    path(f"{SESSION}/transform", TransformView.as_view(), name="transform"),
    path(f"{SESSION}/tools/<str:name>", ToolView.as_view(), name="tool"),
    path(f"{SESSION}/events", EventsView.as_view(), name="events"),
    path(f"{SESSION}/commands/<str:name>", CommandView.as_view(), name="command"),
    path("sessions/", SessionList.as_view(), name="sessions"),
    path("passes/", PassList.as_view(), name="passes"),
    path("tags/", TagList.as_view(), name="tags"),
    path("incidents/", IncidentList.as_view(), name="incidents"),
    path("compartments/", CompartmentList.as_view(), name="compartments"),
    path("compartments/<int:pk>/", CompartmentDetail.as_view(), name="compartment"),
    path("projects/", ProjectList.as_view(), name="projects"),
    path("memories/", MemoryList.as_view(), name="memories"),
    path("memories/bulk/", MemoryBulk.as_view(), name="memories-bulk"),
    path("memories/<int:pk>/", MemoryDetail.as_view(), name="memory"),
    path("workspaces/", WorkspaceList.as_view(), name="workspaces"),
    path("workspaces/<int:pk>/", WorkspaceDetail.as_view(), name="workspace"),
    path("status/", StatusView.as_view(), name="status"),
]
