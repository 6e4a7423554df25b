"""What an empty installation needs before anybody can use it: one person and one key."""

import secrets
from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.db import transaction

from sessions_app.models import HostKey

ADMIN_NAME = "admin"
FIRST_KEY_NAME = "first key"


@dataclass(frozen=True)
class Credentials:
    """What is shown once and kept nowhere in clear."""

    username: str
    password: str
    key: str

    def __repr__(self) -> str:
        # So that no traceback or log line can carry them.
        return f"Credentials(username={self.username!r})"


def create_first_user() -> Credentials | None:
    """Make the admin and a key with scopes `host` and `admin`; None when any user exists already."""
    users = get_user_model()
    with transaction.atomic():
        if users._default_manager.exists():
            return None
        password = secrets.token_urlsafe(15)
        admin = users._default_manager.create_superuser(username=ADMIN_NAME, email="", password=password)
        _, key = HostKey.objects.create_key(name=FIRST_KEY_NAME, owner=admin, scopes=["host", "admin"])
    return Credentials(ADMIN_NAME, password, key)
