"""The ctx tools over REST (hosts sections 8 and 10.4; reclaim-core section 2; memory-search section 12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from magiccontext.engine import passes
from sessions_app import models
from sessions_app.services import transform
from sessions_app.services.cache import states
from sessions_app.services.writing import exclusive
from tests.api.conftest import START, Host, locked
from tests.transform.conftest import Caller, call, exchange, make_key, prompt, result

LONG = "line " * 3000


def long_session(steps: int = 12) -> list[dict[str, Any]]:
    """Results large enough that only the newest few are protected."""
    messages = [prompt()]
    for index in range(steps):
        messages += [call(index), result(index, f"{index} {LONG}")]
    return messages


def pending() -> list[int]:
    return list(models.PendingDrop.objects.order_by("number").values_list("number", flat=True))


def test_it_works(host: Host) -> None:
    host.serve(long_session())
    body = host.reduce("2-3")
    assert body == {
        "content": "Queued: drop §2§, §3§.",
        "is_error": False,
        "data": {"queued": [2, 3], "held": [], "already": [], "not_queued": []},
    }
    assert pending() == [2, 3]


def test_a_warm_defer_pass_after_it_changes_nothing(host: Host) -> None:
    """Reclaim-core 12 case 10."""
    messages = long_session()
    before = host.serve(messages)
    host.reduce("2")
    after = host.serve([*messages, call(90), result(90)], at=1)
    assert after["messages"][: len(before["messages"])] == before["messages"]
    assert after["pass"]["level"] == "defer"
    assert pending() == [2]


def test_a_rebuild_lands_what_is_queued(host: Host) -> None:
    messages = long_session()
    host.serve(messages)
    host.reduce("2")
    host.command("flush")
    body = host.serve(messages, at=1)
    assert body["pass"]["lanes"]["queued_drops"] == 1
    assert models.Tag.objects.get(number=2).status == "dropped"
    assert host.reduce("2")["content"].startswith("Nothing to queue: all requested tags")


def test_the_notation_is_understood(host: Host) -> None:
    """Reclaim-core 12 case 6."""
    host.serve(long_session(8))
    assert host.reduce("§3§-§5§,5,1")["data"]["queued"] == [1, 3, 4, 5]


@pytest.mark.parametrize("drop", ["5-3", "x", "1-2000", "", None, 7])
def test_what_is_not_understood_queues_nothing(host: Host, drop: Any) -> None:
    """Reclaim-core 12 case 6; section 2."""
    host.serve(long_session(4))
    body = host.reduce(drop)
    assert body["is_error"] and body["content"].startswith("Error: ")
    assert pending() == []


def test_one_unknown_number_refuses_the_call(host: Host) -> None:
    """Reclaim-core 12 case 7."""
    host.serve(long_session(8))
    body = host.reduce("1-4,99")
    assert (body["is_error"], body["content"]) == (True, "Error: unknown tags: §99§. Nothing was queued.")
    assert pending() == []


def test_a_protected_result_is_queued_held_and_lands_later(host: Host) -> None:
    """Reclaim-core 12 case 8."""
    messages = long_session(6)
    host.serve(messages)
    body = host.reduce("7")
    assert body["data"]["queued"] == body["data"]["held"] == [7]
    assert "Held until newer work displaces them: §7§" in body["content"]
    host.command("flush")
    host.serve(messages, at=1)
    assert pending() == [7]
    for index in range(20, 30):
        messages += [call(index), result(index, LONG)]
    host.serve(messages, at=2)
    host.command("flush")
    host.serve(messages, at=3)
    assert pending() == []
    assert models.Tag.objects.get(number=7).status == "dropped"


def test_a_running_call_has_no_number_and_an_errored_one_drops(host: Host) -> None:
    """Reclaim-core 12 case 9; a call gets its number with its output (section 1.1)."""
    failed = result(0, "no such file " + LONG)
    failed["content"][0]["is_error"] = True
    messages = [prompt(), call(0), failed, *long_session()[3:]]
    host.serve([*messages, call(50)])
    newest = models.Tag.objects.order_by("-number").first()
    assert newest is not None and newest.call_id != "c50"
    assert host.reduce("2")["data"] == {"queued": [2], "held": [], "already": [], "not_queued": []}


def test_the_tag_of_a_removed_message_is_unknown(host: Host) -> None:
    """Cases.md 6."""
    host.serve(long_session(4))
    host.reduce("2")
    mid = models.Tag.objects.get(number=2).mid
    assert host.event("message_removed", message_id=mid)["status"] == "applied"
    assert pending() == []
    assert host.reduce("2")["content"] == "Error: unknown tags: §2§. Nothing was queued."


def test_the_tag_of_a_rewound_message_is_unknown(host: Host) -> None:
    """Cases.md 6: the person undid three messages and went on."""
    messages = [*exchange(2), {"role": "assistant", "content": "thought"}, prompt("undone")]
    host.serve(messages)
    undone = models.Tag.objects.order_by("-number").first()
    assert undone is not None
    host.serve([*messages[:5], prompt("instead")], at=1)
    body = host.reduce(str(undone.number))
    assert body["is_error"] and f"unknown tags: §{undone.number}§" in body["content"]
    assert models.Tag.objects.order_by("-number").values_list("number", flat=True)[0] > undone.number


def test_a_repeated_call_gets_the_first_answer(host: Host) -> None:
    """Hosts 11 case 45."""
    host.serve(long_session())
    first = host.tool("ctx_reduce", drop="2", call_key="k1")
    version = host.session.version
    again = host.tool("ctx_reduce", drop="3", call_key="k1")
    assert again.content == first.content
    assert (pending(), host.session.version) == ([2], version)
    assert host.tool("ctx_expand", tag=2, call_key="k1").json()["code"] == "idempotency_conflict"


def test_an_idempotency_key_does_the_same(host: Host) -> None:
    host.serve(long_session())
    headers = {"IDEMPOTENCY_KEY": "r1"}
    first = host.caller.post("tools/ctx_reduce", {"drop": "2"}, **headers)
    again = host.caller.post("tools/ctx_reduce", {"drop": "2"}, **headers)
    assert first.content == again.content and "Queued" in first.json()["content"]
    other = host.caller.post("tools/ctx_reduce", {"drop": "3"}, **headers)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    elsewhere = host.caller.post("tools/ctx_expand", {"drop": "2"}, **headers)
    assert elsewhere.json()["code"] == "idempotency_conflict"
    assert pending() == [2]


def test_the_version_grows_and_the_snapshot_follows(host: Host) -> None:
    """Design section 5: a pass computed before the call must not be committed after it."""
    host.serve(long_session())
    before = host.session
    host.reduce("2-3")
    after = host.session
    assert after.version == before.version + 1
    assert after.vars().version == after.engine_state["version"] == after.version
    state = states.get(after)
    assert sorted(state.pending) == [2, 3]
    states.clear()
    assert states.get(after).pending == state.pending and states.get(after).vars == state.vars


@pytest.mark.parametrize("name", ["ctx_memory", "ctx_search", "CTX_REDUCE", "rm"])
def test_a_tool_that_is_not_there(host: Host, name: str) -> None:
    """Hosts section 8; 11 case 34."""
    host.serve(exchange(1))
    version = host.session.version
    answer = host.tool(name, drop="1", call_key="k")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_tool")
    assert host.session.version == version and not models.ToolReceipt.objects.exists()


def test_a_session_that_is_not_there(host: Host, caller: Caller, another: Callable[..., Caller]) -> None:
    host.serve(exchange(1))
    assert another("bob").post("tools/ctx_reduce", {"drop": "1"}).json()["code"] == "unknown_session"
    caller.sid = "s2"
    assert host.tool("ctx_reduce", drop="1").json()["code"] == "unknown_session"


def test_with_compaction_off_there_is_no_ctx_reduce(host: Host, configured: Callable[..., None]) -> None:
    """Hosts section 8: expand stays for a head, a worker has nothing."""
    configured(compaction={"enabled": False})
    host.serve(exchange(2))
    assert host.tool("ctx_reduce", drop="1").json()["code"] == "unknown_tool"
    assert "Messages 1-5" in host.expand(start=1, end=9)["content"]
    models.Session.objects.update(role="subagent")
    assert host.tool("ctx_expand", start=1, end=9).json()["code"] == "unknown_tool"


def test_a_worker_has_reduce_and_expand(host: Host) -> None:
    host.serve(exchange(2), subagent=True)
    assert host.reduce("1")["data"]["queued"] == [1]
    assert not host.expand(tag=1)["is_error"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"[]", None),
        (b"{", None),
        (b'{"call_key": 7}', "call_key"),
        (b'{"call_key": "a\\u0000b"}', "call_key"),
        (b'{"agent": "%s"}' % (b"x" * 256), "agent"),
        (b'{"at": "2026-11-30T12:00:00"}', "at"),
        (b'{"drop": %s1%s}' % (b"[" * 300, b"]" * 300), "drop"),
    ],
)
def test_a_body_that_does_not_fit(host: Host, body: bytes, field: str | None) -> None:
    host.serve(exchange(1))
    answer = host.caller.post("tools/ctx_reduce", body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_params")
    assert answer.json().get("field") == field


def test_a_body_that_is_too_large(host: Host) -> None:
    host.serve(exchange(1))
    answer = host.caller.post("tools/ctx_reduce", {"drop": "1" * (256 * 1024)})
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_only_a_replay_key_may_say_when(host: Host) -> None:
    host.serve(exchange(1))
    host.caller.key = make_key("ada", "host")
    assert host.tool("ctx_reduce", drop="1", at=START.format(5)).json()["field"] == "at"


@pytest.mark.django_db(transaction=True)
def test_a_busy_database_is_the_tools_own_error(transactional_db: None) -> None:
    """Reclaim-core section 2, row "storage error"; nothing is remembered, so a repeat is a new call."""
    host = Host(Caller(make_key("ada", "host", "replay")))
    host.serve(long_session(6))
    with locked():
        body = host.reduce("2", call_key="k1")
    assert body["is_error"] and body["content"].startswith("Error: the drop could not be queued")
    assert host.reduce("2", call_key="k1")["data"]["queued"] == [2]


# ctx_expand


def test_expand_shows_a_range(host: Host) -> None:
    host.serve([prompt("find the bug"), call(1, "read", path="a.py"), result(1, "code"), prompt("go on")])
    content = host.expand(start=1, end=99)["content"]
    head, _, text = content.partition("\n\n")
    assert head.startswith("Messages 1-4 (4 messages, ~")
    assert text == "[1] U: find the bug\n[2] A: TC: read(a.py)\n[4] U: go on"


def test_expand_brings_dropped_content_back(host: Host) -> None:
    """Memory-search 12: the raw store holds what the prompt no longer has."""
    messages = long_session()
    host.serve(messages)
    host.reduce("1-2")
    host.command("flush")
    served = host.serve(messages, at=1)
    assert served["messages"][2]["content"] == "[dropped §1§]"
    assert host.expand(tag=1)["content"].endswith("please")
    content = host.expand(tag=2)["content"]
    assert f"0 {LONG}" in content and '{"n": 0}' in content
    assert f"0 {LONG}" in host.expand(message=3)["content"]


def test_expand_follows_the_lineage(host: Host) -> None:
    """Ordinals are those of the present conversation."""
    messages = [prompt("one"), {"role": "assistant", "content": "two"}, prompt("three")]
    host.serve(messages)
    host.serve([*messages[:2], prompt("other three")], at=1)
    assert host.expand(start=3, end=3)["content"].endswith("[3] U: other three")
    assert "other three" in host.expand(message=3)["content"]


def test_a_removed_message_leaves_a_gap(host: Host) -> None:
    """Hosts 11 case 53: its slot stays, later ordinals are unchanged."""
    host.serve([prompt("one"), {"role": "assistant", "content": "two"}, prompt("three")])
    host.event("message_removed", message_id="m2")
    assert host.expand(start=1, end=3)["content"].endswith("[1-3] U: one / three")
    body = host.expand(message=2)
    assert body["is_error"] and "deleted" in body["content"]
    assert models.RawMessage.objects.get(mid="m2").removed
    assert models.RawMessage.objects.get(mid="m3").ordinal == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "nothing to expand"),
        ({"start": 0, "end": 0}, "nothing to expand"),
        ({"start": 5, "end": 3}, "start not after end"),
        ({"message": 0}, "message must be a positive integer"),
        ({"message": "soon", "start": 0, "end": 0}, "message must be a positive integer"),
        ({"message": 77}, "there is no message 77"),
        ({"tag": 77}, "unknown tag §77§"),
        ({"tag": -1}, "tag must be a positive integer"),
    ],
)
def test_expand_says_what_it_needs(host: Host, arguments: dict[str, Any], said: str) -> None:
    host.serve(exchange(1))
    body = host.expand(**arguments)
    assert body["is_error"] and body["content"].startswith("Error: ") and said in body["content"]


def test_half_a_surrogate_pair_survives_the_answer_and_the_receipt(host: Host) -> None:
    """JavaScript hosts cut strings; a receipt must hold that, and NUL, on every database."""
    raw = b'[{"role":"user","content":"cut \\ud83d here \\u0000"}]'
    assert host.caller.transform(raw).status_code == 200
    first = host.tool("ctx_expand", tag=1, call_key="k")
    assert b"cut \\ud83d here \\u0000" in first.content
    assert host.tool("ctx_expand", tag=1, call_key="k").content == first.content


def test_a_pass_computed_meanwhile_is_computed_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Design section 5, as between two processes: neither the drop nor anything of the pass is lost."""
    messages = long_session()
    host.serve(messages)
    host.command("flush")
    runs: list[int] = []

    def run_pass(state: Any, *rest: Any) -> Any:
        runs.append(state.vars.version)
        if len(runs) == 1:
            # The other process has no snapshot of ours to bring up to date.
            states.forget(host.session.pk)
            with exclusive(host.session.pk) as writing:
                models.PendingDrop.objects.create(
                    session=writing.session, number=2, queued_at=writing.session.created
                )
        return passes.run_pass(state, *rest)

    monkeypatch.setattr(transform, "run_pass", run_pass)
    body = host.serve(messages, at=1)
    assert runs == [runs[0], runs[0] + 1]
    assert body["pass"]["lanes"]["queued_drops"] == 1
    assert models.Tag.objects.get(number=2).status == "dropped"
