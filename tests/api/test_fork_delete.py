"""Forks, deletions and what housekeeping finishes (reclaim-core section 1.5; hosts 11 cases 10 and 44)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone

from magiccontext.engine.state import Vars
from sessions_app import models
from sessions_app.services import housekeeping, lifecycle
from sessions_app.services.cache import states
from tests.api.conftest import START, Host, locked
from tests.transform.conftest import Caller, call, exchange, make_key, prompt, result

LONG = "line " * 3000


def long_session(steps: int = 10) -> list[dict[str, Any]]:
    messages = [prompt()]
    for index in range(steps):
        messages += [call(index), result(index, f"{index} {LONG}")]
    return messages


def copy_of(host: Host, sid: str = "copy") -> Host:
    return Host(Caller(host.caller.key, sid=sid))


def fork(host: Host, parent: str = "s1", **members: Any) -> Any:
    return host.events({"type": "forked", "event_id": "f1", "parent": parent, **members})


def test_it_works(host: Host) -> None:
    """Reclaim-core 12 case 4: same numbers and statuses, served to the byte; numbers go on above them."""
    messages = long_session()
    host.serve(messages)
    host.reduce("1-3")
    host.command("flush")
    served = host.serve(messages, at=1)
    host.reduce("10")
    fork_of = copy_of(host)
    assert fork(fork_of).json()["results"][0] == {
        "event_id": "f1", "type": "forked", "status": "applied", "tags": 11,
    }  # fmt: skip

    columns = ("number", "status", "drop_mode", "mid", "token_count", "input_token_count", "source")
    parent, copied = (
        list(models.Tag.objects.filter(session=s).order_by("number").values_list(*columns))
        for s in (host.session, fork_of.session)
    )
    assert copied == parent
    assert list(
        models.PendingDrop.objects.filter(session=fork_of.session).values_list("number", flat=True)
    ) == [10]

    body = fork_of.serve([*messages, call(50), result(50)], at=2)
    assert body["messages"][: len(served["messages"])] == served["messages"]
    assert body["pass"]["level"] == "defer"
    assert body["messages"][-1]["content"][0]["content"].startswith("§12§ ")
    again = host.serve(messages, at=3)
    assert again["messages"] == served["messages"]


def test_a_fork_in_the_middle_takes_what_lies_before(host: Host) -> None:
    """Watermarks come down to the highest copied tag; usage measured behind the point does not count."""
    messages = long_session()
    host.serve(messages)
    host.command("flush")
    served = host.serve(messages, at=1)
    host.event("response", usage={"input_tokens": 150_000}, completed_at=START.format(2))
    fork_of = copy_of(host)
    fork(fork_of, through=5)
    vars = fork_of.session.vars()
    assert (vars.tag_counter, vars.tool_reclaim_watermark) == (3, 3)
    assert (vars.usage_input_tokens, vars.usage_mid, vars.view_version, vars.lineage) == (0, "", 1, 1)
    body = fork_of.serve([*messages[:5], prompt("another way")], at=3)
    assert body["messages"][:7] == served["messages"][:7]
    assert body["messages"][7]["content"] == "§4§ another way"


def test_the_point_may_be_an_identity(host: Host) -> None:
    host.serve(exchange(4))
    fork_of = copy_of(host)
    fork(fork_of, through="m3")
    assert models.RawMessage.objects.filter(session=fork_of.session).count() == 3


def test_a_forks_usage_stands_when_all_of_it_was_measured(host: Host) -> None:
    messages = exchange(4)
    host.serve(messages)
    host.event("response", usage={"input_tokens": 150_000}, completed_at=START.format(2))
    fork_of = copy_of(host)
    fork(fork_of)
    assert fork_of.serve([*messages, prompt("on")], at=3)["pass"]["usage_percent"] > 60


def test_a_fork_of_a_rewound_session_takes_its_present_lineage(host: Host) -> None:
    messages = exchange(3)
    host.serve(messages)
    rewound = [*messages[:3], prompt("instead")]
    served = host.serve(rewound, at=1)
    fork_of = copy_of(host)
    fork(fork_of)
    rows = models.RawMessage.objects.filter(session=fork_of.session).order_by("ordinal")
    assert list(rows.values_list("lineage", "ordinal")) == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert fork_of.serve(rewound, at=2)["messages"] == served["messages"]


def test_a_message_the_host_edited_keeps_its_served_bytes(host: Host) -> None:
    """Hosts 11 case 54, carried over: the copy replays what the parent served."""
    host.caller.harness = "custom"
    messages = [prompt("one"), {"role": "assistant", "content": "two"}, prompt("three")]
    host.serve(messages, tools=[])
    row = models.RawMessage.objects.get(mid="m1")
    models.ServedForm.objects.filter(mid="m1").update(is_raw=False, body=b'{"role":"user","content":"old"}')
    states.clear()
    fork_of = copy_of(host)
    fork(fork_of)
    copied = models.ServedForm.objects.get(session=fork_of.session, mid="m1")
    assert (copied.is_raw, bytes(copied.body or b"")) == (False, b'{"role":"user","content":"old"}')
    assert bytes(row.raw) == bytes(models.RawMessage.objects.get(session=fork_of.session, mid="m1").raw)


def test_a_session_with_tags_is_no_destination(host: Host) -> None:
    host.serve(exchange(2))
    fork_of = copy_of(host)
    fork_of.serve(exchange(1))
    before = models.Tag.objects.filter(session=fork_of.session).count()
    answer = fork(fork_of)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_params")
    assert "destination-not-empty" in answer.json()["detail"]
    assert models.Tag.objects.filter(session=fork_of.session).count() == before


def test_a_session_without_tags_is_filled(
    host: Host, configured: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = exchange(2)
    served = host.serve(messages)
    configured(compaction={"enabled": False})
    fork_of = copy_of(host)
    fork_of.serve([prompt("begun")])
    version = fork_of.session.version
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    fork(fork_of)
    assert fork_of.session.version == version + 1
    assert fork_of.serve(messages, at=2)["messages"] == served["messages"]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"parent": "nobody"}, "events[0].parent"),
        ({"parent": "copy"}, "events[0].parent"),
        ({"through": 99}, "events[0].through"),
        ({"through": "m99"}, "events[0].through"),
        ({"through": 0}, "events[0].through"),
    ],
)
def test_a_fork_that_cannot_be_leaves_nothing(host: Host, members: dict[str, Any], field: str) -> None:
    host.serve(exchange(2))
    answer = fork(copy_of(host), **members)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert not models.Session.objects.filter(sid="copy").exists()


def test_another_owners_session_cannot_be_forked(host: Host, another: Callable[..., Caller]) -> None:
    host.serve(exchange(2))
    assert fork(Host(another("bob"))).json()["field"] == "events[0].parent"


def test_a_fork_reported_twice_is_one(host: Host) -> None:
    host.serve(exchange(2))
    fork_of = copy_of(host)
    first = fork(fork_of)
    fork_of.serve([*exchange(2), prompt("on")], at=1)
    assert fork(fork_of).content == first.content


# deletion


def test_a_deletion_takes_everything_of_the_session(host: Host) -> None:
    """Reclaim-core section 1.5: every table keyed to a session, and no other session's rows."""
    messages = long_session(6)
    host.serve(messages)
    host.reduce("2", call_key="k")
    host.event("response", "r1", usage={"input_tokens": 10})
    fork_of = copy_of(host)
    fork(fork_of)
    kept = models.Tag.objects.filter(session=fork_of.session).count()
    gone = host.session.pk
    assert host.event("deleted", "d1") == {
        "event_id": "d1", "type": "deleted", "status": "applied", "cleared": True,
    }  # fmt: skip
    for model in apps.get_app_config("sessions_app").get_models():
        for column in model._meta.concrete_fields:
            if column.related_model is models.Session:
                assert not model._default_manager.filter(**{column.attname: gone}).exists(), model
    assert models.Tag.objects.filter(session=fork_of.session).count() == kept
    assert host.events({"type": "deleted", "event_id": "d1"}).json()["code"] == "unknown_session"


