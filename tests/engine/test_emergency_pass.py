"""The force band and the emergency, pass by pass (reclaim-core sections 5.2, 7 and 12)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magiccontext.engine.result import Outcome
from magiccontext.engine.state import TagStatus
from tests.engine.conversation import Call, Result, Session, result_texts, words


def full(tokens: int = 3_000, number: int = 28, limit: int = 100_000, **settings: object) -> Session:
    """Tool results that fill most of the window."""
    session = Session(context_limit=limit, protected_tokens=8_000, **settings)  # type: ignore[arg-type]
    session.ask("go").steps(number, tokens, size=1_100).ask("on")
    session.send()
    return session


def dropped(session: Session) -> set[str]:
    return {t.call_id for t in session.state.tags.values() if t.status is TagStatus.DROPPED}


def later(session: Session, **send: object) -> object:
    session.now += 1_000
    return session.send(**send)  # type: ignore[arg-type]


def test_it_works() -> None:
    session = full()
    sent = session.send(percent=88)
    assert (sent.level, sent.reasons) == ("soft_plus", ("force_band",))
    assert sent.lanes["emergency_drop"] > 10
    assert session.state.vars.emergency_sample > 0
    # 30 % of the room below the threshold is what the results are brought down to.
    assert 0.25 * 65_000 < session.state.vars.wire_tokens < 0.45 * 65_000


def test_case_34_usage_around_the_band_is_no_second_emergency() -> None:
    """Section 12, 34: not before it fell below the band less 5."""
    session = full()
    session.send(percent=88)
    for percent in (84, 86, 81, 88):
        session.steps(1, 3_000, first=100 + percent, size=1_100)
        session.now += 1_000
        assert session.send(percent=percent).level == "defer"
    session.now += 1_000
    session.send(percent=79)
    assert session.state.vars.emergency_sample == 0
    session.steps(8, 3_000, first=300, size=1_100).ask("on")
    session.now += 1_000
    assert session.send(percent=88).lanes["emergency_drop"] > 0


def test_case_35_a_set_latch_is_a_defer_until_queued_work_is_worth_it() -> None:
    """Section 12, 35: at 88 % with nothing else no bust per step; with queued drops of 3 % a rebuild."""
    session = full()
    session.send(percent=88)
    for index in range(3):
        session.step(f"s{index}")
        session.now += 1_000
        assert session.send(percent=88).level == "defer"
    session.steps(5, 3_000, first=200, size=1_100).ask("on")
    session.send()
    session.queue(session.tool("c200").number)
    session.now += 1_000
    sent = session.send(percent=88)
    assert sent.reasons == ("force_band",)
    assert sent.lanes["queued_drops"] == 1


def test_case_36_an_emergency_for_tens_of_tokens_is_blocked() -> None:
    """Section 12, 36: 2,000 tokens are the least."""
    session = Session(context_limit=100_000, protected_tokens=8_000).ask(words(60_000))
    session.steps(3, 20).steps(3, 3_000, first=50).ask("on")
    session.send()
    sent = session.send(percent=88)
    assert (sent.result.permitted.word, sent.level, sent.lanes) == ("soft_plus", "defer", {})
    assert session.state.vars.emergency_sample == 0


def test_case_37_old_drops_neither_clear_the_latch_nor_waive_the_minimum() -> None:
    """Section 12, 37: a replay is no new mutation."""
    session = full()
    session.send(percent=88)
    latch = session.state.vars.emergency_sample
    session.ask("next")
    session.now += 1_000
    sent = session.send(percent=89)
    assert (sent.level, session.state.vars.emergency_sample) == ("defer", latch)


def test_case_38_the_floor_counts_everything_on_the_wire_after_the_drain() -> None:
    """Section 12, 38: with the candidates alone, protected results would look fixed."""
    plain, queued = full(), full()
    first = plain.send(percent=88)
    queued.queue(queued.tool("c0").number, queued.tool("c1").number)
    second = queued.send(percent=88)
    assert second.lanes["queued_drops"] == 2
    assert dropped(plain) == dropped(queued)
    assert first.lanes["emergency_drop"] == second.lanes["emergency_drop"] + 2


def test_case_39_in_an_emergency_the_window_yields_and_protected_tools_do_not() -> None:
    """Section 12, 39: at 96 % window tags drop, the newest todowrite stays."""
    session = Session(context_limit=100_000, protected_tokens=100_000).ask("go")
    session.step("todo", words(3_000), Call("todo", "todowrite", {"text": "x" * 1_100}))
    session.steps(27, 3_000, size=1_100).ask("on")
    session.send()
    assert session.send(percent=90).lanes == {}  # all of it is inside the window
    session.now += 1_000
    session.send(percent=96)
    assert len(dropped(session)) > 15 and "todo" not in dropped(session)


def test_case_59_in_the_force_band_the_other_lanes_run_too() -> None:
    """Section 12, 59: age sweep and supersession, after the emergency drop."""
    session = Session("openai-chat", "openai/gpt-5", 100_000, protected_tokens=4_000).ask("go")
    session.steps(11, 6_000, name="read", size=1_100).step("aged", words(300), Call("aged", "read", {}))
    for id in ("t1", "t2"):
        session.step(id, "done", Call(id, "todowrite", {"todos": id}))
    session.steps(20, 300, first=100, name="read").ask("on")
    session.send()
    session.state.vars = replace(session.state.vars, tool_reclaim_watermark=session.tool("aged").number)
    sent = session.send(percent=88)
    assert list(sent.lanes) == ["emergency_drop", "age_sweep", "supersession"]
    assert {"aged", "t1"} <= dropped(session) and "t2" not in dropped(session)


def test_a_repeated_request_is_no_second_emergency() -> None:
    """cases.md 1: the figure of the last response stands for what was there before the drop."""
    session = full()
    session.send(percent=96)
    assert session.state.vars.emergency_sample > 0
    assert "emergency_drop" not in session.send().lanes
    assert session.send().level == "defer"


def test_an_unmanaged_session_over_the_window_is_made_to_fit_on_its_first_pass() -> None:
    """Section 8.4, seed: treated as at least 95 %, and served once it fits."""
    session = Session(context_limit=50_000).ask("go").steps(60, 2_000, size=1_100).ask("on")
    sent = session.send()
    assert (sent.result.outcome, sent.result.emergency) == (Outcome.SERVE, True)
    assert sent.lanes["emergency_drop"] > 30
    # Nothing of it was ever sent, so nothing changed: the pass is a defer, and so is its repetition.
    assert sent.level == "defer"
    assert session.state.vars.wire_tokens < 50_000
    assert session.send().served == sent.served


def test_an_unmanaged_session_that_cannot_be_made_to_fit_is_refused() -> None:
    """Section 8.4: ``MC-H06`` until a pass fits; nothing about content is kept."""
    session = Session(context_limit=20_000).ask(words(60_000)).ask("on")
    sent = session.send()
    assert (sent.result.outcome, sent.result.ending.code) == (Outcome.REFUSE, "MC-H06")
    assert (session.state.tags, session.state.messages) == ({}, {})
    assert session.state.vars.version == 1
    session.context_limit = 200_000
    assert session.send().result.outcome is Outcome.SERVE


def test_a_request_proven_over_the_window_is_never_sent() -> None:
    """cases.md 2; section 8.4, seed."""
    session = full(number=4)
    session.queue(session.tool("c0").number)
    session.flush()
    session.send(used=15_000)
    session.ask(words(200_000))
    sent = session.send(used=15_000)
    assert (sent.result.outcome, sent.result.ending.code) == (Outcome.REFUSE, "MC-H04")
    assert session.state.vars.emergency_sample == 0
    session.raw.pop()
    session.ask("shorter")
    assert session.send().result.outcome is Outcome.SERVE


def test_protected_results_that_are_over_by_themselves_are_named() -> None:
    """Section 8.4, first row."""
    session = Session(context_limit=20_000).ask("go")
    session.step("q", words(60_000), Call("q", "question", {}))
    assert session.send().result.ending.code == "protected_tool_results_over_limit"


def test_a_refused_pass_keeps_queue_and_flush() -> None:
    session = full(number=4)
    session.queue(session.tool("c0").number)
    session.flush()
    session.ask(words(300_000))
    sent = session.send(used=15_000)
    assert sent.result.outcome is Outcome.REFUSE
    assert (len(session.state.pending), session.state.vars.flush) == (1, "explicit")
    assert session.state.vars.usage_input_tokens == 15_000
    session.restart()
    assert session.send().result.outcome is Outcome.REFUSE


def test_the_emergency_line_is_of_the_hard_window() -> None:
    """Section 4.2: an output reserve moves the soft wall, not the hard one."""
    session = full(limit=200_000)
    sent = session.send(percent=98, output_limit=64_000)
    assert sent.result.window.usable_soft < sent.result.window.usable_hard
    session.now += 1_000
    sent = session.send(used=148_000, output_limit=64_000)
    assert sent.result.percentage > 95 and not sent.result.emergency


@pytest.mark.parametrize("subagent", [False, True])
def test_the_emergency_drop_serves_both_kinds(subagent: bool) -> None:
    """Section 5.5."""
    session = Session(context_limit=100_000, protected_tokens=8_000, subagent=subagent)
    session.ask("go").steps(28, 3_000, size=1_100).ask("on")
    session.send()
    assert session.send(percent=88).lanes["emergency_drop"] > 0


def test_images_in_old_results_go_with_them() -> None:
    session = Session(context_limit=100_000, protected_tokens=8_000).ask("go")
    session.step("shot", Result("shot", words(200), images=3), Call("shot", "browser", {"u": "x" * 1_100}))
    session.steps(26, 3_000, size=1_100).ask("on")
    session.send()
    sent = session.send(percent=88)
    assert "shot" not in result_texts(sent, session.codec)
