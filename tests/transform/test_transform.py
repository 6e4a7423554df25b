"""The full-array pass over REST (hosts section 10.2; design section 5)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from sessions_app import models
from sessions_app.services.cache import states
from tests.transform.conftest import Caller, call, exchange, prompt, result

CHAIN_START = bytes(32)


def chain(raw: list[bytes]) -> str:
    value = CHAIN_START
    for message in raw:
        value = hashlib.sha256(value + hashlib.sha256(message).digest()).digest()
    return f"sha256:{value.hex()}"


def test_it_works(caller: Caller) -> None:
    answer = caller.transform([prompt("hello"), call(1), result(1, "out")], system="be kind")
    body = answer.json()
    assert answer.status_code == 200
    sent = caller.messages(answer)
    assert sent[0] == {"role": "user", "content": "§1§ hello"}
    assert sent[1] == call(1)
    assert sent[2]["content"][0]["content"] == "§2§ out"
    assert len(caller.head(answer)) == 2
    assert body["system"] == "be kind"
    assert (body["pass"]["level"], body["pass"]["reasons"]) == ("hard", ["first_render"])
    assert body["view_version"] == 1
    assert models.Pass.objects.get().pk == body["pass"]["id"]


def test_untouched_bytes_leave_as_they_came(caller: Caller) -> None:
    """Cases.md 8; hosts 2.2: key order, spacing, escapes and number spellings survive."""
    odd = (
        b'[ {"content" : "\\u0041 \\/ \\u00e9","role":"user", "x":1.50e+02 } , '
        b'{"role":"assistant","content":"fine"},{"role":"user","content":"go"}]'
    )
    slices = caller.slices(caller.transform(odd, capabilities={"tools": []}))
    assert slices[0] == b'{"content" : "\\u0041 \\/ \\u00e9","role":"user", "x":1.50e+02 }'


def test_no_reduce_tool_means_no_prefix_but_tags_are_kept(caller: Caller) -> None:
    """Reclaim-core 1.4."""
    answer = caller.transform([prompt("hi")], tools=[{"name": "bash", "input_schema": {}}])
    assert caller.messages(answer) == [prompt("hi")]
    assert models.Tag.objects.count() == 1


def test_a_mcp_prefixed_tool_counts_as_callable(caller: Caller) -> None:
    answer = caller.transform([prompt("hi")], tools=[{"name": "mcp__ctx__ctx_reduce", "input_schema": {}}])
    assert caller.messages(answer)[0]["content"] == "§1§ hi"


def test_a_moved_cache_marker_is_the_same_message(caller: Caller) -> None:
    """Hosts 11 case 26: no new tag, and the request's own markers come back where they were."""
    marked = [
        {"role": "user", "content": [{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}]}
    ]
    plain = [{"role": "user", "content": [{"type": "text", "text": "one"}]}]
    first = caller.messages(caller.transform(marked))
    later = caller.messages(caller.transform([*plain, call(1), result(1)]))
    assert first[0]["content"][0] == {
        "type": "text",
        "text": "§1§ one",
        "cache_control": {"type": "ephemeral"},
    }
    assert later[0]["content"][0] == {"type": "text", "text": "§1§ one"}
    assert models.RawMessage.objects.count() == 3


def test_a_restart_changes_nothing(caller: Caller) -> None:
    """Design 5: the next pass is the same from rows as from memory."""
    messages = exchange(12)
    served: list[bytes] = []
    for length in range(1, len(messages) + 1, 2):
        states.clear()
        slices = caller.slices(caller.transform(messages[:length]))
        assert slices[: len(served)] == served
        served = slices


def test_delta_sync_answers_the_whole_array(caller: Caller) -> None:
    messages = exchange(3)
    raw = [json.dumps(m).encode() for m in messages]
    whole = caller.slices(caller.transform(b"[" + b",".join(raw[:5]) + b"]"))
    answer = caller.transform(
        b"[" + b",".join(raw[5:]) + b"]", sync={"base": {"count": 5, "chain": chain(raw[:5])}}
    )
    assert caller.slices(answer)[:5] == whole
    assert len(caller.slices(answer)) == 7
    assert answer.json()["chain"] == chain(raw)


def test_an_unknown_base_changes_nothing(caller: Caller) -> None:
    caller.transform(exchange(2))
    before = models.Session.objects.get().version
    answer = caller.transform([result(9)], sync={"base": {"count": 5, "chain": "sha256:" + "0" * 64}})
    assert (answer.status_code, answer.json()["code"]) == (409, "need_full_sync")
    assert models.Session.objects.get().version == before


