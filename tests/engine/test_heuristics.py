"""The lanes nobody asks for: dedup, supersession, injection strip, age sweep (reclaim-core section 6)."""

from __future__ import annotations

import pytest

from magiccontext.engine.lanes.injection import MARKERS, strip_injected
from magiccontext.engine.state import DropMode, TagStatus
from tests.engine.conversation import Call, Result, Session, call_ids, parts, result_texts, words

OPENAI = {"format": "openai-chat", "model": "openai/gpt-5"}


def read(id: str, path: str = "a.py", **more: object) -> Call:
    return Call(id, "read", {"filePath": path, **more})


def buried(session: Session) -> Session:
    return session.steps(4, 2_000, first=900).ask("on")


def dropped(session: Session) -> set[str]:
    return {t.call_id for t in session.state.tags.values() if t.status is TagStatus.DROPPED}


def idle(session: Session, tokens: int = 20_000) -> None:
    """The last request was answered; then the cache lifetime passed."""
    session.send(used=tokens)
    session.idle()


def test_case_42_the_same_call_twice_in_one_message_keeps_the_newest() -> None:
    """Section 12, 42: the older copy goes whole, whatever its size; two turns are no duplicate."""
    session = Session(protected_tokens=4_000).ask("go")
    session.step("t1", "x", read("t1")).step("t2", "x", read("t2"))
    twice = [read("a"), Call("b", "mcp_Read", {"filePath": "a.py"}), read("c")]
    session.add(session.write.assistant("look", calls=twice))
    session.add(session.write.results(Result("a"), Result("b"), Result("c")))
    buried(session).send()
    idle(session)
    assert session.send().lanes == {"dedup": 2}
    assert dropped(session) == {"a", "b"}
    assert session.tool("a").drop_mode is DropMode.FULL


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        (Call("b", "read", {"n": 1, "filePath": "a.py"}), True),  # the order of the members is no difference
        (Call("b", "read", {"filePath": "a.py", "n": 2}), False),
        (Call("b", "grep", {"filePath": "a.py", "n": 1}), False),
        (Call("b", "bash", {"filePath": "a.py", "n": 1}), False),
    ],
)
@pytest.mark.parametrize("format", ["anthropic", "openai-chat"])
def test_what_is_a_duplicate(other: Call, equal: bool, format: str) -> None:
    session = Session(format, protected_tokens=4_000).ask("go")
    session.add(session.write.assistant("look", calls=[read("a", n=1), other]))
    session.add(session.write.results(Result("a"), Result("b")))
    buried(session).send()
    idle(session)
    session.send()
    assert ("a" in dropped(session)) is equal


def test_commands_are_never_duplicates() -> None:
    session = Session(protected_tokens=4_000).ask("go")
    session.add(session.write.assistant("look", calls=[Call("a"), Call("b")]))
    session.add(session.write.results(Result("a"), Result("b")))
    buried(session).send()
    idle(session)
    session.send()
    assert dropped(session) == set()


def test_a_protected_copy_is_an_anchor_and_stays() -> None:
    """Section 6.2."""
    session = Session().ask("go").add(Session().write.assistant("look", calls=[read("a"), read("b")]))
    session.add(session.write.results(Result("a"), Result("b"))).ask("on")
    session.send()
    idle(session)
    session.send()
    assert dropped(session) == set()


def test_hosts_case_18_the_answer_to_a_question_survives() -> None:
    """Hosts section 11; reclaim-core 2.1: excluded from automatic lanes, in an emergency too."""
    session = Session(protected_tokens=4_000, context_limit=40_000).ask("go")
    session.step("q", words(3_000), Call("q", "AskUserQuestion", {"text": "?"}))
    session.step("r", words(3_000), Call("r", "bash", {"text": "x" * 2_000})).steps(10, 2_500).ask("on")
    session.send()
    sent = session.send(percent=97)
    assert sent.lanes["emergency_drop"] > 0
    assert "q" not in dropped(session) and "r" in dropped(session)


