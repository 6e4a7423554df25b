"""A server that lies is caught: one test a lie (design section 11), and none for the honest one."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from magiccontext.replay.agent import ReducingAgent, drop_argument
from magiccontext.replay.facts import Facts
from magiccontext.replay.history import check_tail
from magiccontext.replay.ledger import Ledger
from magiccontext.replay.managed import Played, PlayOptions, play
from magiccontext.replay.policies import Session
from magiccontext.replay.problems import Problem
from magiccontext.replay.tokens import MessageBook
from magiccontext.replay.transcript import Transcript
from magiccontext.replay.verify import (
    REASONS,
    Evidence,
    Sent,
    check_conversation,
    check_fresh_results,
    check_front,
)
from tests.replay.replay_fake import FakeServer, Json, conversation, count_characters

IDLE = 10 * 60
HEAD = 2
"""Messages of an answer before its tail."""


def run(
    server: FakeServer, transcript: Transcript, limit: int = 1_000_000, **options: Any
) -> tuple[Played, Ledger]:
    session = Session.measured(transcript, MessageBook(count_characters), limit)
    ledger = Ledger(limit, lambda model: 300_000)
    played = play(session, server.client(), ledger, PlayOptions(lambda model: 300_000, "t", **options))
    return played, ledger


def codes(played: Played) -> set[str]:
    return {problem.code for problem in played.problems}


def at(call: int, change: Callable[[Json], None]) -> Callable[[int, Json], None]:
    """A lie told in one answer."""

    def lie(number: int, answer: Json) -> None:
        if number == call:
            change(answer)

    return lie


def alter(index: int) -> Callable[[Json], None]:
    """Change a byte of a message of the tail."""

    def change(answer: Json) -> None:
        message = json.loads(json.dumps(answer["messages"][HEAD + index]))
        if isinstance(message["content"], str):
            message["content"] += " "
        else:
            message["content"][0]["text"] = message["content"][0].get("text", "") + " "
        answer["messages"][HEAD + index] = message

    return change


def claim(level: str, *reasons: str) -> Callable[[Json], None]:
    def change(answer: Json) -> None:
        answer["pass"] |= {"level": level, "permitted": level, "reasons": list(reasons)}

    return change


def both(*changes: Callable[[Json], None]) -> Callable[[Json], None]:
    def change(answer: Json) -> None:
        for one in changes:
            one(answer)

    return change


def test_an_honest_server_has_no_problems() -> None:
    played, ledger = run(FakeServer(), conversation(12))
    assert played.problems == []
    assert played.levels == {"hard": 1, "defer": 11}
    totals = ledger.totals()
    assert (totals.calls, totals.hits, totals.busts) == (12, 11, {})


def test_an_honest_rebuild_under_pressure_is_explained() -> None:
    server = FakeServer()
    played, ledger = run(server, conversation(40, result_size=2000), limit=75_000, reduce=3)
    assert played.problems == []
    assert server.drops
    assert ledger.totals().busts == {"soft_plus: queued_drops": played.levels["soft_plus"]}


def test_an_honest_rebuild_after_an_idle_gap_is_explained_and_free() -> None:
    played, ledger = run(FakeServer(), conversation(20, gaps_s={14: IDLE}), reduce=3)
    assert played.problems == []
    totals = ledger.totals()
    assert totals.busts == {"soft_plus: ttl_idle+ttl_expiry": 1}
    assert (totals.free_busts, totals.lost) == (1, 1)


def test_an_old_byte_changed_on_a_defer_is_caught() -> None:
    played, _ = run(FakeServer(at(6, alter(1))), conversation(9))
    assert codes(played) == {"defer_changed_bytes"}
    assert "message 3 " in played.problems[0].detail


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_a_rebuild_that_nothing_bears_out_is_caught(reason: str) -> None:
    played, _ = run(FakeServer(at(6, both(alter(1), claim("soft_plus", reason)))), conversation(9))
    assert codes(played) - {"unexplained_bust"} == {"unjustified_reason"}
    assert played.problems[0].call == 6


def test_a_rebuild_without_a_reason_is_caught() -> None:
    played, _ = run(FakeServer(at(6, both(alter(1), claim("soft_plus")))), conversation(9))
    assert codes(played) == {"unexplained_bust"}


def test_a_reason_that_only_rides_opens_nothing() -> None:
    lie = both(alter(1), claim("soft_plus", "pressure_refold"))
    played, _ = run(FakeServer(at(6, lie)), conversation(9))
    assert "unexplained_bust" in codes(played)


def test_an_unknown_reason_is_caught() -> None:
    lie = both(alter(1), claim("soft_plus", "mercury_retrograde"))
    played, _ = run(FakeServer(at(6, lie)), conversation(9, gaps_s={6: IDLE}))
    assert codes(played) == {"unknown_reason"}


def test_a_level_without_any_change_is_caught() -> None:
    played, _ = run(FakeServer(at(6, claim("soft_plus", "ttl_expiry"))), conversation(9, gaps_s={6: IDLE}))
    assert codes(played) == {"wrong_level"}


def test_a_level_above_the_permitted_one_is_caught() -> None:
    def lie(answer: Json) -> None:
        claim("soft_plus", "ttl_expiry")(answer)
        answer["pass"]["permitted"] = "defer"

    played, _ = run(FakeServer(at(6, both(alter(1), lie))), conversation(9, gaps_s={6: IDLE}))
    assert codes(played) == {"engine_fault"}


def test_a_dropped_user_message_is_caught() -> None:
    def lose(call: int, answer: Json) -> None:
        answer["messages"] = [
            message
            for message in answer["messages"]
            if not (isinstance(message["content"], str) and message["content"].startswith("Question 4"))
        ]

    played, _ = run(FakeServer(lose), conversation(9))
    assert codes(played) == {"user_text_missing"}


def test_a_lost_tool_result_is_caught() -> None:
    def lose(answer: Json) -> None:
        del answer["messages"][HEAD + 2]

    lie = both(lose, claim("soft_plus", "ttl_expiry"))
    played, _ = run(FakeServer(at(6, lie)), conversation(9, gaps_s={6: IDLE}))
    assert "orphan_call" in codes(played)


def test_a_lost_tool_call_is_caught() -> None:
    def lose(answer: Json) -> None:
        del answer["messages"][HEAD + 1]

    lie = both(lose, claim("soft_plus", "ttl_expiry"))
    played, _ = run(FakeServer(at(6, lie)), conversation(9, gaps_s={6: IDLE}))
    assert "orphan_result" in codes(played)


def test_a_fresh_exchange_taken_away_whole_is_caught() -> None:
    def lose(answer: Json) -> None:
        answer["messages"] = answer["messages"][:-2]

    played, _ = run(FakeServer(at(5, lose)), conversation(6))
    assert codes(played) == {"fresh_result_missing", "assistant_text_missing"}


def test_an_array_that_ends_with_the_assistant_is_caught() -> None:
    def lose(answer: Json) -> None:
        answer["messages"] = answer["messages"][:-1]

    played, _ = run(FakeServer(at(5, lose)), conversation(6))
    assert "assistant_terminal" in codes(played)


def test_a_changed_system_prompt_is_caught() -> None:
    def change(answer: Json) -> None:
        answer["system"] = "today is another day"

    played, _ = run(FakeServer(at(5, change)), conversation(6))
    assert codes(played) == {"defer_changed_bytes"}


@pytest.mark.parametrize(
    "field", ["messages", "pass", "view_version"], ids=["messages", "pass", "view_version"]
)
def test_an_answer_without_its_fields_is_caught(field: str) -> None:
    server = FakeServer()
    honest = server._pass

    def without(body: Json) -> Json:
        answer = honest(body)
        if server.calls == 3:
            return {"status": 200, **{k: v for k, v in answer.items() if k != field}}
        return answer

    server._pass = without  # type: ignore[method-assign]
    played, ledger = run(server, conversation(6))
    assert codes(played) == {"bad_answer"}
    assert ledger.totals().calls == 5


def test_an_unknown_level_is_caught() -> None:
    played, _ = run(FakeServer(at(3, claim("sideways"))), conversation(6))
    assert codes(played) == {"bad_answer"}


def test_a_refusal_is_counted_and_fails_the_run() -> None:
    def refuse(answer: Json) -> None:
        answer |= {"status": 409, "code": "context_refused", "detail": "too large"}

    played, ledger = run(FakeServer(at(3, refuse)), conversation(6))
    assert codes(played) == {"refused"}
    assert "context_refused: too large" in played.problems[0].detail
    totals = ledger.totals()
    assert (totals.refusals, totals.calls) == (1, 5)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"raw_from": 3}, "last_good_replay"),
        ({"notices": [{"level": "error", "code": "engine_fault", "text": "form changed"}]}, "engine_fault"),
    ],
)
def test_a_fault_the_server_admits_fails_the_run(change: Json, code: str) -> None:
    played, _ = run(FakeServer(at(3, lambda answer: answer.update(change))), conversation(6))
    assert codes(played) == {code}


def test_a_refused_tool_call_fails_the_run_and_is_no_evidence() -> None:
    server = FakeServer(at(14, both(alter(1), claim("soft_plus", "queued_drops"))))
    server.tool_error = "Error: unknown tags"
    played, _ = run(server, conversation(16, gaps_s={14: IDLE}), reduce=3)
    assert codes(played) == {"ctx_reduce_failed", "unjustified_reason"}


def test_usage_is_what_the_answer_would_have_cost() -> None:
    server = FakeServer()
    _, ledger = run(server, conversation(4))
    for row, body in zip(ledger.rows, server.bodies[1:], strict=False):
        usage = body["usage"]
        assert usage["input_tokens"] == 0
        assert usage["cache_read_input_tokens"] == row.charge.read_tokens
        assert usage["cache_creation_input_tokens"] == row.charge.write_tokens
        assert usage["pass_id"] == row.call + 1
        assert body["last_sent"] == {"view_version": row.call + 1, "raw_from": None}
    assert server.bodies[0]["usage"] is None


def test_delta_sync_sends_only_the_news() -> None:
    server = FakeServer()
    played, _ = run(server, conversation(6), sync=True)
    assert played.problems == []
    assert [len(body["messages"]) for body in server.bodies] == [1, 2, 2, 2, 3, 2]


def test_the_agent_marks_only_what_is_old_and_in_batches() -> None:
    agent = ReducingAgent(keep_calls=2)
    for call in range(6):
        agent.see(call, range(1, call + 2))
        assert agent.spent(call) == []
    agent.see(6, range(1, 8))
    assert agent.spent(6) == [1, 2, 3, 4, 5]
    agent.mark([1, 2, 3, 4, 5])
    assert agent.spent(6) == []
    agent.see(7, [6, 7])
    assert agent.outstanding == set()


@pytest.mark.parametrize(
    ("tags", "text"), [([3], "3"), ([1, 2, 3, 7], "1-3,7"), ([1, 3, 4], "1,3-4"), ([], "")]
)
def test_drop_argument(tags: list[int], text: str) -> None:
    assert drop_argument(tags) == text


def test_reasons_follow_the_evidence() -> None:
    """Each reason of reclaim-core section 5.2 that a replay can bear out, and the least it needs."""
    rows = {
        "ttl_expiry": Evidence(idle=True),
        "ttl_idle": Evidence(idle=True),
        "force_band": Evidence(percentage=85.0),
        "queued_drops": Evidence(percentage=65.0, queued=1),
        "subagent_execute": Evidence(percentage=65.0, subagent=True),
        "model_change": Evidence(model_changed=True),
        "m1_delta": Evidence(percentage=65.0, unserved=1),
        "pressure_refold": Evidence(overweight=True),
        "hold_release": Evidence(held=True),
        "first_render": Evidence(),
    }
    for reason, evidence in rows.items():
        assert REASONS[reason](evidence), reason
    assert not REASONS["force_band"](Evidence(percentage=84.9))
    assert not REASONS["queued_drops"](Evidence(percentage=64.9, queued=1))
    assert not REASONS["queued_drops"](Evidence(percentage=65.0))
    assert not REASONS["m1_delta"](Evidence(percentage=65.0))
    assert not REASONS["m1_delta"](Evidence(percentage=64.9, unserved=1))
    assert REASONS["force_band"](Evidence(percentage=92.0, threshold=90.0))
    assert not REASONS["force_band"](Evidence(percentage=91.9, threshold=90.0))


def test_a_first_answer_has_no_front_to_keep() -> None:
    report = {"level": "hard", "permitted": "hard", "reasons": ["first_render"]}
    assert check_front(0, None, Sent([b"a"], None), report, Evidence()) == []


def test_results_may_follow_in_several_user_messages_but_only_once() -> None:
    ask = Facts("assistant", calls=("a", "b"))
    user = Facts("user", texts=("hi",))
    good = [user, ask, Facts("user", results=("b",)), Facts("user", results=("a",), texts=("x",))]
    assert check_conversation(0, good) == []
    twice = [user, ask, Facts("user", results=("a", "a", "b"))]
    assert {p.code for p in check_conversation(0, twice)} == {"orphan_result"}
    late = [user, ask, Facts("user", results=("a",)), Facts("assistant"), Facts("user", results=("b",))]
    assert {p.code for p in check_conversation(0, late)} == {"orphan_call", "orphan_result"}


def texts(raw: list[Facts], sent: list[Facts]) -> list[Problem]:
    """What is wrong with the texts of an answer in which no summary stands for anything."""
    return [p for p in check_tail(0, raw, sent, set(), 0) if p.code == "user_text_missing"]


def test_user_texts_keep_their_order_and_number() -> None:
    raw = [Facts("user", texts=("go on",)), Facts("user", texts=("stop",)), Facts("user", texts=("go on",))]
    tagged = [Facts("user", texts=(f"§{i}§ {m.texts[0]}",)) for i, m in enumerate(raw)]
    assert texts(raw, tagged) == []
    assert [p.code for p in texts(raw, tagged[:2])] == ["user_text_missing"]
    assert [p.code for p in texts(raw, [tagged[1], tagged[0]])] == ["user_text_missing"] * 2


def test_an_injected_notice_may_leave_but_not_the_words_around_it() -> None:
    raw = [Facts("user", texts=("<system-reminder>be kind</system-reminder>", "do <!-- x -->it"))]
    assert texts(raw, [Facts("user", texts=("do it",))]) == []
    assert texts(raw, [Facts("user", texts=("it",))]) != []


def test_a_fresh_result_may_get_a_tag_and_a_hint() -> None:
    raw = [Facts("assistant", calls=("a",)), Facts("user", results=("a",), outputs=("§9§ text",))]
    sent = [raw[0], Facts("user", results=("a",), outputs=("§4§ text\n\nhint",))]
    assert check_fresh_results(0, raw, sent) == []
    gone = [raw[0], Facts("user", results=("a",), outputs=("[dropped §4§]",))]
    assert [p.code for p in check_fresh_results(0, raw, gone)] == ["fresh_result_missing"]
