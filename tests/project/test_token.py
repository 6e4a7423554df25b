"""`manage.py token` (design section 8)."""

from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from magiccontext.first_run import create_first_user
from sessions_app.models import HostKey

pytestmark = pytest.mark.django_db


def token(*args: str, **options: Any) -> str:
    out = StringIO()
    call_command("token", *args, stdout=out, **options)
    return out.getvalue()


def test_it_prints_a_working_key_and_nothing_else(owner: User) -> None:
    printed = token("laptop", scope="host,admin", harness="pi")
    key = printed.removesuffix("\n")
    host_key = HostKey.objects.get_from_key(key)
    assert "\n" not in key
    assert (host_key.name, host_key.owner, host_key.scopes, host_key.harnesses) == (
        "laptop",
        owner,
        ["admin", "host"],
        ["pi"],
    )


def test_the_default_scope_is_host(owner: User) -> None:
    token("laptop")
    assert HostKey.objects.get().scopes == ["host"]


def test_of_several_users_one_must_be_named(owner: User) -> None:
    User.objects.create_user("bob")
    with pytest.raises(CommandError, match="several users"):
        token("laptop")
    token("laptop", user="bob")
    assert HostKey.objects.get().owner.username == "bob"


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        (["laptop"], {"user": "nobody"}, "no active user"),
        (["laptop"], {"scope": "root"}, "unknown scope"),
        (["laptop"], {"scope": ""}, "unknown scope"),
        ([" "], {}, "1 to 50"),
        (["x" * 51], {}, "1 to 50"),
    ],
)
def test_what_it_refuses(owner: User, args: list[str], options: dict[str, str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        token(*args, **options)
    assert not HostKey.objects.exists()


def test_without_a_user_it_says_how_to_get_one() -> None:
    with pytest.raises(CommandError, match="serve"):
        token("laptop")


def test_it_writes_to_no_database_of_another_version(owner: User) -> None:
    MigrationRecorder(connection).record_applied("sessions_app", "9999_from_the_future")
    with pytest.raises(CommandError, match="not of one version"):
        token("laptop")


def test_the_first_user_is_made_once_and_shows_no_secret_in_its_repr() -> None:
    first = create_first_user()
    assert first is not None
    assert User.objects.get(username="admin").check_password(first.password)
    assert HostKey.objects.get_from_key(first.key).scopes == ["admin", "host"]
    assert first.password not in repr(first)
    assert first.key not in repr(first)
    assert create_first_user() is None
