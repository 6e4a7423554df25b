"""Epochs and versions: what a cached head is compared with (memory-search.md section 1.5)."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from memory_app.models.project import Project

GLOBAL_KEY = "__global__"
"""How the row without a project is called where a key is shown."""


class ProjectState(models.Model):
    """The memory epoch of a project; and, in the one row without a project, what is global to an owner.

    The reserved key is the absence of a project and not a name: a host may send any text as an identity.
    That global row carries the profile's version.  Locking it is how the writers of one owner's knowledge
    take turns, and its revision grows with every such turn: while it stands still, nothing has changed.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    project = models.OneToOneField(
        Project, on_delete=models.CASCADE, null=True, blank=True, related_name="state"
    )
    memory_epoch = models.BigIntegerField(default=0)
    profile_version = models.BigIntegerField(default=0)
    revision = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner"], name="project_state_global", condition=models.Q(project=None)
            ),
            models.CheckConstraint(
                condition=models.Q(project=None) | models.Q(profile_version=0),
                name="profile_is_global",
            ),
            models.CheckConstraint(
                condition=~models.Q(project=None) | models.Q(memory_epoch=0), name="memory_epoch_of_a_project"
            ),
        ]

    def __str__(self) -> str:
        return GLOBAL_KEY if self.project is None else str(self.project)