def test_a_result_survives_the_first_bust_and_goes_on_the_next() -> None:
    """Section 6.4."""
    session = Session(protected_tokens=4_000).ask("go").step("old", words(300), Call("old"))
    buried(session).send()
    idle(session)
    assert session.send().lanes == {}
    session.step("new", words(300)).steps(4, 2_000, first=950).ask("on")
    session.send(used=20_000)
    session.idle()
    session.send()
    assert "old" in dropped(session) and "new" not in dropped(session)
    session.send(used=20_000)
    session.idle()
    session.send()
    assert "new" in dropped(session)


@pytest.mark.parametrize(("tokens", "goes"), [(246, True), (245, False)])
def test_the_sweep_takes_results_of_some_size(tokens: int, goes: bool) -> None:
    """Section 6.4: 250 tokens of result and arguments; the arguments here are 4."""
    session = Session(protected_tokens=4_000).ask("go").step("old", words(tokens), Call("old"))
    buried(session).send()
    assert session.tool("old").input_token_count == 4
    for _ in range(2):
        idle(session)
        session.send()
    assert ("old" in dropped(session)) is goes


def test_case_45_held_execute_passes_leave_the_age_watermark() -> None:
    """Section 12, 45."""
    session = Session(protected_tokens=4_000).ask("go").step("old", words(300))
    buried(session).send()
    session.queue(session.tool("old").number)
    for _ in range(2):
        assert session.send(percent=70).level == "defer"
        assert session.state.vars.tool_reclaim_watermark == 0
    session.send(percent=70)
    assert session.state.vars.tool_reclaim_watermark == session.state.vars.tag_counter


def editing(**settings: object) -> Session:
    """Three edits of one file, one of another, one without a path; all older than 20 messages with calls."""
    session = Session(**OPENAI, protected_tokens=4_000, context_limit=400_000, **settings).ask("go")
    big = "y" * 1_100
    for id, arguments in {
        "e1": {"filePath": "a.py", "newString": big},
        "e2": {"file_path": "a.py", "newString": "small"},
        "e3": {"path": "a.py", "newString": big},
        "f1": {"filePath": "b.py", "newString": big},
        "n1": {"newString": big},
    }.items():
        session.step(id, "done", Call(id, "edit" if id != "e2" else "write", arguments))
    session.step("s1", "x", Call("s1", "bash_status")).step(
        "k1", "x", Call("k1", "ctx_note", {"action": "read"})
    )
    session.step("k2", "x", Call("k2", "ctx_note", {"action": "write"}))
    session.step("t1", "x", Call("t1", "todowrite")).step("t2", "x", Call("t2", "todowrite"))
    return session.steps(20, 300, first=100).steps(4, 2_000, first=900).ask("on")


def test_case_58_a_superseded_edit_goes_whole_or_keeps_real_arguments() -> None:
    """Section 12, 58; design section 12, 1: never cut arguments."""
    session = editing()
    session.send()
    idle(session)
    sent = session.send()
    assert dropped(session) == {"e1", "e2", "s1", "k1", "t1"}
    assert {"e3", "f1", "n1", "k2", "t2"} <= set(call_ids(sent, session.codec))
    assert all(b"truncated" not in body for body in sent.served)
    by_id = {m.mid: m for m in session.state.path}
    for id in ("e1", "e2", "s1", "k1", "t1"):
        tag = session.tool(id)
        assert (by_id[tag.mid].body is None) is (tag.drop_mode is DropMode.FULL)
        assert tag.drop_mode is DropMode.FULL or by_id[tag.mid].body == by_id[tag.mid].raw


def test_a_superseded_edit_among_the_newest_twenty_calls_is_a_skeleton_if_small() -> None:
    session = Session(**OPENAI, protected_tokens=4_000).ask("go")
    session.step("e1", "done", Call("e1", "edit", {"path": "a", "new": "s"}))
    calls = [Call(f"e2-{i}", "edit", {"path": "a", "new": "s"}) for i in range(2)]
    session.add(session.write.assistant(calls=calls), session.write.results(*(Result(c.id) for c in calls)))
    session.steps(20, 300, first=100).steps(4, 2_000, first=900).ask("on")
    session.send()
    idle(session)
    session.send()
    assert session.tool("e1").drop_mode is DropMode.FULL


def test_without_smart_drops_nothing_is_superseded() -> None:
    session = editing(smart_drops=False)
    session.send()
    idle(session)
    session.send()
    assert dropped(session) == set()


