"""Receipts: what makes a retry harmless (design section 5; hosts section 10.1)."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from sessions_app.models.session import Session


class RequestReceipt(models.Model):
    """The answer that an ``Idempotency-Key`` already got.

    Of a pass the receipt holds the view version, and the answer is made from it again; of anything else
    the answer itself.  ``status`` 0: the first request is still running.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    body_digest = models.BinaryField()
    session = models.ForeignKey(Session, on_delete=models.CASCADE, null=True, related_name="+")
    pass_record = models.ForeignKey(
        "sessions_app.Pass", on_delete=models.CASCADE, null=True, related_name="+"
    )
    view_version = models.BigIntegerField(default=0)
    status = models.IntegerField(default=200)
    answer = models.JSONField(null=True)
    created = models.DateTimeField(default=timezone.now)  # the real clock, whatever time a replay plays at

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "key"], name="receipt_key")]
        # Housekeeping deletes what is older than a day.
        indexes = [models.Index(fields=["created"], name="receipt_created")]

    def __str__(self) -> str:
        return self.key


class EventReceipt(models.Model):
    """An event that has been applied."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+")
    event_id = models.CharField(max_length=255)
    result = models.JSONField(default=dict)
    created = models.DateTimeField(default=timezone.now)  # the real clock, whatever time a replay plays at

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "event_id"], name="event_once")]

    def __str__(self) -> str:
        return self.event_id


class ToolReceipt(models.Model):
    """A tool call that has been answered."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+")
    call_key = models.CharField(max_length=255)
    tool = models.CharField(max_length=64)
    answer = models.JSONField()
    created = models.DateTimeField(default=timezone.now)  # the real clock, whatever time a replay plays at

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "call_key"], name="tool_call_once")]

    def __str__(self) -> str:
        return self.call_key
