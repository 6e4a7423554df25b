"""A writer that cannot be had (reclaim-core sections 9.2 and 9.3; section 12 cases 51 to 53)."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import OperationalError, connection

from sessions_app import models
from sessions_app.services import transform as service
from sessions_app.services.cache import states
from tests.transform.conftest import Caller, call, exchange, make_key, prompt, result

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def caller(transactional_db: None) -> Caller:
    return Caller(make_key("ada", "host", "replay"))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "WRITER_WAITS", (0.0, 0.0))


@contextmanager
def locked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Somebody else writes.  On SQLite for real; elsewhere the commit fails as the driver would say it."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout = 50")
        other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")
            other.close()
        return

    def fail(*_: object) -> None:
        raise OperationalError("canceling statement due to lock timeout")

    with monkeypatch.context() as patch:
        patch.setattr(service, "_commit", fail)
        yield


def test_the_last_view_covers_what_it_knows_and_the_rest_goes_raw(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = exchange(4)
    served = caller.slices(caller.transform(messages[:5]))
    with locked(monkeypatch):
        answer = caller.transform(messages)
    body = answer.json()
    assert body["outcome"] == "replay"
    assert body["raw_from"] == 5
    assert body["pass"] is None
    assert caller.slices(answer)[:5] == served
    assert caller.messages(answer)[5:] == messages[5:]
    assert models.Pass.objects.count() == 1


def test_what_went_raw_stays_raw_on_the_next_pass(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for a host that does not say what it sent, while this process remembers."""
    messages = exchange(6)
    caller.transform(messages[:5])
    with locked(monkeypatch):
        replayed = caller.slices(caller.transform(messages[:9]))
    after = caller.transform(messages)
    assert caller.slices(after)[:9] == replayed
    assert after.json()["pass"]["level"] == "defer"


def test_a_session_nobody_served_is_refused_never_sent_raw(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    with locked(monkeypatch):
        answer = caller.transform([prompt()])
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_busy")
    assert "Retry-After" in answer
    assert "messages" not in answer.json()


def test_no_replay_while_armed_for_recovery(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 52."""
    caller.transform(exchange(3))
    session = models.Session.objects.get()
    session.engine_state["recovery_armed"] = True
    session.save()
    states.clear()
    with locked(monkeypatch):
        answer = caller.transform(exchange(4))
    assert (answer.status_code, answer.json()["reason"]) == (503, "lkg_emergency_armed")


def test_no_replay_for_another_model(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    caller.transform(exchange(3))
    with locked(monkeypatch):
        answer = caller.transform(exchange(4), model="openai/gpt-5.4")
    assert answer.json()["reason"] == "lkg_model_mismatch"


def test_no_replay_when_the_tail_grew_past_the_limit(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 53."""
    messages = exchange(3)
    caller.transform(messages, context_limit=20_000)
    grown = [*messages, call(9), result(9, "word " * 40_000)]
    with locked(monkeypatch):
        answer = caller.transform(grown, context_limit=20_000)
    assert answer.json()["reason"] == "lkg_replay_does_not_fit"


def test_no_replay_over_a_rearranged_array(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = exchange(3)
    caller.transform(messages)
    with locked(monkeypatch):
        answer = caller.transform([prompt("edited"), *messages[1:]])
    assert answer.json()["reason"] == "lkg_invalidated_reshape"


def test_a_failing_lane_is_replayed_and_remembered(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reclaim-core 9.1: an unexpected error is stored for the status page; the last view is served."""
    messages = exchange(3)
    served = caller.slices(caller.transform(messages[:5]))

    def broken(*_: object) -> None:
        raise RuntimeError("a lane broke")

    monkeypatch.setattr(service, "run_pass", broken)
    answer = caller.transform(messages)
    assert answer.json()["outcome"] == "replay"
    assert caller.slices(answer)[:5] == served
    assert "RuntimeError" in models.Session.objects.get().last_error


def test_an_engine_fault_is_recorded_and_the_last_view_served(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design 3: a level above the permission is a fault; nothing of the pass is kept."""
    from magiccontext.engine import passes
    from magiccontext.engine.state import Why

    messages = exchange(3)
    served = caller.slices(caller.transform(messages[:5]))
    real = passes._forms

    def lying(draft: object, rebased: object) -> object:
        forms = real(draft, rebased)  # type: ignore[arg-type]
        first = draft.state.path[0]  # type: ignore[attr-defined]
        forms.append(
            passes.FormChange(first.mid, passes.Form((), b'{"role":"user","content":"x"}'), Why.CHANGED)
        )
        return forms

    monkeypatch.setattr(passes, "_forms", lying)
    answer = caller.transform(messages)
    assert answer.json()["outcome"] == "replay"
    assert caller.slices(answer)[:5] == served
    incident = models.Incident.objects.get()
    assert incident.kind == "fault"
    assert "m1" in incident.detail
    monkeypatch.setattr(passes, "_forms", real)
    assert caller.slices(caller.transform(messages))[:5] == served


@pytest.mark.skipif(connection.vendor != "sqlite", reason="what SQLite reports by one exception")
def test_a_storage_that_no_retry_repairs_is_not_called_busy(
    caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    """A host would repeat the request for ever; the reason stands in the log."""
    caller.transform([prompt()])
    table = models.Session._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME COLUMN last_error TO lost")
        try:
            answer = caller.transform([prompt()])
        finally:
            cursor.execute(f"ALTER TABLE {table} RENAME COLUMN lost TO last_error")
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_failure")
    assert "Retry-After" not in answer
    assert "last_error" in caplog.text


@pytest.mark.parametrize("what", ["a pass that throws", "a writer that cannot be had"])
def test_case_56_and_hosts_case_13_with_compaction_off_the_exact_input_comes_back(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Reclaim-core 9.1, outcome ``passthrough``: not a byte of the request is touched, nothing is refused."""
    off = dataclasses.replace(service.engine_settings("anthropic/claude-sonnet-4-5"), compaction=False)
    monkeypatch.setattr(service, "engine_settings", lambda _model: off)
    odd = b'[ {"content" : "a\\u0041" ,"role":"user"} ]'
    if what == "a pass that throws":
        monkeypatch.setattr(service, "run_pass", _broken)
        answer = caller.transform(odd)
    else:
        with locked(monkeypatch):
            answer = caller.transform(odd)
    assert answer.json()["outcome"] == "passthrough"
    assert caller.whole(answer) == [b'{"content" : "a\\u0041" ,"role":"user"}']


def _broken(*_: object) -> None:
    raise RuntimeError("a lane broke")
