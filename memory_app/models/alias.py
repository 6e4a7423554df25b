"""Other names a project was known by (memory-search.md section 6)."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone

from memory_app.models.project import Project, validate_identity


class IdentityAlias(models.Model):
    """An old identity, and the project it stands for now.  Rows still stored under it belong to that one."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    identity = models.CharField(max_length=512, validators=[validate_identity])
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="aliases")
    created = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        verbose_name_plural = "identity aliases"
        constraints = [
            models.UniqueConstraint(fields=["owner", "identity"], name="identity_alias"),
            models.CheckConstraint(condition=~models.Q(identity=""), name="identity_alias_not_blank"),
        ]

    def __str__(self) -> str:
        return self.identity

    def clean(self) -> None:
        super().clean()
        if self.project_id is not None and self.project.owner_id != self.owner_id:
            raise ValidationError({"project": "belongs to another owner"})
        if self.project_id is not None and self.project.identity == self.identity:
            raise ValidationError({"identity": "is the project's own identity"})
