"""A session: one conversation of one host, and every scalar the engine keeps of it."""

from __future__ import annotations

from typing import Any

import msgspec
from django.conf import settings
from django.db import models

from magiccontext.engine.state import Vars

HARNESSES: tuple[str, ...] = (
    "opencode", "opencode2", "pi", "omp", "broca", "claude_code", "codex", "custom",
)  # fmt: skip
"""Known harness names (hosts section 1)."""

HARNESS_ALIASES = {"claude-code": "claude_code"}


class Session(models.Model):
    """Identity is (owner, harness, host's session id): hosts section 1.

    ``engine_state`` holds :class:`magiccontext.engine.state.Vars`: the scalars of reclaim-core section 13,
    read and written as one value under ``version``.  The columns beside it are what pages filter by.
    """

    class Role(models.TextChoices):
        PRIMARY = "primary"
        SUBAGENT = "subagent"

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="agent_sessions"
    )
    harness = models.CharField(max_length=32)
    sid = models.CharField("host's session id", max_length=255)
    parent_sid = models.CharField("parent's session id", max_length=255, blank=True, default="")
    role = models.CharField(max_length=8, choices=Role.choices, default=Role.PRIMARY)
    project = models.ForeignKey(
        "memory_app.Project", on_delete=models.SET_NULL, null=True, blank=True, related_name="sessions"
    )
    format = models.CharField(max_length=32)
    model = models.CharField(max_length=255, blank=True, default="")
    context_limit = models.BigIntegerField(default=0)
    usable_limit = models.BigIntegerField(default=0, help_text="Usable soft window in tokens.")
    threshold = models.FloatField(default=0, help_text="Execute threshold in percent.")
    usage_percentage = models.FloatField(default=0)
    input_tokens = models.BigIntegerField(default=0)
    capabilities = models.JSONField(default=dict, blank=True)
    version = models.BigIntegerField(
        default=0, help_text="Grows with every write; a pass computed from another one is not committed."
    )
    view_version = models.BigIntegerField(default=0)
    lineage = models.IntegerField(default=1)
    engine_state = models.JSONField(default=dict)
    host_compacted = models.DateTimeField(
        null=True, blank=True, help_text="When the host last compacted the conversation by itself."
    )
    notices_waiting = models.BooleanField(default=False, help_text="A notice has not been offered yet.")
    last_error = models.CharField(max_length=240, blank=True, default="")
    created = models.DateTimeField(auto_now_add=True)
    last_seen = models.DateTimeField(null=True, blank=True)
    cleanup_pending = models.BooleanField(
        default=False, help_text="Deleted by the host; its rows go as soon as the database is free."
    )

    # Set by :func:`sessions_app.services.sessions.find`: the revision of the owner's knowledge.
    knowledge_revision: int | None = None

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "harness", "sid"], name="session_identity"),
        ]
        # The overview and the session list show the newest first.
        indexes = [models.Index(fields=["owner", "-last_seen"], name="session_owner_last_seen")]

    def __str__(self) -> str:
        return f"{self.harness}/{self.sid}"

    def vars(self) -> Vars:
        """The engine's scalars.  A value of an older layout gets the defaults of what it lacks.

        The version is the column's: that is what writers compare and raise.
        """
        return msgspec.convert({**self.engine_state, "version": self.version}, Vars)

    def store_vars(self, value: Vars) -> None:
        """Set the engine's scalars and the columns that repeat some of them.  Does not save."""
        self.engine_state = vars_json(value)
        self.version = value.version
        self.view_version = value.view_version
        self.lineage = value.lineage
        self.last_error = value.last_error


def vars_json(value: Vars) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(value)
    return built


class Lineage(models.Model):
    """A line of ordinals.  A rewind or a fork opens a new one that shares its parent's rows up to a point."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="lineages")
    number = models.IntegerField()
    parent = models.IntegerField(null=True, blank=True)
    through_ordinal = models.IntegerField(default=0, help_text="Last ordinal shared with the parent.")
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "number"], name="lineage_number")]

    def __str__(self) -> str:
        return f"{self.session_id}/L{self.number}"
