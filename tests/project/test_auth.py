"""Keys (design section 8)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone

from magiccontext.api import auth
from sessions_app.models import HostKey

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.project.urls")]

MakeKey = Callable[..., tuple[HostKey, str]]


def ask(client: Client, header: str | None, path: str = "/api/test/whoami") -> Any:
    return client.get(path, headers={} if header is None else {"Authorization": header})


def test_it_works(client: Client, make_key: MakeKey) -> None:
    _, key = make_key()
    response = ask(client, f"Bearer {key}")
    assert (response.status_code, response.json()) == (200, {"user": "ada", "key": "test"})


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer  "])
def test_the_scheme_is_read_in_any_case(client: Client, make_key: MakeKey, scheme: str) -> None:
    assert ask(client, f"{scheme} {make_key()[1]}").status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "Bearer nonsense",
        "Bearer abcdefgh." + "x" * 32,
        "Bearer \x00.é",
    ],
)
def test_without_a_good_key_nobody_is_let_in(client: Client, make_key: MakeKey, header: str | None) -> None:
    make_key()
    response = ask(client, header)
    assert (response.status_code, response.json()["code"]) == (401, "unauthorized")
    assert response["WWW-Authenticate"] == "Bearer"


def test_the_right_prefix_with_a_wrong_secret_is_refused(client: Client, make_key: MakeKey) -> None:
    _, key = make_key()
    assert ask(client, f"Bearer {key[:-1]}{'a' if key[-1] != 'a' else 'b'}").status_code == 401


def test_a_revoked_or_expired_key_is_refused(client: Client, make_key: MakeKey) -> None:
    _, revoked = make_key(revoked=True)
    _, expired = make_key(expiry_date=timezone.now() - timedelta(seconds=1))
    assert ask(client, f"Bearer {revoked}").status_code == 401
    assert ask(client, f"Bearer {expired}").status_code == 401


def test_the_key_of_a_disabled_user_is_refused(client: Client, make_key: MakeKey, owner: User) -> None:
    _, key = make_key()
    owner.is_active = False
    owner.save()
    assert ask(client, f"Bearer {key}").status_code == 401


def test_a_browser_session_is_no_key(client: Client, owner: User) -> None:
    client.force_login(owner)
    assert ask(client, None).status_code == 401


@pytest.mark.parametrize(
    ("scopes", "host", "admin"),
    [(["host"], 200, 403), (["admin"], 403, 200), (["admin", "host"], 200, 200), (["replay"], 200, 403)],
)
def test_a_scope_opens_what_it_names(
    client: Client, make_key: MakeKey, scopes: list[str], host: int, admin: int
) -> None:
    _, key = make_key(scopes=scopes)
    assert ask(client, f"Bearer {key}").status_code == host
    response = ask(client, f"Bearer {key}", "/api/test/admin")
    assert response.status_code == admin
    if admin == 403:
        assert response.json()["code"] == "forbidden"


def test_scopes_are_kept_sorted_and_unknown_ones_refused(make_key: MakeKey) -> None:
    host_key, _ = make_key(scopes=["replay", "host", "host"], harnesses=["pi", " ", "omp"])
    host_key.refresh_from_db()
    assert (host_key.scopes, host_key.harnesses) == (["host", "replay"], ["omp", "pi"])
    with pytest.raises(ValidationError):
        make_key(scopes=["root"])
    with pytest.raises(ValidationError):
        make_key(scopes=[])


def test_a_key_may_be_bound_to_harnesses(make_key: MakeKey) -> None:
    assert make_key()[0].allows_harness("pi")
    bound, _ = make_key(harnesses=["pi"])
    assert bound.allows_harness("pi")
    assert not bound.allows_harness("opencode")


def test_the_key_itself_is_stored_nowhere(make_key: MakeKey) -> None:
    host_key, key = make_key()
    secret = key.partition(".")[2]
    assert secret not in repr(HostKey.objects.filter(pk=host_key.pk).values())


def test_use_is_noted_at_most_once_a_minute(make_key: MakeKey) -> None:
    host_key, _ = make_key()
    now = timezone.now()
    assert auth.note_seen(host_key, now)
    assert not auth.note_seen(host_key, now + timedelta(seconds=59))
    assert auth.note_seen(host_key, now + timedelta(seconds=60))
    host_key.refresh_from_db()
    assert host_key.last_seen == now + timedelta(seconds=60)


@pytest.mark.django_db(transaction=True)
def test_a_held_write_lock_neither_blocks_nor_fails_a_call(client: Client, make_key: MakeKey) -> None:
    host_key, key = make_key()
    holder = connection.copy()
    try:
        with holder.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE" if connection.vendor == "sqlite" else "BEGIN")
            cursor.execute("UPDATE sessions_app_hostkey SET name = name")
        before = timezone.now()
        assert ask(client, f"Bearer {key}").status_code == 200
        assert timezone.now() - before < timedelta(seconds=2)
        with holder.cursor() as cursor:
            cursor.execute("ROLLBACK")
    finally:
        holder.close()
    host_key.refresh_from_db()
    assert host_key.last_seen is None
    assert ask(client, f"Bearer {key}").status_code == 200
    host_key.refresh_from_db()
    assert host_key.last_seen is not None


def test_the_busy_timeout_is_back_afterwards(make_key: MakeKey) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("a matter of SQLite")
    auth.note_seen(make_key()[0], timezone.now())
    with connection.cursor() as cursor:
        assert cursor.execute("PRAGMA busy_timeout").fetchone() == (5000,)


def test_an_error_of_the_database_is_not_taken_for_a_missing_key(
    client: Client, make_key: MakeKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, key = make_key()

    def fail(presented: str) -> None:
        raise OperationalError("no such table")

    monkeypatch.setattr(auth, "_usable", fail)
    client.raise_request_exception = False
    assert ask(client, f"Bearer {key}").status_code == 500
