"""``ctx_reduce`` marks: queued, held, landed (reclaim-core sections 2, 5.4 and 12)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magiccontext.engine.reduce import (
    ReduceError,
    TagFacts,
    copied_placeholders,
    copied_refusal,
    parse_drop,
    plan_reduce,
)
from magiccontext.engine.request import HistorianFacts
from magiccontext.engine.state import DropMode, TagStatus
from tests.engine.conversation import Call, Result, Session, result_texts, words

BIG = {"text": "x" * 2_000}


def loaded(removable: int, *, limit: int = 100_000) -> Session:
    """A session with one result of that many tokens outside the protection window."""
    session = Session(context_limit=limit, protected_tokens=4_000).ask("go")
    session.step("old", words(removable), Call("old", "custom", {"text": "x" * 1_100}))
    session.steps(21, 10).steps(4, 2_000, first=900).ask("on")
    session.send()
    return session


def test_it_works() -> None:
    session = loaded(500)
    session.queue(session.tool("old").number)
    session.flush()
    sent = session.send()
    assert (sent.level, sent.reasons, sent.lanes) == ("soft_plus", ("explicit_flush",), {"queued_drops": 1})
    assert session.state.pending == {}
    assert session.state.vars.flush == ""


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("§302§-§380§", tuple(range(302, 381))), ("3-5,5,1", (1, 3, 4, 5))],
)
def test_case_06_ranges(text: str, numbers: tuple[int, ...]) -> None:
    """Section 12, 6."""
    assert parse_drop({"drop": text}) == numbers


def test_case_06_a_range_that_begins_after_its_end() -> None:
    with pytest.raises(ReduceError):
        parse_drop({"drop": "5-3"})


def test_case_07_one_unknown_number_refuses_the_whole_call() -> None:
    """Section 12, 7."""
    plan = plan_reduce(range(1, 11), lambda n: None if n == 7 else TagFacts())
    assert plan.error and plan.queue == ()
    assert "§7§" in plan.text and "§6§" not in plan.text


def test_case_08_a_protected_tag_is_queued_and_lands_by_itself() -> None:
    """Section 12, 8: held until newer work displaces it; no other call is needed."""
    plan = plan_reduce([4], lambda n: TagFacts(held=True))
    assert plan.queue == plan.held == (4,)
    session = (
        Session(protected_tokens=4_000).ask("go").step("c", words(500), Call("c", arguments=BIG)).ask("on")
    )
    session.send()
    session.queue(session.tool("c").number)
    session.flush()
    sent = session.send()
    assert (sent.level, list(session.state.pending)) == ("defer", [session.tool("c").number])
    session.steps(4, 2_000, first=900).ask("on")
    session.send()
    session.flush()
    assert session.send().lanes == {"queued_drops": 1}


def test_case_09_an_errored_call_drops_and_a_running_one_waits() -> None:
    """Section 12, 9: a running call has no number yet; one whose result is away stays queued."""
    session = Session(protected_tokens=4_000).ask("go")
    session.step("bad", Result("bad", words(500), error=True), Call("bad", arguments=BIG))
    session.steps(4, 2_000, first=900)
    session.add(session.write.assistant(calls=[Call("running")]))
    session.send()
    assert not [t for t in session.state.tags.values() if t.call_id == "running"]
    session.add(session.write.results(Result("running"))).ask("on")
    session.queue(session.tool("bad").number)
    session.flush()
    session.send()
    assert session.tool("bad").status is TagStatus.DROPPED


def test_a_call_that_lost_its_result_stays_queued() -> None:
    session = loaded(500)
    tag = session.tool("old")
    session.state.tags[tag.number] = replace(tag, result_mid="", result_part=-1)
    session.queue(tag.number)
    session.flush()
    assert session.send().lanes == {}
    assert tag.number in session.state.pending


def test_a_persons_answer_stays_queued() -> None:
    """Section 2.1: the result of a question tool."""
    session = Session(protected_tokens=4_000).ask("go")
    session.step("q", words(500), Call("q", "question", BIG)).steps(4, 2_000).ask("on")
    session.send()
    session.queue(session.tool("q").number)
    session.flush()
    assert session.send().lanes == {}
    assert session.state.pending


@pytest.mark.parametrize("format", ["anthropic", "openai-chat"])
def test_case_10_marks_change_no_byte_of_a_warm_pass(format: str) -> None:
    """Section 12, 10: identical to the previous array plus what was added."""
    session = Session(format).ask("go").steps(8, 2_000)
    first = session.send()
    session.queue(*list(session.state.tags)[:4])
    session.step("more").ask("on")
    second = session.send(percent=40)
    assert second.level == "defer"
    assert second.served[: len(first.served)] == first.served
    assert len(second.served) > len(first.served)


def test_case_24_small_work_lands_on_the_third_execute_pass() -> None:
    """Section 12, 24: primary at 70 %, 1 % removable, no summary can come."""
    session = loaded(700)
    session.queue(session.tool("old").number)
    levels = []
    for index in range(4):
        session.ask(f"step {index}")
        sent = session.send(percent=70)
        levels.append((sent.level, sent.reasons))
    assert levels == [("defer", ()), ("defer", ()), ("soft_plus", ("queued_drops",)), ("defer", ())]
    assert session.state.vars.held_execute == 0


def test_the_third_pass_counts_passes_in_a_row() -> None:
    """Section 5.4: a scheduler-defer pass starts the count anew."""
    session = loaded(700)
    session.queue(session.tool("old").number)
    levels = []
    for percent in (70, 70, 40, 70, 70, 70):
        levels.append(session.send(percent=percent).level)
        session.now += 1
    assert levels == ["defer"] * 5 + ["soft_plus"]


def test_case_25_protected_work_is_never_waited_for() -> None:
    """Section 12, 25: all queued work is protected."""
    session = Session().ask("go").steps(3, 2_000).ask("on")
    session.send()
    session.queue(*(session.tool(f"c{i}").number for i in range(3)))
    for _ in range(5):
        assert session.send(percent=70).level == "defer"
        assert session.state.vars.held_execute == 0
    assert len(session.state.pending) == 3


def test_large_work_lands_at_once() -> None:
    """Section 5.4: 2 % of the usable window."""
    session = loaded(2_500)
    session.queue(session.tool("old").number)
    session.ask("next")
    assert session.send(percent=70).reasons == ("queued_drops",)


def test_case_26_large_work_waits_for_a_summary_that_can_come() -> None:
    """Section 12, 26."""
    session = loaded(3_500)
    session.queue(session.tool("old").number)
    for _ in range(4):
        sent = session.send(percent=70, historian=HistorianFacts(can_fire=True))
        assert sent.level == "defer"
    # The passes it was held for count; the historian declines, and the work lands.
    assert session.send(percent=70).reasons == ("queued_drops",)


def test_case_27_work_behind_the_newest_prompt_waits_for_one_mark() -> None:
    """Section 12, 27: a historian blocked only by the newest prompt sets the floor mark, once."""
    session = loaded(3_500)
    session.queue(session.tool("old").number)
    blocked = HistorianFacts(blocked_only_by_prompt=True, floor_mark_allowed=True)
    sent = session.send(percent=70, historian=blocked)
    clauses = {clause.name: clause.value for clause in sent.result.clauses}
    assert (sent.level, clauses["queue exception"]) == (
        "defer",
        "blocked only by the newest prompt: set_floor_mark",
    )
    sent = session.send(percent=70, historian=HistorianFacts(blocked_only_by_prompt=True))
    assert sent.reasons == ("queued_drops",)


def test_a_skeleton_counts_only_its_result() -> None:
    """Section 5.4: what the drain would remove now."""
    session = Session(protected_tokens=4_000).ask("go")
    session.step("old", words(1_900), Call("old", arguments={"text": "x" * 1_000}))
    session.steps(4, 2_000, first=900).ask("on")
    session.send()
    tag = session.tool("old")
    assert tag.token_count < 2_000 < tag.tokens
    session.queue(tag.number)
    assert session.send(percent=70).level == "defer"


def test_an_absent_target_is_settled_without_a_byte() -> None:
    """Section 2.1, last row."""
    session = Session().ask("go").ask("secret").ask("on")
    session.send()
    number = session.text_tag(1).number
    session.raw.pop(1)
    session.ask("more")
    session.send()
    session.queue(number)
    session.flush()
    sent = session.send()
    assert sent.level == "defer"
    tag = session.state.tags[number]
    assert (tag.status, tag.drop_mode, session.state.pending) == (TagStatus.DROPPED, DropMode.FULL, {})


def test_a_mark_on_what_is_dropped_already_leaves_the_queue() -> None:
    session = loaded(500)
    for _ in range(2):
        session.queue(session.tool("old").number, 4711)
        session.flush()
        session.send()
    assert session.state.pending == {}


def test_marks_land_in_order_of_time() -> None:
    session = loaded(500)
    text = session.text_tag(0).number
    session.now += 1_000
    session.queue(text)
    session.now -= 500
    session.queue(session.tool("old").number)
    session.flush()
    changes = session.run().changes
    assert changes.ops_removed == sorted([text, session.tool("old").number])
    assert [t.number for t in changes.changed_tags] == [session.tool("old").number, text]


@pytest.mark.parametrize("format", ["anthropic", "openai-chat"])
def test_a_persons_text_and_file_may_be_dropped_by_name(format: str) -> None:
    session = Session(format).add(Session(format).write.user("look at this", images=1)).ask("on")
    session.send()
    session.queue(1, 2)
    session.flush()
    sent = session.send()
    said = [p.text for p in session.codec.parse(sent.served[0]).parts]
    assert said == ["[dropped §1§]", "[dropped §2§]"]


def test_case_57_copied_placeholders_are_refused_before_the_call_runs() -> None:
    """Section 12, 57."""
    found = copied_placeholders({"filePath": "a.py", "content": "[dropped §7§]"})
    assert [offence.path for offence in found] == ["content"]
    assert "ctx_expand" in copied_refusal(found)


def test_the_queue_of_a_held_pass_is_untouched() -> None:
    session = loaded(3_000)
    session.queue(session.tool("old").number)
    before = result_texts(session.send(), session.codec)
    sent = session.send(percent=70, historian=HistorianFacts(running=True))
    assert (sent.level, len(session.state.pending)) == ("defer", 1)
    assert result_texts(sent, session.codec) == before
