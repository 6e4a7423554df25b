"""Tags and the queue of drops (reclaim-core sections 1 to 3 and 13)."""

from __future__ import annotations

from django.db import models

from magiccontext.engine.state import DropMode, TagStatus, TagType
from sessions_app.models.session import Session


def _choices(names: type[TagType] | type[TagStatus] | type[DropMode]) -> list[tuple[str, str]]:
    return [(name.value, name.value or "—") for name in names]


class Tag(models.Model):
    """One numbered part of a session.  Numbers are never given twice."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="tags")
    number = models.IntegerField()
    type = models.CharField(max_length=8, choices=_choices(TagType))
    mid = models.CharField("owner message", max_length=255)
    part = models.IntegerField()
    rank = models.IntegerField(default=0)
    call_id = models.CharField(max_length=255, blank=True, default="")
    result_mid = models.CharField(max_length=255, blank=True, default="")
    result_part = models.IntegerField(default=-1)
    tool_name = models.CharField(max_length=255, blank=True, default="")
    status = models.CharField(max_length=10, choices=_choices(TagStatus), default=TagStatus.ACTIVE)
    drop_mode = models.CharField(max_length=20, choices=_choices(DropMode), blank=True, default="")
    output_bytes = models.IntegerField(default=0)
    input_bytes = models.IntegerField(default=0)
    reasoning_bytes = models.IntegerField(default=0)
    token_count = models.IntegerField(default=0)
    input_token_count = models.IntegerField(default=0)
    reasoning_token_count = models.IntegerField(default=0)
    input_string_bytes = models.IntegerField(default=-1)
    attachments = models.IntegerField(default=0)
    inert = models.BooleanField(default=False)
    source = models.BinaryField(
        null=True, blank=True, help_text="Text served instead of the host's own, as a JSON string."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "number"], name="tag_number"),
            models.UniqueConstraint(
                fields=["session", "type", "mid", "part"],
                name="tag_content",
                condition=~models.Q(type=TagType.TOOL),
            ),
            models.UniqueConstraint(
                fields=["session", "call_id", "mid"], name="tag_call", condition=models.Q(type=TagType.TOOL)
            ),
        ]

    def __str__(self) -> str:
        return f"§{self.number}§"


class PendingDrop(models.Model):
    """A mark of the agent that has not landed yet."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="pending_drops")
    number = models.IntegerField()
    operation = models.CharField(max_length=16, default="drop")
    queued_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "number", "operation"], name="pending_drop_once"),
        ]

    def __str__(self) -> str:
        return f"{self.operation} §{self.number}§"
