"""Compartments over the admin API, on a session that a host has made (issue: the head before a historian)."""

from __future__ import annotations

from typing import Any

import pytest

from memory_app.models import Memory
from sessions_app import models
from tests.api.conftest import Host, get
from tests.api.test_memories_admin import Admin
from tests.transform.conftest import exchange, prompt

pytestmark = pytest.mark.django_db

PROJECT = {"identity": "git:" + "a" * 40}


@pytest.fixture
def admin(host: Host) -> Admin:
    """Messages: 1 prompt, 2 call, 3 result, 4 call, 5 result, 6 prompt."""
    host.serve([*exchange(2), prompt("go on")], project=PROJECT)
    return Admin()


def publish(admin: Admin, *rows: dict[str, Any], session: Any = "custom/s1", **more: Any) -> Any:
    return admin.post("compartments/", {"session": session, "compartments": list(rows), **more})


def row(start: int, end: int, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "title": f"T{start}", "p1": "did it", **more}


def test_it_works(admin: Admin, host: Host) -> None:
    made = publish(admin, row(1, 3), row(4, 5, p2="", importance=80))
    assert made.status_code == 201, made.content
    first, second = made.json()["compartments"]
    assert (first["sequence"], first["start"], first["end"], first["legacy"]) == (0, 1, 3, False)
    assert (second["p2"], second["p3"], second["importance"], second["producer"]) == ("", None, 80, "person")
    assert admin.listed("compartments/", session="custom/s1") == [first, second]
    assert admin.listed("compartments/", session=host.session.pk) == [first, second]
    assert get(admin.key, f"compartments/{first['id']}/").json() == first
    assert admin.delete(f"compartments/{second['id']}/").status_code == 204
    assert admin.listed("compartments/") == [first]
    assert models.M0Mutation.objects.get().type == "compartment_delete"


def test_1_a_host_goes_on_as_if_nothing_had_been_published(admin: Admin, host: Host) -> None:
    """Nothing served changes by itself, and the next pass is computed from the new version."""
    array = [*exchange(2), prompt("go on")]
    before = host.serve(array, at=1, project=PROJECT)
    assert publish(admin, row(1, 3)).status_code == 201
    after = host.serve(array, at=2, project=PROJECT)
    assert after["messages"] == before["messages"]
    assert models.HeadState.objects.get().published_pending


def test_ids_of_messages_are_found_and_given_ones_are_held_to(admin: Admin, host: Host) -> None:
    (third,) = models.RawMessage.objects.filter(session=host.session, ordinal=3).values_list("mid", flat=True)
    wrong = publish(admin, row(1, 3, end_mid="nobody"))
    assert (wrong.status_code, wrong.json()["field"]) == (422, "compartments.0.end_mid")
    made = publish(admin, row(1, 3, end_mid=third))
    assert made.json()["compartments"][0]["end_mid"] == third


@pytest.mark.parametrize(
    ("rows", "field"),
    [
        ([], "compartments"),
        ([row(1, 2)], "compartments.0.end"),  # between a call and its result
        ([row(1, 7)], "compartments.0.end"),
        ([row(0, 1)], "compartments.0.start"),
        ([row(1, 2**40)], "compartments.0.end"),
        ([row(1, 1), row(1, 3)], "compartments.1.start"),
        ([row(3, 1)], "compartments.0.end"),
        ([{"start": 1}], "compartments.0.end"),
        ([row(1, 1, p1="a\x00")], "compartments.0.p1"),
        ([row(1, 1, title="\ud83d")], "compartments.0.title"),
        ([row(1, 1, importance=101)], "compartments.0.importance"),
        ([row(1, 1, p2=7.5), "x"], "compartments.1"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(admin: Admin, rows: list[Any], field: str) -> None:
    answer = publish(admin, *rows)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_params")
    assert answer.json()["field"] == field
    assert not models.Compartment.objects.exists()


def test_facts_come_back_as_memories(admin: Admin) -> None:
    facts = [{"category": "NAMING", "content": "a"}, {"category": "GOSSIP", "content": "b"}]
    made = publish(admin, row(1, 1), facts=facts)
    (fact,) = made.json()["facts"]
    assert (fact["created"], fact["memory"]["content"], fact["memory"]["identity"]) == (
        True,
        "a",
        PROJECT["identity"],
    )
    assert Memory.objects.get().source_type == "historian"


def test_a_rewrite_keeps_what_is_left_out(admin: Admin, host: Host) -> None:
    number = publish(admin, row(1, 3, p2="short", p4="")).json()["compartments"][0]["id"]
    models.HeadState.objects.update(m0=b"x", m1=b"y")
    answer = admin.patch(f"compartments/{number}/", {"p1": "did it better", "p2": None})
    assert answer.status_code == 200, answer.content
    changed = answer.json()
    assert (changed["title"], changed["p1"], changed["content"]) == ("T1", "did it better", "did it better")
    assert (changed["p2"], changed["p4"], changed["start"], changed["end"]) == (None, "", 1, 3)
    assert models.M0Mutation.objects.get().type == "compartment_upgrade"
    assert models.HeadState.objects.get().pair() is None


def test_another_owner_s_session_is_not_there(admin: Admin, host: Host) -> None:
    number = publish(admin, row(1, 3)).json()["compartments"][0]["id"]
    bob = Admin("bob")
    assert bob.listed("compartments/") == []
    assert publish(bob, row(4, 5)).json()["code"] == "unknown_session"
    assert publish(bob, row(4, 5), session=str(host.session.pk)).status_code == 404
    for answer in (
        get(bob.key, f"compartments/{number}/"),
        bob.patch(f"compartments/{number}/", {"title": "mine"}),
        bob.delete(f"compartments/{number}/"),
    ):
        assert answer.status_code == 404
    assert models.Compartment.objects.get().title == "T1"


@pytest.mark.parametrize("session", ["", "nonsense", "9" * 30, None, "custom/\x00"])
def test_a_session_that_cannot_be_one(admin: Admin, session: Any) -> None:
    answer = publish(admin, row(1, 3), session=session)
    assert (answer.status_code, answer.json()["field"]) == (422, "session")


def test_a_deleted_session_s_compartments_are_gone(admin: Admin, host: Host) -> None:
    number = publish(admin, row(1, 3)).json()["compartments"][0]["id"]
    models.Session.objects.update(cleanup_pending=True)
    assert admin.listed("compartments/") == []
    assert admin.delete(f"compartments/{number}/").status_code == 404
    assert publish(admin, row(4, 5)).json()["code"] == "unknown_session"
