"""`manage.py token NAME`: make an API key and print it, and nothing else (design section 8)."""

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from magiccontext.schema_fence import schema_state
from sessions_app.models import HostKey


def _owner(username: str | None) -> Any:
    """The named user, or the only one there is. Raises CommandError."""
    users = get_user_model()._default_manager.filter(is_active=True)
    if username is not None:
        found = users.filter(username=username).first()
        if found is None:
            raise CommandError(f"there is no active user {username!r}")
        return found
    candidates = list(users.order_by("pk")[:2])
    if not candidates:
        raise CommandError("there is no user yet: run `manage.py serve` once, or `manage.py createsuperuser`")
    if len(candidates) > 1:
        raise CommandError("there are several users: name one with --user")
    return candidates[0]


class Command(BaseCommand):
    """Print a new key. Only its hash is kept."""

    help = "Make an API key and print it, and nothing else."
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        """`NAME`, `--scope`, `--user`, `--harness`."""
        parser.add_argument("name", help="what the key is for, at most 50 characters")
        parser.add_argument(
            "--scope", default="host", help="comma list of host, admin, replay (default host)"
        )
        parser.add_argument("--user", default=None, help="whose key (default: the only user)")
        parser.add_argument(
            "--harness", default="", help="comma list of harnesses it may serve (default all)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises CommandError for an unready database, an unknown scope or user, or an unusable name."""
        try:
            state = schema_state()
        except DatabaseError as error:
            raise CommandError("the database does not answer") from error
        if not state.ready:
            raise CommandError("the database and this code are not of one version: run `manage.py migrate`")
        name = options["name"].strip()
        if not 0 < len(name) <= 50:
            raise CommandError("the name needs 1 to 50 characters")
        try:
            _, key = HostKey.objects.create_key(
                name=name,
                owner=_owner(options["user"]),
                scopes=options["scope"].split(","),
                harnesses=options["harness"].split(","),
            )
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error
        self.stdout.write(key)
