"""What hosts report (hosts section 10.4; reclaim-core sections 1.5, 4.1 and 8.2)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sessions_app import models
from sessions_app.services.cache import states
from tests.api.conftest import START, Host, locked
from tests.transform.conftest import Caller, call, exchange, make_key, prompt, result

OVERFLOW = "prompt is too long: 205000 tokens > 200000 maximum"


def usage(tokens: int, **more: Any) -> dict[str, Any]:
    return {"input_tokens": tokens, "cache_read_input_tokens": 0, "output_tokens": 10, **more}


def test_it_works(host: Host) -> None:
    served = host.serve(exchange(2))
    answer = host.events(
        {
            "type": "response",
            "event_id": "e1",
            "pass_id": served["pass"]["id"],
            "message_id": "msg_1",
            "usage": usage(1000, cache_creation_input_tokens=500),
            "finish": "tool_use",
            "completed_at": START.format(1),
        }
    )
    assert answer.status_code == 202
    assert answer.json() == {"results": [{"event_id": "e1", "type": "response", "status": "applied"}]}
    row = models.UsageEvent.objects.get()
    assert (row.pass_record_id, row.input_tokens, row.cache_write, row.finish) == (
        served["pass"]["id"], 1000, 500, "tool_use",
    )  # fmt: skip
    vars = host.session.vars()
    assert (vars.usage_input_tokens, vars.usage_mid) == (1500, "m5")
    assert models.Pass.objects.get().message_id == "msg_1"
    assert host.session.input_tokens == 1500


def test_the_reported_usage_drives_the_next_pass(host: Host) -> None:
    messages = exchange(2)
    served = host.serve(messages)
    host.event("response", pass_id=served["pass"]["id"], usage=usage(150_000), completed_at=START.format(1))
    body = host.serve([*messages, call(9), result(9)], at=2)
    assert body["pass"]["scheduler"] == "execute"
    assert body["pass"]["usage_percent"] > 65


def test_a_response_reported_twice_counts_once(host: Host) -> None:
    """Hosts 11 case 57: by the event and with the next request, under one name or the other."""
    messages = exchange(2)
    served = host.serve(messages)
    report = usage(1000, message_id="msg_1", completed_at=START.format(1))
    host.event("response", pass_id=served["pass"]["id"], usage=report)
    host.serve(messages, at=2, usage={**report, "pass_id": served["pass"]["id"]})
    host.serve(messages, at=3, usage=report)
    assert models.UsageEvent.objects.count() == 1
    assert host.session.vars().usage_input_tokens == 1000


def test_the_other_order_counts_once_too(host: Host) -> None:
    """Hosts 11 case 57."""
    messages = exchange(2)
    served = host.serve(messages)
    report = usage(1000, message_id="msg_1", completed_at=START.format(1))
    host.serve(messages, at=2, usage=report)
    host.event("response", pass_id=served["pass"]["id"], usage=report)
    assert models.UsageEvent.objects.count() == 1


def test_a_late_report_of_an_older_response_changes_nothing(host: Host) -> None:
    """Reclaim-core 12 case 31."""
    host.serve(exchange(1))
    host.event("response", "e1", message_id="b", usage=usage(2000), completed_at=START.format(9))
    host.event("response", "e2", message_id="a", usage=usage(9000), completed_at=START.format(3))
    assert host.session.vars().usage_input_tokens == 2000


def test_a_reply_without_tokens_does_not_move_the_clock(host: Host) -> None:
    """Reclaim-core 12 case 30."""
    host.serve(exchange(1))
    host.event("response", usage=usage(0), completed_at=START.format(9))
    assert host.session.vars().last_response_ms == 0


def test_an_event_is_applied_once(host: Host) -> None:
    host.serve([*exchange(2), call(5)])
    first = host.event("message_removed", "e1", message_id="m6")
    version = host.session.version
    again = host.event("message_removed", "e1", message_id="m4")
    assert again == first
    assert host.session.version == version
    assert not models.RawMessage.objects.get(mid="m4").removed


def test_the_same_event_twice_in_one_call(host: Host) -> None:
    host.serve(exchange(2))
    event = {"type": "model_changed", "event_id": "e1", "model": "openai/gpt-5"}
    results = host.events(event, event).json()["results"]
    assert results[0] == results[1]
    assert models.EventReceipt.objects.count() == 1


def test_an_unknown_type_does_not_stop_the_others(host: Host) -> None:
    host.serve(exchange(1))
    answer = host.events(
        {"type": "moon_rose", "event_id": "e1"},
        {"type": "model_changed", "event_id": "e2", "model": "openai/gpt-5"},
    )
    first, second = answer.json()["results"]
    assert (answer.status_code, first["status"], second["status"]) == (202, "error", "applied")
    assert host.session.model == "openai/gpt-5"
    # It may be sent again to a server that knows it.
    assert not models.EventReceipt.objects.filter(event_id="e1").exists()


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"type": "response"}, "events[1].event_id"),
        ({"event_id": "x"}, "events[1].type"),
        (
            {"type": "response", "event_id": "x", "usage": {"input_tokens": -1}},
            "events[1].usage.input_tokens",
        ),
        ({"type": "response", "event_id": "x", "usage": 7}, "events[1].usage"),
        ({"type": "response", "event_id": "x", "completed_at": "noon"}, "events[1].completed_at"),
        ({"type": "response", "event_id": "x", "error": 5}, "events[1].error"),
        ({"type": "response", "event_id": "x", "pass_id": -1}, "events[1].pass_id"),
        ({"type": "message_removed", "event_id": "x"}, "events[1].message_id"),
        ({"type": "forked", "event_id": "x", "parent": "p", "through": True}, "events[1].through"),
        ({"type": "model_changed", "event_id": "x", "model": "a\x00"}, "events[1].model"),
        ("response", "events[1]"),
    ],
)
def test_a_malformed_event_is_named_and_nothing_is_applied(host: Host, event: Any, field: str) -> None:
    host.serve(exchange(1))
    good = {"type": "model_changed", "event_id": "e0", "model": "openai/gpt-5"}
    answer = host.events(good, event)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert host.session.model == "anthropic/claude-sonnet-4-5"


def test_a_fork_that_cannot_be_does_not_hide_what_was_applied_before_it(host: Host) -> None:
    """422 means that nothing happened; behind an applied event the fault is that event's own result."""
    host.serve(exchange(1))
    answer = host.events(
        {"type": "model_changed", "event_id": "e0", "model": "openai/gpt-5"},
        {"type": "forked", "event_id": "e1", "parent": "nobody"},
        {"type": "switched_away", "event_id": "e2"},
    )
    assert answer.status_code == 202
    assert [result["status"] for result in answer.json()["results"]] == ["applied", "error", "applied"]
    assert "parent" in answer.json()["results"][1]["detail"]
    assert host.session.model == "openai/gpt-5"
    assert not models.EventReceipt.objects.filter(event_id="e1").exists()


