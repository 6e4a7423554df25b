"""The user profile: what is known of the person, in every project (memory-search.md section 11)."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone


class UserMemory(models.Model):
    """A stable entry of the profile.  Where it came from is copied: its candidates are deleted."""

    class Status(models.TextChoices):
        ACTIVE = "active"
        DISMISSED = "dismissed"

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="profile")
    content = models.TextField()
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.ACTIVE)
    promoted_at = models.DateTimeField(default=timezone.now, help_text="Entries are rendered in this order.")
    provenance = models.JSONField(default=list, blank=True, help_text="Observations it was made from.")
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "user memories"
        # Every head reads the active ones in their order.
        indexes = [
            models.Index(
                fields=["owner", "promoted_at", "id"],
                name="profile_active",
                condition=models.Q(status="active"),
            ),
        ]

    def __str__(self) -> str:
        return self.content[:60]
