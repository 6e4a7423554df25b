"""The read-only lists of the admin API (design section 8)."""

from __future__ import annotations

import pytest

from sessions_app import models
from tests.api.conftest import Host, get
from tests.transform.conftest import Caller, exchange, make_key

LISTS = ["sessions", "passes", "tags", "incidents"]


@pytest.fixture
def admin_key(host: Host) -> str:
    host.serve(exchange(2))
    models.Incident.objects.create(
        session=host.session, kind="fault", code="engine_fault", detail="d", time=host.session.created
    )
    return make_key("ada", "admin")


@pytest.mark.parametrize(("name", "count"), [("sessions", 1), ("passes", 1), ("tags", 3), ("incidents", 1)])
def test_it_works(admin_key: str, host: Host, name: str, count: int) -> None:
    body = get(admin_key, f"{name}/").json()
    assert body["count"] == len(body["results"]) == count
    for session in (host.session.pk, "custom/s1"):
        assert get(admin_key, f"{name}/", session=session).json()["count"] == count
    assert get(admin_key, f"{name}/", session="custom/s2").json()["count"] == 0


@pytest.mark.parametrize("name", [*LISTS, "status"])
def test_only_an_admin_key_reads_them(host: Host, admin_key: str, name: str) -> None:
    assert get(host.caller.key, f"{name}/").status_code == 403
    assert get("x" * 8 + "." + "y" * 32, f"{name}/").status_code == 401


@pytest.mark.parametrize("name", LISTS)
def test_nobody_sees_anothers_rows(admin_key: str, host: Host, name: str) -> None:
    bob = make_key("bob", "admin")
    assert get(bob, f"{name}/").json()["count"] == 0
    assert get(bob, f"{name}/", session=host.session.pk).json()["count"] == 0
    assert get(bob, "status/").json()["sessions"] == 0


@pytest.mark.parametrize("session", ["", "nonsense", "/x", "custom/", "9" * 30, "custom/\x00"])
def test_a_session_that_cannot_be_one(admin_key: str, session: str) -> None:
    answer = get(admin_key, "tags/", session=session)
    assert (answer.status_code, answer.json()["field"]) == (422, "session")


def test_rows_are_filtered(admin_key: str, host: Host) -> None:
    host.reduce("1")
    host.command("flush")
    host.serve(exchange(2), at=1)
    assert [r["number"] for r in get(admin_key, "tags/", status="dropped").json()["results"]] == [1]
    assert get(admin_key, "passes/", level="soft_plus").json()["count"] == 1
    assert get(admin_key, "sessions/", role="subagent").json()["count"] == 0
    assert get(admin_key, "tags/", status="gone").json()["field"] == "status"


def test_pages_are_bounded(admin_key: str) -> None:
    body = get(admin_key, "tags/", limit=2).json()
    assert (len(body["results"]), body["count"]) == (2, 3)
    assert body["next"]
    assert len(get(admin_key, "tags/", limit=2, offset=2).json()["results"]) == 1


def test_a_pass_shows_its_proof(admin_key: str) -> None:
    row = get(admin_key, "passes/").json()["results"][0]
    assert row["level"] == "hard" and row["reasons"] == ["first_render"] and row["clauses"]


def test_a_session_being_deleted_is_counted_and_not_listed(admin_key: str) -> None:
    models.Session.objects.update(cleanup_pending=True)
    assert get(admin_key, "sessions/").json()["count"] == 0
    assert get(admin_key, "tags/").json()["count"] == 0
    assert get(admin_key, "status/").json()["sessions_being_deleted"] == 1


def test_status_sums_up(admin_key: str, host: Host) -> None:
    body = get(admin_key, "status/").json()
    assert (body["sessions"], body["incidents"], body["sessions_with_error"]) == (1, 1, 0)
    assert body["passes"] == {"defer": 0, "soft_plus": 0, "soft": 0, "hard": 1}
    assert body["newest_incident"]["code"] == "engine_fault"


def test_a_write_is_not_offered(admin_key: str) -> None:
    assert Caller(admin_key).post("../../tags/", {}).status_code in (404, 405)
