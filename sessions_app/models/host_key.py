"""The key a host sends with every call (design section 8, hosts.md section 10).

Only a hash of the key is stored; the key itself is shown once, when it is made.
"""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from rest_framework_api_key.models import AbstractAPIKey

# Scope → what a key with it may do.
SCOPES: dict[str, str] = {
    "host": "transform, tools, events, commands and jobs of its owner's sessions",
    "admin": "the admin API: list, read and edit the owner's records",
    "replay": "what host may, and to say what time it is (`at`)",
}


def normal_scopes(values: Iterable[str]) -> list[str]:
    """The scopes sorted and without repeats. Raises ValidationError for none or an unknown one."""
    scopes = sorted({value.strip() for value in values})
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown:
        raise ValidationError(f"unknown scope: {', '.join(unknown)}; known are {', '.join(SCOPES)}")
    if not scopes:
        raise ValidationError("a key needs at least one scope")
    return scopes


def normal_harnesses(values: Iterable[str]) -> list[str]:
    """Harness names sorted and without repeats; an empty list means every harness."""
    return sorted({name for value in values if (name := value.strip())})


def default_scopes() -> list[str]:
    """What a key may do when nothing is said."""
    return ["host"]


class HostKey(AbstractAPIKey):
    """A bearer key: whose it is, what it may do, and from which harnesses it may come.

    Made with `HostKey.objects.create_key(name=…, owner=…, scopes=[…])`, which gives back the row and the key.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="host_keys")
    scopes = models.JSONField(default=default_scopes)
    harnesses = models.JSONField(default=list, blank=True, help_text="Harness names; empty means all.")
    last_seen = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta(AbstractAPIKey.Meta):
        abstract = False
        verbose_name = "host key"
        verbose_name_plural = "host keys"

    def clean(self) -> None:
        super().clean()
        self.scopes = normal_scopes(self.scopes)
        self.harnesses = normal_harnesses(self.harnesses)

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Store the key with its scopes in their one normal form. Raises ValidationError."""
        self.scopes = normal_scopes(self.scopes)
        self.harnesses = normal_harnesses(self.harnesses)
        super().save(*args, **kwargs)

    def has_scope(self, scope: str) -> bool:
        """Whether the key carries this scope; `replay` includes `host`."""
        return scope in self.scopes or (scope == "host" and "replay" in self.scopes)

    def allows_harness(self, harness: str) -> bool:
        """Whether a session of this harness may be reached with the key."""
        return not self.harnesses or harness in self.harnesses
