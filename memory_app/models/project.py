"""A project as its owner's agents know it (memory-search.md section 6)."""

import re

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone

# `git:` with the root commit (SHA-1 or SHA-256), `dir:` with the first 12 hex digits of a path's MD5.
COMPUTED_IDENTITY = re.compile(r"git:(?:[0-9a-f]{40}|[0-9a-f]{64})|dir:[0-9a-f]{12}")


def validate_identity(value: str) -> None:
    """Raise ValidationError for an identity no task or write may run under: a blank one."""
    if not value.strip():
        raise ValidationError("a project identity cannot be blank", code="identity_required")


class Project(models.Model):
    """One project of one owner. Clones and worktrees of a repository share its row.

    An identity sent by a host is taken as given inside its owner's scope, whatever its form.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="projects")
    identity = models.CharField(max_length=512, validators=[validate_identity])
    directory = models.TextField(blank=True, default="")
    display_name = models.CharField(max_length=200, blank=True, default="")
    created = models.DateTimeField(default=timezone.now, editable=False)
    last_seen = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "identity"], name="project_identity_per_owner"),
            models.CheckConstraint(condition=~models.Q(identity=""), name="project_identity_not_blank"),
        ]
        # The project list of a person shows the newest first.
        indexes = [models.Index(fields=["owner", "-last_seen"], name="project_owner_last_seen")]

    def __str__(self) -> str:
        return self.display_name or self.identity

    def is_repository(self) -> bool:
        """Whether the identity is a repository's root commit, the form every clone shares."""
        return self.identity.startswith("git:") and COMPUTED_IDENTITY.fullmatch(self.identity) is not None
