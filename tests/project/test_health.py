"""`/healthz`, `/readyz` and the schema fence (design section 5)."""

from collections.abc import Iterator

import pytest
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from magiccontext.api import health
from magiccontext.schema_fence import schema_state

pytestmark = pytest.mark.django_db


@pytest.fixture
def future_migration() -> Iterator[None]:
    recorder = MigrationRecorder(connection)
    recorder.record_applied("sessions_app", "9999_from_the_future")
    yield
    recorder.record_unapplied("sessions_app", "9999_from_the_future")


def test_a_live_process_asks_nothing_of_the_database(
    client: Client, django_assert_num_queries: object
) -> None:
    with django_assert_num_queries(0):  # type: ignore[operator]
        assert client.get("/healthz").json() == {"status": "ok"}


def test_a_migrated_database_is_ready(client: Client) -> None:
    assert schema_state().ready
    assert client.get("/readyz").status_code == 200


def test_a_newer_database_is_fenced_off(client: Client, future_migration: None) -> None:
    assert schema_state().newer_than_code
    response = client.get("/readyz")
    assert (response.status_code, response.json()["code"]) == (503, "schema_fence")
    assert response.json()["migrations"] == ["sessions_app.9999_from_the_future"]


def test_an_older_database_waits_for_its_migrations(client: Client) -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("sessions_app", "0001_initial")
    response = client.get("/readyz")
    assert (response.status_code, response.json()["code"]) == (503, "migration_guard")


def test_the_rows_of_an_app_that_was_removed_say_nothing() -> None:
    MigrationRecorder(connection).record_applied("long_gone_app", "0042_whatever")
    assert schema_state().ready


def test_a_dead_database_is_not_ready(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise DatabaseError("connection refused for user postgres")

    monkeypatch.setattr(health, "schema_state", fail)
    response = client.get("/readyz")
    assert (response.status_code, response.json()["code"]) == (503, "storage_failure")
    assert b"postgres" not in response.content


def test_only_reading_methods(client: Client) -> None:
    assert client.post("/healthz").status_code == 405
