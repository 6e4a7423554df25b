"""Workspaces: projects that share some of their memories (memory-search.md section 2)."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from memory_app.models.project import Project


def default_share_categories() -> list[str]:
    """What a new workspace shares."""
    return ["CONSTRAINTS"]


class Workspace(models.Model):
    """A group of one owner's projects.

    ``share_categories`` is kept as it was written, even where it makes no sense: what a missing or a
    malformed list means is the reader's rule (section 2).
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="workspaces")
    name = models.CharField(max_length=200)
    share_categories: Any = models.JSONField(default=default_share_categories, null=True, blank=True)
    created = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="workspace_name"),
            models.CheckConstraint(condition=~models.Q(name=""), name="workspace_name_not_blank"),
        ]

    def __str__(self) -> str:
        return self.name


class WorkspaceMember(models.Model):
    """A project in a workspace; in one at most, hence the one-to-one."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="members")
    project = models.OneToOneField(Project, on_delete=models.CASCADE, related_name="membership")
    display_name = models.CharField(max_length=200, blank=True, default="")
    display_path = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            # Memories are labelled with it; two members of one name could not be told apart.
            models.UniqueConstraint(
                fields=["workspace", "display_name"],
                name="workspace_member_name",
                condition=~models.Q(display_name=""),
            ),
        ]

    def __str__(self) -> str:
        return self.display_name or str(self.project)