def test_the_newest_twenty_owners_are_exempt() -> None:
    """Section 6.3."""
    session = Session(**OPENAI, protected_tokens=4_000).ask("go")
    session.step("e1", "done", Call("e1", "edit", {"path": "a"})).step(
        "e2", "x", Call("e2", "edit", {"path": "a"})
    )
    session.steps(12, 10, first=100).steps(4, 2_000, first=900).ask("on")
    session.send()
    idle(session)
    session.send()
    assert dropped(session) == set()


def test_case_41_routine_lanes_run_once_per_pressure_episode() -> None:
    """Section 12, 41: at 66 %; not again at 70 % unless the rebuild is already paid for."""
    session = Session(protected_tokens=4_000).ask("go").step("old", words(3_000), Call("old", "custom"))
    buried(session).send()
    session.queue(session.tool("old").number)
    assert session.send(percent=66).lanes == {"queued_drops": 1}
    assert session.state.vars.episode
    session.add(session.write.assistant("look", calls=[read("a"), read("b")]))
    session.add(session.write.results(Result("a"), Result("b"))).steps(4, 2_000, first=950).ask("on")
    assert session.send(percent=70).lanes == {}
    session.flush()  # an explicit request is paid
    assert session.send(percent=70).lanes.get("dedup") == 1


def test_an_episode_ends_below_the_threshold() -> None:
    session = Session().ask("go").steps(4, 2_000).ask("on")
    session.send()
    session.flush()
    session.send(percent=70)
    assert session.state.vars.episode
    session.ask("more")
    session.send(percent=50)
    assert not session.state.vars.episode and not session.state.vars.in_episode


REMINDER = "<system-reminder>mind the style</system-reminder>"


def with_reminder(text: str) -> Session:
    session = Session(protected_tokens=4_000).ask("go").ask(text)
    return buried(session)


def test_injected_text_is_taken_off_for_good() -> None:
    """Section 6.1: the rest replaces the stored source, so that a replay equals it."""
    session = with_reminder(f"{REMINDER}\nfix it")
    session.send()
    idle(session)
    sent = session.send()
    assert sent.lanes == {"injection_strip": 1}
    assert [p[2] for p in parts(session.codec, sent.served)][1] == "§2§ fix it"
    session.restart()
    session.flush()
    assert [p[2] for p in parts(session.codec, session.send().served)][1] == "§2§ fix it"


def test_a_text_of_nothing_else_becomes_the_placeholder() -> None:
    session = with_reminder(REMINDER)
    session.send()
    idle(session)
    assert [p[2] for p in parts(session.codec, session.send().served)][1] == "[dropped §2§]"


def test_case_43_a_persons_word_inside_a_reminder_stays() -> None:
    """Section 12, 43."""
    text = "<system-reminder>The user sent the following message:\nuse tabs\n</system-reminder>"
    session = with_reminder(text)
    session.send()
    idle(session)
    sent = session.send()
    assert sent.lanes == {}
    assert "use tabs" in [p[2] for p in parts(session.codec, sent.served)][1]


@pytest.mark.parametrize("marker", MARKERS[1:])
def test_a_marker_takes_its_paragraph(marker: str) -> None:
    assert strip_injected(f"{marker} do this\nand that\n\nmy words") == "my words"
    assert strip_injected(f"I saw {marker} in the log") == f"I saw {marker} in the log"


def test_newest_texts_are_left_alone() -> None:
    """Section 6.1: below the protection cutoff only."""
    session = Session().ask("go").steps(4, 3_000).ask(f"{REMINDER}\nfix it")
    session.send()
    idle(session)
    assert session.send().lanes == {}


def test_a_subagent_cleans_up_on_every_execute_pass() -> None:
    """Section 5.5."""
    session = Session(subagent=True, protected_tokens=4_000).ask("go")
    session.add(session.write.assistant("look", calls=[read("a"), read("b")]))
    session.add(session.write.results(Result("a"), Result("b")))
    buried(session).send()
    sent = session.send(percent=66)
    assert (sent.reasons, sent.lanes) == (("subagent_execute",), {"dedup": 1})
    assert result_texts(sent, session.codec)["b"].endswith("ok")