@pytest.mark.parametrize("body", [b"", b"7", b"[1", b'{"events": 7}', b"{}"])
def test_a_body_that_is_no_list(host: Host, body: bytes) -> None:
    host.serve(exchange(1))
    assert host.caller.post("events", body).status_code == 422


def test_a_session_that_is_not_there(host: Host, another: Callable[..., Caller]) -> None:
    host.serve(exchange(1))
    answer = another("bob").post("events", b'[{"type":"deleted","event_id":"e"}]')
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_session")
    assert host.session.cleanup_pending is False


def test_an_idempotency_key_repeats_the_answer(host: Host) -> None:
    host.serve(exchange(1))
    event = {"type": "message_removed", "event_id": "e1", "message_id": "m3"}
    first = host.events(event, IDEMPOTENCY_KEY="k")
    assert host.events(event, IDEMPOTENCY_KEY="k").content == first.content
    other = host.events({**event, "event_id": "e2"}, IDEMPOTENCY_KEY="k")
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


# message_removed


def test_a_number_is_never_given_again(host: Host) -> None:
    """Reclaim-core 12 case 3: tags 1 to 9, the message of tag 9 removed, restart, the next is 10."""
    messages = exchange(8)
    host.serve(messages)
    assert host.session.vars().tag_counter == 9
    owner = models.Tag.objects.get(number=9).mid
    host.event("message_removed", message_id=owner)
    assert not models.Tag.objects.filter(number=9).exists()
    states.clear()
    host.serve([*messages[:-2], prompt("next")], at=1)
    newest = models.Tag.objects.order_by("-number").first()
    assert newest is not None and newest.number == 10


def test_watermarks_come_down_to_the_highest_tag_left(host: Host) -> None:
    """Reclaim-core section 1.5."""
    messages = exchange(8)
    host.serve(messages)
    host.command("flush")
    host.serve(messages, at=1)
    assert host.session.vars().tool_reclaim_watermark == 9
    host.event("message_removed", message_id=models.Tag.objects.get(number=9).mid)
    assert host.session.vars().tool_reclaim_watermark == 8


def test_a_message_nobody_knows(host: Host) -> None:
    host.serve(exchange(1))
    assert host.event("message_removed", message_id="zz")["status"] == "ignored"


# overflow


def test_an_overflow_is_learned_and_arms_the_recovery(host: Host) -> None:
    """Reclaim-core 12 case 46; section 8.2."""
    host.serve(exchange(1))
    result = host.event("response", error={"error": {"message": OVERFLOW}})
    vars = host.session.vars()
    assert result["overflow"] is True
    assert (vars.detected_limit, vars.detected_model) == (200_000, "anthropic/claude-sonnet-4-5")
    assert (vars.recovery_armed, vars.recovery_origin, vars.usage_input_tokens) == (
        True, "provider_overflow", 205_000,
    )  # fmt: skip


