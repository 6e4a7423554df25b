"""The host's compaction marker as a directive (history-render section 7; hosts sections 3 and 10.2)."""

from __future__ import annotations

from typing import Any

import pytest

from sessions_app import models
from sessions_app.services.directives import MARKER_TEXT
from tests.head.conftest import HIGH, Desk, Served, restart
from tests.transform.conftest import call, result

pytestmark = pytest.mark.django_db

CAPABLE = {"capabilities": {"compaction_marker": True}}


@pytest.fixture
def capable(desk: Desk) -> Desk:
    desk.members.update(CAPABLE)
    return desk


def directives(served: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.json["directives"]
    return found


def mid_of(desk: Desk, ordinal: int) -> str:
    return str(models.RawMessage.objects.get(session=desk.session, ordinal=ordinal).mid)


def statuses(desk: Desk) -> list[tuple[int, str]]:
    rows = models.Directive.objects.filter(session=desk.session).order_by("pk")
    return [(row.body["ordinal"], row.status) for row in rows]


def test_a_marker_is_asked_for_once_its_summary_is_served_and_until_it_is_done(capable: Desk) -> None:
    desk = capable
    desk.publish(1, 4)
    waiting = desk.step()
    assert directives(waiting) == []
    assert desk.state.pending_marker["ordinal"] == 4
    (directive,) = directives(desk.step(HIGH))
    number = directive.pop("directive_id")
    assert directive == {
        "kind": "compaction_marker",
        "target_mid": mid_of(desk, 3),
        "target_ordinal": 3,
        "end_mid": mid_of(desk, 4),
        "ordinal": 4,
        "text": MARKER_TEXT,
    }
    assert desk.state.pending_marker is None
    for _ in range(2):
        restart()
        assert directives(desk.step()) == [{"directive_id": number, **directive}]
    assert desk.event("directive_done", directive_id=number)["status"] == "applied"
    assert directives(desk.step()) == []
    assert statuses(desk) == [(4, "done")]
    assert desk.event("directive_done", directive_id=number) | {"event_id": ""} == {
        "event_id": "",
        "type": "directive_done",
        "status": "ignored",
        "detail": "already done",
    }


def test_an_unknown_directive_is_ignored(desk: Desk) -> None:
    result = desk.event("directive_done", directive_id="marker-1")
    assert (result["status"], result["detail"]) == ("ignored", "unknown directive")


def test_a_host_that_does_not_say_so_gets_none(desk: Desk) -> None:
    desk.publish(1, 4)
    assert directives(desk.step(HIGH)) == []
    assert models.Directive.objects.count() == 0
    assert desk.state.pending_marker["ordinal"] == 4


def test_a_newer_one_takes_the_place_of_an_older_one(capable: Desk) -> None:
    desk = capable
    desk.publish(1, 4)
    (first,) = directives(desk.step(HIGH))
    desk.publish(5, 8)
    assert directives(desk.step()) == [first]
    (second,) = directives(desk.step(HIGH))
    assert (second["ordinal"], second["target_mid"]) == (8, mid_of(desk, 7))
    assert second["directive_id"] != first["directive_id"]
    assert statuses(desk) == [(4, "superseded"), (8, "open")]
    late = desk.event("directive_done", directive_id=first["directive_id"])
    assert (late["status"], late["detail"]) == ("ignored", "superseded by a newer one")
    assert directives(desk.step()) == [second]


def test_the_id_follows_from_the_session_and_the_end(capable: Desk) -> None:
    """A pass that is repeated makes the very same directive."""
    desk = capable
    desk.publish(1, 4)
    (first,) = directives(desk.step(HIGH))
    models.Directive.objects.all().delete()
    head = desk.state
    head.pending_marker = {"ordinal": 4, "mid": mid_of(desk, 4), "time": 0}
    head.save(update_fields=["pending_marker"])
    (again,) = directives(desk.serve(model="anthropic/claude-opus-4-5"))
    assert again == first


def test_an_end_that_has_its_marker_already_asks_for_nothing(capable: Desk) -> None:
    desk = capable
    desk.publish(1, 4)
    (first,) = directives(desk.step(HIGH))
    desk.event("directive_done", directive_id=first["directive_id"])
    head = desk.state
    head.pending_marker = {"ordinal": 4, "mid": mid_of(desk, 4), "time": 0}
    head.save(update_fields=["pending_marker"])
    assert directives(desk.serve(model="anthropic/claude-opus-4-5")) == []
    assert desk.state.pending_marker is None
    assert statuses(desk) == [(4, "done")]


def test_a_target_whose_compartment_is_gone_is_skipped(capable: Desk) -> None:
    desk = capable
    row = desk.publish(1, 4)
    assert desk.admin.delete(f"compartments/{row['id']}/").status_code == 204
    assert directives(desk.step(HIGH)) == []
    assert desk.state.pending_marker is None
    assert models.Directive.objects.count() == 0


def test_what_the_cut_did_not_reach_waits(capable: Desk) -> None:
    """The newest prompt is never cut, whatever a compartment covers; the marker waits until it is not."""
    desk = capable
    last = len(desk.array)
    desk.publish(1, last)
    assert directives(desk.serve(HIGH)) == []
    assert desk.state.pending_marker["ordinal"] == last
    desk.step()
    (directive,) = directives(desk.serve(model="anthropic/claude-opus-4-5"))
    assert (directive["ordinal"], directive["target_ordinal"]) == (last, last)


def test_45_without_an_earlier_prompt_the_old_marker_stays(capable: Desk) -> None:
    desk = capable
    desk.publish(1, 4)
    (first,) = directives(desk.step(HIGH))
    models.RawMessage.objects.filter(session=desk.session, role="user", ordinal__lt=7).update(role="other")
    restart()
    desk.publish(5, 6)
    assert directives(desk.step(HIGH)) == [first]
    assert desk.state.pending_marker is None


def test_a_marker_sits_on_a_prompt_and_never_on_a_result(capable: Desk) -> None:
    desk = capable
    desk.array += [call(1), result(1), call(2), result(2)]
    desk.step()
    desk.publish(1, 15)
    (directive,) = directives(desk.step(HIGH))
    assert (directive["ordinal"], directive["target_ordinal"]) == (15, 11)


def test_a_compaction_of_the_host_s_own_forgets_our_marker(capable: Desk) -> None:
    desk = capable
    desk.publish(1, 4)
    desk.step(HIGH)
    desk.publish(5, 6)
    desk.event("host_compacted")
    assert directives(desk.step()) == []
    assert desk.state.pending_marker is None
    assert statuses(desk) == [(4, "superseded")]
    desk.publish(7, 8)
    assert [d["ordinal"] for d in directives(desk.step(HIGH))] == [8]


def test_a_retry_and_a_view_carry_it_too(capable: Desk) -> None:
    desk = capable
    desk.publish(1, 4)
    desk.step(HIGH)
    members = {**desk.members, "at": desk.at}

    def ask() -> list[dict[str, Any]]:
        answer = desk.host.caller.transform(desk.array, headers={"idempotency_key": "k1"}, **members)
        found: list[dict[str, Any]] = answer.json()["directives"]
        return found

    first, again = ask(), ask()
    assert first == again == desk.send(answer="edits").json()["directives"]
    assert len(first) == 1


def test_a_deleted_session_takes_its_directives_along(capable: Desk) -> None:
    desk = capable
    desk.publish(1, 4)
    desk.step(HIGH)
    assert models.Directive.objects.count() == 1
    assert desk.event("deleted")["status"] == "applied"
    for model in (models.Directive, models.HeadState, models.Compartment, models.ServedForm):
        assert model._default_manager.count() == 0, model


# a compaction of the host's own (section 5, row 12)


def test_a_compaction_of_the_host_s_own_folds_once(desk: Desk) -> None:
    desk.publish(1, 4)
    before = desk.step()
    desk.event("host_compacted", completed_at=desk.at)
    folded = desk.step()
    assert (folded.level, folded.reasons[0]) == ("hard", "host_compaction")
    assert "T1" in folded.m0 and "T1" not in before.m0
    again = desk.step()
    assert (again.level, again.head) == ("defer", folded.head)


def test_a_compaction_older_than_the_baseline_folds_nothing(desk: Desk) -> None:
    desk.publish(1, 4)
    before = desk.step()
    desk.event("host_compacted", completed_at="2026-11-30T11:00:00Z")
    assert desk.step().head == before.head


def test_a_compaction_in_the_future_happened_now(desk: Desk) -> None:
    """Else every fold until then would find it still to come."""
    desk.publish(1, 4)
    desk.event("host_compacted", completed_at="2027-11-30T11:00:00Z")
    folded = desk.step()
    assert folded.reasons[0] == "host_compaction"
    assert desk.step().level == "defer"


def test_a_time_of_compaction_that_is_none_is_refused(desk: Desk) -> None:
    answer = desk.host.events({"type": "host_compacted", "event_id": "e1", "completed_at": "yesterday"})
    assert (answer.status_code, answer.json()["field"]) == (422, "events[0].completed_at")


def test_a_host_that_loads_from_its_marker_on_changes_no_byte(capable: Desk) -> None:
    """Rows between the marker's prompt and the boundary come back from the host; the cut still removes
    them (section 7)."""
    desk = capable
    desk.publish(1, 6)
    taken = desk.step(HIGH)
    (directive,) = directives(taken)
    desk.event("directive_done", directive_id=directive["directive_id"])
    desk.array = desk.array[directive["target_ordinal"] - 1 :]
    after = desk.serve()
    assert (after.level, after.bytes) == ("defer", taken.bytes)
    assert desk.step().begins_like(taken)
    folded = desk.serve(model="anthropic/claude-opus-4-5")
    assert folded.level == "hard"
    assert "T1" in folded.m0
    assert folded.tail[0]["content"] == "§7§ message 7"
