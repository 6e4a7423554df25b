"""Bad input: a clear error that names the field, and nothing stored (issue text; hosts section 10.5)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from magiccontext.schema_fence import fence
from sessions_app import models
from tests.transform.conftest import Caller, call, exchange, prompt, result


def refused(answer: Any, field: str, status: int = 422, code: str = "invalid_params") -> str:
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), problem
    assert answer["Content-Type"].startswith("application/problem+json")
    assert problem.get("field", "").startswith(field), problem
    assert "messages" not in problem
    assert models.RawMessage.objects.count() == 0
    assert models.Session.objects.count() == 0
    return str(problem["detail"])


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"a":}', b'{"messages":[}', b"\xff{}", b'{"a":NaN}', b"null"]
)
def test_malformed_json(caller: Caller, body: bytes) -> None:
    refused(caller.post("transform", body), "")


def test_invalid_utf8_in_a_message(caller: Caller) -> None:
    body = b'{"format":"anthropic","model":"a/b","messages":[{"role":"user","content":"\xff\xfe"}]}'
    assert "UTF-8" in refused(caller.post("transform", body), "")


def test_unknown_format(caller: Caller) -> None:
    assert "anthropic" in refused(caller.transform([prompt()], format="smoke-signals"), "format")


@pytest.mark.parametrize("missing", ["format", "model", "messages"])
def test_a_required_member_is_missing(caller: Caller, missing: str) -> None:
    body = {"format": "anthropic", "model": "a/b", "messages": [prompt()]}
    del body[missing]
    refused(caller.post("transform", body), missing)


def test_a_result_without_a_call(caller: Caller) -> None:
    detail = refused(caller.transform([prompt(), result(3)]), "messages[1].content[0]")
    assert "c3" in detail


def test_a_result_before_its_call(caller: Caller) -> None:
    refused(caller.transform([prompt(), result(1), call(1)]), "messages[1].content[0]")


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("text", "messages[1]"),
        ({"content": "x"}, "messages[1].role"),
        ({"role": 7, "content": "x"}, "messages[1].role"),
        ({"role": "user"}, "messages[1].content"),
        ({"role": "user", "content": 7}, "messages[1].content"),
        ({"role": "user", "content": [7]}, "messages[1].content[0]"),
        ({"role": "user", "content": [{"text": "x"}]}, "messages[1].content[0].type"),
        (
            {"role": "assistant", "content": [{"type": "tool_use", "name": "x", "input": {}}]},
            "messages[1].content[0].id",
        ),
    ],
)  # fmt: skip
def test_a_message_that_is_none(caller: Caller, message: Any, field: str) -> None:
    refused(caller.transform([prompt(), message, prompt("go")]), field)


def test_a_body_over_the_limit(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magiccontext.api.transform.TRANSFORM_LIMIT", 1000)
    refused(caller.transform([prompt("x" * 2000)]), "", 413, "too_large")


@pytest.mark.parametrize("where", ["deep in a message", "deep in a member", "deep in tools"])
def test_nesting_bombs(caller: Caller, where: str) -> None:
    bomb = "[" * 100_000 + "]" * 100_000
    source = bomb if "message" in where else "1"
    member = f'"project":{bomb},' if "member" in where else ""
    tools = f'"tools":{bomb},' if "tools" in where else ""
    message = f'{{"role":"user","content":[{{"type":"image","source":{source}}}]}}'
    body = f'{{"format":"anthropic","model":"a/b",{member}{tools}"messages":[{message}]}}'
    answer = caller.post("transform", body.encode())
    assert answer.status_code == 422, answer.content[:200]
    assert models.Session.objects.count() == 0


def test_at_needs_the_replay_scope(another: Any) -> None:
    refused(another("eve", "host").transform([prompt()], at="2026-11-30T12:00:00Z"), "at")


@pytest.mark.parametrize(
    "at", ["yesterday", "2026-11-30T12:00:00", "9999-12-31T00:00:00Z", "2026-13-01T00:00:00Z"]
)
def test_a_time_that_is_none(caller: Caller, at: str) -> None:
    refused(caller.transform([prompt()], at=at), "at")


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("usage", {"input_tokens": -1}),
        ("usage", {"input_tokens": 10**12}),
        ("usage", "many"),
        ("usage", {"input_tokens": 5, "completed_at": "soon"}),
        ("capabilities", {"tools": "all"}),
        ("last_sent", {"raw_from": 3}),
        ("sync", {"base": {"count": -1, "chain": "sha256:" + "0" * 64}}),
        ("sync", {"base": {"count": 1, "chain": "md5:00"}}),
        ("project", {"directory": "x" * 600}),
        ("parent_session", "a\x00b"),
        ("model", ""),
        ("purpose", "fun"),
        ("answer", "both"),
    ],
)
def test_a_member_that_does_not_fit(caller: Caller, member: str, value: Any) -> None:
    refused(caller.transform([prompt()], **{member: value}), member)


def test_an_unknown_harness(caller: Caller) -> None:
    caller.harness = "telegraph"
    refused(caller.transform([prompt()]), "harness")


def test_a_key_bound_to_another_harness(another: Any) -> None:
    bound = another("carl", "host", harnesses=["pi"])
    refused(bound.transform([prompt()]), "", 403, "foreign_session")


def test_no_key_and_a_wrong_key(caller: Caller) -> None:
    caller.key = "nobody"
    refused(caller.transform([prompt()]), "", 401, "unauthorized")


def test_a_key_without_the_scope(another: Any) -> None:
    refused(another("dan", "admin").transform([prompt()]), "", 403, "forbidden")


def test_an_incomplete_user_message(caller: Caller) -> None:
    refused(caller.transform([{"role": "user", "content": []}]), "", 409, "incomplete_user_message")
    refused(caller.transform([]), "", 409, "incomplete_user_message")


def test_another_format_for_a_known_session(caller: Caller) -> None:
    caller.transform([prompt()])
    answer = caller.transform([prompt()], format="openai-chat")
    assert (answer.status_code, answer.json()["field"]) == (422, "format")


# what is odd but fine


@pytest.mark.parametrize("limit", [0, -5, 10**30, 1e300, 3, 2**60])
def test_an_absurd_limit_is_estimated(caller: Caller, limit: float) -> None:
    """Hosts 11 case 50."""
    assert caller.transform([prompt()], context_limit=limit).status_code == 200
    assert models.Session.objects.get().context_limit == 128_000


def test_an_unknown_model_passes(caller: Caller) -> None:
    assert caller.transform([prompt()], model="nobody/knows-me-9").status_code == 200
    assert caller.transform([prompt()], model="bare").status_code == 200


def test_a_clock_going_backwards(caller: Caller) -> None:
    messages = exchange(3)
    first = caller.slices(
        caller.transform(messages[:3], at="2026-11-30T12:00:00Z", usage={"input_tokens": 10})
    )
    second = caller.slices(caller.transform(messages, at="2026-11-30T11:00:00Z", usage={"input_tokens": 20}))
    assert second[: len(first)] == first
    assert models.Session.objects.get().vars().usage_input_tokens == 10, "an older response is ignored"


def test_a_message_of_one_megabyte(caller: Caller) -> None:
    text = "long line of text \n" * 60_000
    served = caller.messages(caller.transform([prompt(text)], context_limit=2_000_000))
    assert served == [prompt("§1§ " + text)]


def test_unknown_part_kinds_and_roles_survive(caller: Caller) -> None:
    """Hosts 11 case 3; cases.md 9."""
    messages = [
        prompt(),
        {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "st", "name": "web_search", "input": {"q": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "st", "content": [{"type": "x", "y": [1]}]},
            {"type": "hologram", "data": {"deep": [None, True]}}]},
        {"role": "critic", "content": [{"type": "text", "text": "hm"}]},
        {"role": "user", "content": [{"type": "hologram", "z": 1}, {"type": "text", "text": "go"}]},
    ]  # fmt: skip
    served = caller.messages(caller.transform(messages))
    assert served[1] == messages[1]
    assert served[2] == messages[2]
    assert served[3]["content"][0] == messages[3]["content"][0]


def test_lone_surrogates_and_nul_pass_unharmed(caller: Caller) -> None:
    """Design 4: JSON as hosts really write it."""
    raw = (
        b'[{"role":"user","content":"cut \\ud83d here \\u0000 end"},'
        b'{"role":"assistant","content":[{"type":"tool_use","id":"c\\ud800","name":"b","input":{"k\\udfff":"\\ud800"}}]},'
        b'{"role":"user","content":[{"type":"tool_result","tool_use_id":"c\\ud800","content":"x\\udc00y"}]}]'
    )
    answer = caller.transform(raw)
    if answer.status_code == 422:
        # A call id nobody can store is refused with its place; content never is.
        assert answer.json()["field"] == "messages[1].content[0].id"
        raw = raw.replace(b"c\\ud800", b"c1")
        answer = caller.transform(raw)
    slices = caller.slices(answer)
    assert slices[0] == '{"role":"user","content":"§1§ cut '.encode() + b'\\ud83d here \\u0000 end"}'
    assert b'"input":{"k\\udfff":"\\ud800"}' in slices[1]
    assert b"x\\udc00y" in slices[2]
    assert caller.slices(caller.transform(raw)) == slices


def test_huge_integers_and_duplicate_keys(caller: Caller) -> None:
    raw = (
        b'[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"b",'
        b'"input":{"n":123456789012345678901234567890,"k":1,"k":2}}]},'
        b'{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}]'
    )
    slices = caller.slices(caller.transform(raw))
    assert b'"input":{"n":123456789012345678901234567890,"k":1,"k":2}' in slices[1]


def test_empty_messages_in_the_middle(caller: Caller) -> None:
    messages = [
        prompt(),
        {"role": "assistant", "content": []},
        prompt("go"),
        {"role": "assistant", "content": "  "},
        prompt("on"),
    ]
    served = caller.messages(caller.transform(messages))
    assert served[1] == messages[1]
    assert served[3] == messages[3]


def test_unknown_members_are_ignored(caller: Caller) -> None:
    assert caller.transform([prompt()], weather={"sun": True}).status_code == 200


def test_a_trailing_assistant_message_is_the_start_of_the_answer(caller: Caller) -> None:
    """A prefilled answer goes on from its last character: nothing may stand before it."""
    served = caller.messages(caller.transform([prompt(), {"role": "assistant", "content": "{"}]))
    assert served[1] == {"role": "assistant", "content": "{"}


def test_errors_never_quote_the_body(caller: Caller) -> None:
    answer = caller.transform(
        [{"role": "user", "content": [{"type": "text", "text": {"secret": "hunter2"}}]}]
    )
    assert "hunter2" not in json.dumps(answer.json())


def test_an_id_that_was_no_utf8_does_not_become_another_session(caller: Caller) -> None:
    """The ASGI server decodes every such byte of an address to U+FFFD: `%ff` and `%fe` would be one id."""
    refused(replace(caller, sid="a%ef%bf%bd").transform([prompt()]), "session")


def test_a_database_newer_than_this_server_takes_no_request(caller: Caller) -> None:
    """Design 5: the fence holds in a running server too, not only at its start."""
    first = caller.slices(caller.transform([prompt()]))
    recorder = MigrationRecorder(connection)
    recorder.record_applied("sessions_app", "9999_from_the_future")
    fence.forget()
    try:
        answer = caller.transform([prompt(), call(1), result(1)])
        assert (answer.status_code, answer.json()["code"]) == (503, "schema_fence")
        assert "9999_from_the_future" in answer.json()["detail"]
        assert models.Pass.objects.count() == 1
    finally:
        recorder.record_unapplied("sessions_app", "9999_from_the_future")
        fence.forget()
    assert caller.slices(caller.transform([prompt()])) == first
