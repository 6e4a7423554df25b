"""A memory: one fact of a project that outlives its sessions (memory-search.md section 1)."""

from __future__ import annotations

import hashlib
import re

from django.db import models
from django.utils import timezone

from memory_app.models.project import Project

CATEGORIES: tuple[str, ...] = ("PROJECT_RULES", "ARCHITECTURE", "CONSTRAINTS", "CONFIG_VALUES", "NAMING")
"""The categories of new writes, in their order."""

LEGACY_CATEGORIES: tuple[str, ...] = (
    "USER_DIRECTIVES", "USER_PREFERENCES", "CONFIG_DEFAULTS", "ARCHITECTURE_DECISIONS", "ENVIRONMENT",
    "WORKFLOW_RULES", "KNOWN_ISSUES",
)  # fmt: skip
"""Readable only: imported rows keep them until they are curated."""


# JavaScript's idea of whitespace: without U+0085 and the separators U+001C to U+001F, with U+FEFF.  Hashes of
# imported rows were made with it.
_SPACES = re.compile(r"[\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+")


def normalized(content: str) -> str:
    """Lower case, every run of whitespace one space, trimmed (section 1.1)."""
    return _SPACES.sub(" ", content.lower()).strip(" ")


def normalized_hash(content: str) -> str:
    """What makes two texts the same memory: MD5 hex of the normalized text."""
    return hashlib.md5(normalized(content).encode(), usedforsecurity=False).hexdigest()


def normal_importance(value: float | None) -> int:
    """1 to 100, rounded and clamped; 50 for nothing and for what is not finite (section 1.1)."""
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return 50
    return min(100, max(1, round(value)))


class Memory(models.Model):
    """One memory.  Its id is on the wire (``#7: …``) and is never given to another one.

    Edit it through :mod:`memory_app.services.memories`: every change that a running session has to see
    leaves a row in the mutation log or raises the project's memory epoch, in the same transaction.
    """

    class Status(models.TextChoices):
        ACTIVE = "active"
        PERMANENT = "permanent"
        ARCHIVED = "archived"

    class Scope(models.TextChoices):
        PROJECT = "project"
        ECOSYSTEM = "ecosystem"
        UNIVERSE = "universe"

    class Source(models.TextChoices):
        HISTORIAN = "historian"
        AGENT = "agent"
        DREAMER = "dreamer"
        USER = "user"

    class Verification(models.TextChoices):
        UNVERIFIED = "unverified"
        VERIFIED = "verified"
        STALE = "stale"
        FLAGGED = "flagged"

    LIVE = (Status.ACTIVE, Status.PERMANENT)

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memories")
    category = models.CharField(max_length=64)
    content = models.TextField()
    normalized_hash = models.CharField(max_length=32, editable=False)
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.ACTIVE)
    importance = models.SmallIntegerField(
        default=50, null=True, blank=True, help_text="1 to 100; empty only on imported rows."
    )
    scope = models.CharField(max_length=9, choices=Scope.choices, default=Scope.PROJECT)
    shareable = models.BooleanField(default=False)
    source_type = models.CharField(max_length=9, choices=Source.choices, default=Source.HISTORIAN)
    source_session = models.CharField(max_length=300, blank=True, default="", help_text="harness/session id")
    source_message = models.CharField(max_length=255, blank=True, default="")
    seen_count = models.IntegerField(default=1)
    retrieval_count = models.IntegerField(default=0)
    first_seen_at = models.DateTimeField(default=timezone.now)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(null=True, blank=True)
    last_retrieved_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    verification_status = models.CharField(
        max_length=10, choices=Verification.choices, default=Verification.UNVERIFIED
    )
    verified_at = models.DateTimeField(null=True, blank=True)
    classified_at = models.DateTimeField(null=True, blank=True)
    # A plain number: it still says what took its place after that row was deleted.
    superseded_by = models.BigIntegerField(null=True, blank=True)
    merged_from = models.JSONField(default=list, blank=True, help_text="Ids, ascending, each once.")
    metadata = models.JSONField(default=dict, blank=True)
    cue = models.TextField(blank=True, default="")
    cue_hash = models.CharField(max_length=64, blank=True, default="", help_text="Hash of the content cued.")
    cue_at = models.DateTimeField(null=True, blank=True)
    cue_rejections = models.IntegerField(default=0)

    class Meta:
        verbose_name_plural = "memories"
        constraints = [
            # In every status: an archived fact is not written a second time.
            models.UniqueConstraint(
                fields=["project", "category", "normalized_hash"], name="memory_once_per_category"
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=["active", "permanent", "archived"]), name="memory_status"
            ),
            models.CheckConstraint(
                condition=models.Q(importance=None) | models.Q(importance__range=(1, 100)),
                name="memory_importance",
            ),
        ]
        indexes = [
            # Rendering, search and the lists read the live rows of a few projects.
            models.Index(
                fields=["project", "id"],
                name="memory_live",
                condition=models.Q(status__in=["active", "permanent"]),
            ),
            # The lists show the newest first.
            models.Index(fields=["project", "-updated_at"], name="memory_newest"),
        ]

    def __str__(self) -> str:
        return f"#{self.pk} {self.category}: {self.content[:60]}"

    def is_live(self) -> bool:
        """Whether the status is one that is rendered.  Expiry is not looked at: it needs a cutoff."""
        return self.status in self.LIVE

    def set_content(self, content: str) -> None:
        """The text with its hash.  Does not save."""
        self.content = content
        self.normalized_hash = normalized_hash(content)

    def forget_judgements(self) -> None:
        """What was decided about the old text no longer holds (section 1.3).  Does not save.

        It fails closed: a text nobody has looked at is shared with nobody.
        """
        self.shareable = False
        self.classified_at = None
        self.verification_status = self.Verification.UNVERIFIED
        self.verified_at = None
        self.cue = ""
        self.cue_hash = ""
        self.cue_at = None
        self.cue_rejections = 0