def test_a_larger_accepted_request_forgets_the_limit(host: Host) -> None:
    """Reclaim-core 12 case 47."""
    host.serve(exchange(1))
    host.event("response", "e1", error=OVERFLOW)
    host.event("response", "e2", message_id="m", usage=usage(230_000), completed_at=START.format(9))
    assert host.session.vars().detected_limit == 0


def test_a_subagent_learns_the_limit_only(host: Host) -> None:
    """Reclaim-core 12 case 48."""
    host.serve(exchange(1), subagent=True)
    host.event("response", error=OVERFLOW)
    vars = host.session.vars()
    assert (vars.detected_limit, vars.recovery_armed) == (200_000, False)


def test_another_error_teaches_nothing(host: Host) -> None:
    host.serve(exchange(1))
    assert host.event("response", error="overloaded, 200000 requests")["overflow"] is False
    assert host.session.vars().detected_limit == 0


def test_the_error_may_come_with_the_next_request(host: Host) -> None:
    """Reclaim-core 8.2: stored before the pass, which then acts on it."""
    messages = exchange(1)
    host.serve(messages)
    answer = host.caller.transform(messages, at=START.format(5), provider_error=OVERFLOW)
    vars = host.session.vars()
    assert vars.detected_limit == 200_000
    assert answer.status_code in (200, 409)
    assert models.Pass.objects.order_by("-pk").values_list("emergency", flat=True)[0] or vars.recovery_armed


def test_it_may_even_come_with_the_first_request(host: Host) -> None:
    answer = host.caller.transform(exchange(1), at=START.format(5), provider_error=OVERFLOW)
    assert answer.status_code in (200, 409)
    assert host.session.vars().detected_limit == 200_000


@pytest.mark.django_db(transaction=True)
def test_an_overflow_that_cannot_be_stored_is_not_acknowledged(
    transactional_db: None, monkeypatch: Any
) -> None:
    """Reclaim-core 8.2: refused as busy, by event and by request, and no replay in between."""
    monkeypatch.setattr("sessions_app.services.transform.WRITER_WAITS", (0.0,))
    host = Host(Caller(make_key("ada", "host", "replay")))
    messages = exchange(1)
    host.serve(messages)
    with locked():
        reported = host.events({"type": "response", "event_id": "e1", "error": OVERFLOW})
        served = host.caller.transform(messages, provider_error=OVERFLOW)
    for answer in (reported, served):
        assert (answer.status_code, answer.json()["code"]) == (503, "storage_busy")
        assert answer["Retry-After"]
    assert host.event("response", "e1", error=OVERFLOW)["overflow"] is True
    assert host.session.vars().recovery_armed


# the others


def test_after_a_host_compaction_the_stored_usage_is_stale(host: Host) -> None:
    """Reclaim-core 12 case 32."""
    messages = exchange(2)
    served = host.serve(messages)
    host.event(
        "response", "e1", pass_id=served["pass"]["id"], usage=usage(190_000), completed_at=START.format(1)
    )
    host.event("host_compacted", "e2")
    body = host.serve(messages, at=2)
    assert body["pass"]["usage_percent"] < 65


def test_switching_away_clears_memory_only(host: Host) -> None:
    """Hosts 11 case 10: the session may come back, to the same bytes."""
    messages = exchange(3)
    before = host.serve(messages)
    assert host.event("switched_away")["status"] == "applied"
    after = host.serve([*messages, call(8), result(8)], at=1)
    assert after["messages"][: len(before["messages"])] == before["messages"]
    assert after["pass"]["level"] == "defer"


def test_a_directive_nobody_gave(host: Host) -> None:
    host.serve(exchange(1))
    result = host.event("directive_done", directive_id="d1")
    assert (result["status"], result["detail"]) == ("ignored", "unknown directive")


def test_events_in_an_object_may_say_when(host: Host) -> None:
    host.serve(exchange(1))
    event = {"type": "response", "event_id": "e1", "usage": usage(10)}
    body = json.dumps({"at": START.format(7), "events": [event]}).encode()
    assert host.caller.post("events", body).status_code == 202
    assert models.UsageEvent.objects.get().time.second == 7


def test_an_event_costs_no_full_read_of_the_session(host: Host, django_assert_max_num_queries: Any) -> None:
    """A host that reports each response must not pay for reading its whole session on each pass."""
    messages = exchange(4)
    host.serve(messages)
    before = states.get(host.session)
    host.event("response", usage=usage(1000), completed_at=START.format(1))
    session = host.session
    with django_assert_max_num_queries(0):
        after = states.get(session)
    assert after is before and after.vars == session.vars()


def test_an_event_between_two_passes_is_seen_by_another_process(host: Host) -> None:
    """Reclaim-core 12 case 60: the snapshot of the version before is not used again."""
    messages = exchange(4)
    host.serve(messages)
    stale = states.get(host.session)
    host.event("message_removed", message_id="m9")
    states.put(host.session.pk, stale)
    host.serve(messages[:-1], at=1)
    assert not models.Tag.objects.filter(mid="m9").exists()
