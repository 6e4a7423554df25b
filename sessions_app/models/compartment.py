"""Compartments: what stands for raw messages that are no longer sent (historian.md, "Minimum data")."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils import timezone

from sessions_app.models.session import Session


class Compartment(models.Model):
    """One summarised stretch of a session, inclusive ordinals.  Written by
    :mod:`sessions_app.services.compartments` only: a row edited by hand would be served at no known moment.

    A tier that is NULL was never written; an empty one has nothing to say at that level.
    """

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="compartments")
    sequence = models.IntegerField()
    lineage = models.IntegerField(default=1, help_text="The lineage its ordinals were counted in.")
    start = models.IntegerField("first ordinal")
    end = models.IntegerField("last ordinal")
    start_mid = models.CharField("first message", max_length=255, blank=True, default="")
    end_mid = models.CharField("last message", max_length=255, blank=True, default="")
    start_block = models.IntegerField(null=True, blank=True)
    end_block = models.IntegerField(
        null=True, blank=True, help_text="Part of the last message at which it ends; empty: with the message."
    )
    title = models.TextField(blank=True, default="")
    content = models.TextField(blank=True, default="", help_text="The flat text; repeats p1.")
    p1 = models.TextField(null=True, blank=True)
    p2 = models.TextField(null=True, blank=True)
    p3 = models.TextField(null=True, blank=True)
    p4 = models.TextField(null=True, blank=True)
    importance = models.SmallIntegerField(default=50)
    episode_type = models.CharField(max_length=255, blank=True, default="")
    legacy = models.BooleanField(default=False, help_text="Text without tiers.")
    producer = models.CharField(max_length=255, blank=True, default="", help_text="Model or built-in.")
    started_at = models.DateTimeField("time of the first message", null=True, blank=True)
    ended_at = models.DateTimeField("time of the last message", null=True, blank=True)
    created = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            # The index behind it is what every head, page and publication reads by.
            models.UniqueConstraint(fields=["session", "sequence"], name="compartment_sequence"),
            models.CheckConstraint(
                condition=models.Q(start__gte=1) & models.Q(end__gte=models.F("start")),
                name="compartment_range",
            ),
            models.CheckConstraint(
                condition=models.Q(importance__range=(1, 100)), name="compartment_importance"
            ),
            models.CheckConstraint(condition=models.Q(sequence__gte=0), name="compartment_sequence_from_0"),
        ]

    def __str__(self) -> str:
        return f"{self.start}-{self.end} {self.title[:60]}"


class CompartmentEvent(models.Model):
    """An incident or a correction the historian saw.  Stored, never rendered."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="compartment_events")
    compartment = models.ForeignKey(
        Compartment, on_delete=models.SET_NULL, null=True, blank=True, related_name="events"
    )
    kind = models.CharField(max_length=64)
    at_compartment = models.IntegerField(null=True, blank=True, help_text="1-based position in its run.")
    fields = models.JSONField(default=dict)
    created = models.DateTimeField(default=timezone.now)

    class Meta:
        # A session's page shows the newest first.
        indexes = [models.Index(fields=["session", "-id"], name="compartment_event_newest")]

    def __str__(self) -> str:
        return self.kind


class M0Mutation(models.Model):
    """A structural change of a session's history: the next head is made anew (history-render section 5).

    Append-only; ids grow and are never given twice.  Publication is none of these.
    """

    class Type(models.TextChoices):
        DELETE = "compartment_delete"
        MERGE = "compartment_merge"
        BOUNDARY = "recomp_boundary_change"
        UPGRADE = "compartment_upgrade"

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="m0_mutations")
    type = models.CharField(max_length=24, choices=Type.choices)
    target = models.IntegerField(null=True, blank=True, help_text="Sequence of the compartment.")
    time = models.DateTimeField(default=timezone.now)

    class Meta:
        # A head asks for the session's newest.
        indexes = [models.Index(fields=["session", "-id"], name="m0_mutation_newest")]

    def __str__(self) -> str:
        return f"{self.pk}: {self.type}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Append.  Raises TypeError for a row that is stored already: what happened does not change."""
        if not self._state.adding:
            raise TypeError("the log of structural changes is append-only")
        super().save(*args, **kwargs)
