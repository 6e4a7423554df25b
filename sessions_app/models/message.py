"""The raw store and the forms in which messages were served (hosts section 2.5; design section 3)."""

from __future__ import annotations

from django.db import models

from sessions_app.models.session import Session


class RawMessage(models.Model):
    """One message as the host sent it, without per-request decorations.  Only ingestion writes it.

    A message whose content changed under the same identity is a new revision; one the host removed keeps
    its row, marked.
    """

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="raw_messages")
    lineage = models.IntegerField()
    ordinal = models.IntegerField(help_text="1-based and dense within its lineage.")
    mid = models.CharField("message identity", max_length=255)
    revision = models.IntegerField(default=0)
    role = models.CharField(max_length=12)
    digest = models.BinaryField(help_text="SHA-256 of the bytes.")
    parent_mid = models.CharField(max_length=255, blank=True, default="")
    raw = models.BinaryField()
    tokens = models.IntegerField(default=0, help_text="Local estimate of everything in it.")
    links = models.JSONField(
        default=list, help_text="Tool calls and results: [is call, call id, part, owner]."
    )
    in_path = models.BooleanField(default=True, help_text="Part of the array of the last pass.")
    raw_sent = models.BooleanField(default=False, help_text="The host had to send it without edits.")
    removed = models.BooleanField(default=False, help_text="Taken away by the host.")
    created = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["session", "lineage", "ordinal", "revision"], name="raw_message_place"
            ),
        ]
        # ctx_expand, events and forms find a message by its identity.
        indexes = [models.Index(fields=["session", "mid"], name="raw_message_mid")]

    def __str__(self) -> str:
        return f"{self.session_id}/{self.mid}"


class ServedForm(models.Model):
    """How a message was served from one view version to another.  ``body`` NULL: it was not sent.

    A form without edits serves the raw bytes and stores no copy of them (``body`` empty, ``is_raw``).
    """

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="served_forms")
    mid = models.CharField(max_length=255)
    since_version = models.BigIntegerField()
    until_version = models.BigIntegerField(null=True, blank=True, help_text="Exclusive; NULL while valid.")
    edits = models.JSONField(default=list)
    is_raw = models.BooleanField(default=False)
    body = models.BinaryField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "mid", "since_version"], name="served_form_start"),
        ]
        # Every load and every pass reads the valid forms only.
        indexes = [
            models.Index(
                fields=["session", "mid"], name="served_form_valid", condition=models.Q(until_version=None)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.session_id}/{self.mid}@{self.since_version}"