def test_a_deleted_session_may_begin_again(host: Host) -> None:
    host.serve(exchange(3))
    host.event("deleted")
    body = host.serve([prompt("new")])
    assert body["messages"][2]["content"] == "§1§ new"


def test_what_follows_a_deletion_in_the_same_call(host: Host) -> None:
    host.serve(exchange(1))
    results = host.events(
        {"type": "deleted", "event_id": "e1"}, {"type": "switched_away", "event_id": "e2"}
    ).json()["results"]
    assert [r["status"] for r in results] == ["applied", "error"]


@pytest.mark.django_db(transaction=True)
def test_a_busy_database_leaves_the_mark(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts 11 case 10: gone for every caller at once, its rows as soon as the database is free."""
    host = Host(Caller(make_key("ada", "host")))
    assert host.caller.transform(exchange(2)).status_code == 200
    pk = host.session.pk
    finish = lifecycle.finish_delete

    def finish_while_locked(session_id: int) -> bool:
        with locked():
            return finish(session_id)

    monkeypatch.setattr(lifecycle, "finish_delete", finish_while_locked)
    assert host.event("deleted")["cleared"] is False
    assert models.Session.objects.get(pk=pk).cleanup_pending
    assert models.RawMessage.objects.filter(session=pk).exists()
    assert host.tool("ctx_reduce", drop="1").json()["code"] == "unknown_session"
    assert housekeeping.run()["sessions_cleared"] == 1
    assert not models.RawMessage.objects.filter(session=pk).exists()


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_busy_at_once_deletes_nothing(transactional_db: None) -> None:
    host = Host(Caller(make_key("ada", "host")))
    host.caller.transform(exchange(2))
    with locked():
        answer = host.events({"type": "deleted", "event_id": "e1"})
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_busy")
    assert not host.session.cleanup_pending


# housekeeping


def test_receipts_live_a_day(host: Host) -> None:
    host.serve(exchange(1))
    host.caller.post("tools/ctx_reduce", {"drop": "1", "call_key": "k"}, IDEMPOTENCY_KEY="r")
    host.event("host_compacted")
    now = timezone.now()
    assert housekeeping.delete_receipts(now - timedelta(hours=24)) == 0
    assert housekeeping.delete_receipts(now + timedelta(seconds=1)) == 3


def test_only_the_newest_passes_of_a_session_are_kept(host: Host) -> None:
    messages = exchange(1)
    for second in range(5):
        host.serve(messages, at=second)
    host.event("response", usage={"input_tokens": 10}, pass_id=models.Pass.objects.order_by("pk")[0].pk)
    fork_of = copy_of(host, "other")
    fork_of.serve(messages)
    newest = list(
        models.Pass.objects.filter(session=host.session).order_by("-pk").values_list("pk", flat=True)[:3]
    )
    assert housekeeping.trim_passes(3) == 2
    kept = models.Pass.objects.filter(session=host.session).order_by("-pk").values_list("pk", flat=True)
    assert list(kept) == newest
    assert models.Pass.objects.filter(session=fork_of.session).count() == 1
    # What a response cost is still known.
    assert models.UsageEvent.objects.get().pass_record is None


def test_it_is_scheduled_hourly_and_once(db: None) -> None:
    from django_q.models import Schedule

    config = apps.get_app_config("sessions_app")
    housekeeping.schedule(sender=config, using="default")
    housekeeping.schedule(sender=config, using="default")
    row = Schedule.objects.get(name=housekeeping.SCHEDULE_NAME)
    assert (row.func, row.schedule_type) == (housekeeping.TASK, Schedule.HOURLY)


def test_the_columns_version_is_the_versions_truth() -> None:
    session = models.Session(version=7, engine_state={"version": 3})
    assert session.vars() == Vars(version=7)
