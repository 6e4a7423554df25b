"""What a host is asked to do on its own side (hosts section 10.2)."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from sessions_app.models.session import Session


class Directive(models.Model):
    """One request to the host.  Open ones go with every answer, unchanged, until the host confirms them or
    a newer one takes their place.

    Rows stay when they are settled: the newest marker that is not superseded is the one the host has.
    """

    class Kind(models.TextChoices):
        COMPACTION_MARKER = "compaction_marker"

    class Status(models.TextChoices):
        OPEN = "open"
        DONE = "done"
        SUPERSEDED = "superseded"

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="directives")
    directive_id = models.CharField(max_length=64, help_text="Follows from what is asked for.")
    kind = models.CharField(max_length=32, choices=Kind.choices)
    body = models.JSONField(help_text="The members beside directive_id and kind, as the host gets them.")
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.OPEN)
    created = models.DateTimeField(default=timezone.now)
    settled = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            # The index behind it is what a session's directives are read by.
            models.UniqueConstraint(fields=["session", "directive_id"], name="directive_identity"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.directive_id}"