def test_edits_answer_applied_by_the_client_equals_the_array(caller: Caller) -> None:
    """Design 3: the view is the only product; full array and edits are two spellings of it."""
    from magiccontext.engine.view import Edit, Op
    from magiccontext.engine.wire import codec_for

    codec = codec_for("anthropic")
    messages = exchange(4)
    raw = [json.dumps(m).encode() for m in messages]
    held: dict[str, list[Edit]] = {}
    names: list[str] = []
    version = None
    for length in (3, 5, 9):
        sent = {"view_version": version} if version else None
        answer = caller.transform(messages[:length], answer="edits", last_sent=sent).json()
        view = answer["view"]
        if "extends" in view:
            assert view["extends"] == version
        else:
            held = {}
        names = answer["message_ids"]
        for edit in view["edits"]:
            part = int(edit["part"].split("#")[1]) if "part" in edit else None
            held.setdefault(edit["mid"], []).append(
                Edit(Op(edit["op"]), part, edit.get("text", ""), edit.get("attachments") == "remove")
            )
        version = view["version"]
    applied = [codec.encode(bytes_, held.get(mid, [])) for mid, bytes_ in zip(names, raw, strict=True)]
    assert [m for m in applied if m is not None] == caller.slices(caller.transform(messages))


def test_a_utility_request_is_untouched_and_leaves_no_trace(caller: Caller) -> None:
    """Hosts 1 and 11 case 29."""
    answer = caller.transform([prompt("title please")], purpose="utility")
    assert answer.json()["messages"] == [prompt("title please")]
    assert models.Session.objects.count() == 0


def test_usage_of_one_response_counts_once(caller: Caller) -> None:
    """Hosts 11 case 57; cases.md 10."""
    first = caller.transform(exchange(2)).json()
    usage = {"input_tokens": 1000, "cache_read_input_tokens": 500, "pass_id": first["pass"]["id"]}
    caller.transform(exchange(3), usage=usage)
    caller.transform(exchange(4), usage=usage)
    assert models.UsageEvent.objects.count() == 1
    assert models.Session.objects.get().vars().usage_input_tokens == 1500


def test_last_sent_raw_messages_stay_raw_until_a_rebuild(caller: Caller) -> None:
    """Design 5, "what was really sent"; hosts 11 case 40."""
    caller.transform(exchange(1))
    longer = exchange(3)
    answer = caller.transform(longer, last_sent={"view_version": 1, "raw_from": 3})
    sent = caller.messages(answer)
    assert sent[3:5] == longer[3:5], "sent raw while the server was away"
    assert sent[6]["content"][0]["content"].startswith("§")
    assert caller.messages(caller.transform(longer)) == sent


def test_two_owners_with_one_session_id_are_two_sessions(caller: Caller, another: Any) -> None:
    """Cases.md 11: no state is shared."""
    other = another("bob")
    caller.transform(exchange(2))
    answer = other.transform([prompt("mine")])
    assert other.messages(answer)[0]["content"] == "§1§ mine"
    assert models.Session.objects.count() == 2


def test_two_harnesses_with_one_session_id_are_two_sessions(caller: Caller) -> None:
    caller.transform(exchange(1))
    caller.harness = "claude-code"
    caller.transform(exchange(1))
    assert sorted(models.Session.objects.values_list("harness", flat=True)) == ["claude_code", "custom"]


def test_a_subagent_is_its_own_session_and_names_its_parent(caller: Caller) -> None:
    caller.transform(exchange(1))
    caller.sid = "s1/agent/7"
    caller.transform(exchange(1), subagent=True, parent_session="s1")
    child = models.Session.objects.get(sid="s1/agent/7")
    assert (child.role, child.parent_sid) == ("subagent", "s1")


def test_openai_chat_speaks_too(caller: Caller) -> None:
    messages = [
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "out"},
    ]  # fmt: skip
    served = caller.messages(caller.transform(messages, format="openai-chat", model="openai/gpt-5.4"))
    assert served[0] == messages[0]
    assert served[1]["content"] == "§1§ hi"
    assert served[3]["content"] == "§2§ out"


def test_a_session_over_the_window_is_made_to_fit_or_refused(caller: Caller) -> None:
    """Cases.md 2; reclaim-core 8.4: never sent over the window."""
    big = exchange(40, size=20_000)
    answer = caller.transform(big, context_limit=60_000)
    assert answer.status_code == 200
    assert sum(map(len, caller.slices(answer))) / 4 < 60_000
    caller.sid = "words"
    texts = [prompt("w" * 8000 + f" {n}" * 2000) for n in range(60)]
    refused = caller.transform(texts, context_limit=20_000)
    assert (refused.status_code, refused.json()["code"]) == (409, "context_refused")
    assert "messages" not in refused.json()
    assert models.Incident.objects.get().kind == "refusal"


def test_drops_and_levels_are_recorded(caller: Caller) -> None:
    """Cases.md 1: the pass shows how much it freed."""
    messages = exchange(40, size=4_000)
    caller.transform(messages[:-2], context_limit=60_000)
    answer = caller.transform(messages, context_limit=60_000, usage={"input_tokens": 52_000})
    decided = answer.json()["pass"]
    assert decided["level"] == "soft_plus"
    assert decided["reasons"] == ["force_band"]
    record = models.Pass.objects.get(pk=decided["id"])
    assert record.dropped_tokens > 2_000
    assert any(deciding for _, _, _, deciding in record.clauses)
