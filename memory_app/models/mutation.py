"""The memory mutation log: what ``<memory-updates>`` is made from (memory-search.md section 1.4)."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils import timezone

from memory_app.models.project import Project

VISIBILITY_CATEGORY = "__mc_visibility__"
"""Category of a row that says only: who may see the target has changed."""


class MemoryMutation(models.Model):
    """One change of a memory that is not an addition.  Append-only; ids grow and are never given twice.

    A session remembers the highest id its baseline knew.  For that to be enough, ids must become visible
    in their order: every writer holds its owner's lock (:func:`memory_app.services.projects.writing`).
    """

    class Type(models.TextChoices):
        ARCHIVE = "archive"
        DELETE = "delete"
        UPDATE = "update"
        SUPERSEDED = "superseded"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memory_mutations")
    type = models.CharField(max_length=10, choices=Type.choices)
    # Plain numbers: the target of a `delete` is gone, and its row here must stay.
    target_id = models.BigIntegerField()
    superseded_by = models.BigIntegerField(null=True, blank=True)
    category = models.CharField(max_length=64, blank=True, default="")
    new_content = models.TextField(null=True, blank=True)
    queued_at = models.DateTimeField(default=timezone.now)

    class Meta:
        # A head reads the rows of a few projects behind an id.
        indexes = [models.Index(fields=["project", "id"], name="memory_mutation_after")]

    def __str__(self) -> str:
        return f"{self.pk}: {self.type} #{self.target_id}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Append.  Raises TypeError for a row that is stored already: what happened does not change."""
        if not self._state.adding:
            raise TypeError("the memory mutation log is append-only")
        super().save(*args, **kwargs)
