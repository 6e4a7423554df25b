"""What happened: passes, responses, refusals and faults (dashboard-cli section 10)."""

from __future__ import annotations

from django.db import models

from sessions_app.models.session import Session


class Pass(models.Model):
    """One decision about one model request."""

    class Level(models.TextChoices):
        DEFER = "defer"
        SOFT_PLUS = "soft_plus"
        SOFT = "soft"
        HARD = "hard"

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="passes")
    view_version = models.BigIntegerField()
    message_id = models.CharField(
        "assistant message that received the usage", max_length=255, blank=True, default=""
    )
    time = models.DateTimeField()
    decision = models.CharField(max_length=16)
    level = models.CharField(max_length=10, choices=Level.choices)
    permitted = models.CharField(max_length=10, choices=Level.choices)
    reasons = models.JSONField(default=list)
    clauses = models.JSONField(default=list, help_text="The proof: name, value and spec section of each.")
    lanes = models.JSONField(default=dict)
    model = models.CharField(max_length=255, blank=True, default="")
    emergency = models.BooleanField(default=False)
    usage_percentage = models.FloatField(default=0)
    input_tokens = models.BigIntegerField(default=0)
    context_limit = models.BigIntegerField(default=0)
    dropped_count = models.IntegerField(default=0)
    dropped_tokens = models.IntegerField(default=0)
    first_changed = models.IntegerField(null=True, blank=True)
    message_count = models.IntegerField(default=0)
    last_mid = models.CharField(max_length=255, blank=True, default="")
    bytes_in = models.BigIntegerField(default=0)
    bytes_out = models.BigIntegerField(default=0)
    milliseconds = models.FloatField(default=0)

    class Meta:
        verbose_name_plural = "passes"
        # The overview and a session's page read the newest passes; retention trims the oldest.
        indexes = [models.Index(fields=["session", "-id"], name="pass_session_newest")]

    def __str__(self) -> str:
        return f"pass {self.pk} {self.level}"


class UsageEvent(models.Model):
    """The usage of one response.  Pressure is the sum of the three prompt parts (hosts section 1)."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="usage_events")
    pass_record = models.ForeignKey(
        Pass, on_delete=models.SET_NULL, null=True, blank=True, related_name="usage"
    )
    response_key = models.CharField(
        max_length=280, help_text="pass:<id>, or message:<id>; one response counts once."
    )
    message_id = models.CharField(max_length=255, blank=True, default="")
    time = models.DateTimeField()
    model = models.CharField(max_length=255, blank=True, default="")
    input_tokens = models.BigIntegerField(default=0)
    cache_read = models.BigIntegerField(default=0)
    cache_write = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    reports_cache = models.BooleanField(default=True)
    finish = models.CharField(max_length=64, blank=True, default="")
    context_limit = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "response_key"], name="usage_counted_once"),
        ]
        indexes = [models.Index(fields=["session", "-time"], name="usage_session_newest")]

    def __str__(self) -> str:
        return f"usage {self.response_key}"


class Incident(models.Model):
    """A refusal or an engine fault: what a person was told and why."""

    class Kind(models.TextChoices):
        REFUSAL = "refusal"
        FAULT = "fault"

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="incidents")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    code = models.CharField(max_length=64)
    detail = models.TextField()
    time = models.DateTimeField()
    view_version = models.BigIntegerField(default=0, help_text="Last good view at that time.")

    class Meta:
        indexes = [models.Index(fields=["session", "-id"], name="incident_session_newest")]

    def __str__(self) -> str:
        return f"{self.kind} {self.code}"


class Notice(models.Model):
    """A text for the person, offered to the host once (hosts section 10.2)."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="notices")
    level = models.CharField(max_length=8, default="info")
    code = models.CharField(max_length=32, blank=True, default="")
    text = models.TextField()
    created = models.DateTimeField()
    offered = models.DateTimeField(null=True, blank=True)

    class Meta:
        # Every answer looks for what has not been offered yet.
        indexes = [
            models.Index(fields=["session"], name="notice_waiting", condition=models.Q(offered=None)),
        ]

    def __str__(self) -> str:
        return self.code or self.text[:40]
