"""How a drop is carried out, and that the choice is for good (reclaim-core sections 3 and 12)."""

from __future__ import annotations

import json

import pytest

from magiccontext.engine.lanes.drops import DROP_MODES, DropCase
from magiccontext.engine.result import NotReady
from magiccontext.engine.state import DropMode
from tests.engine.conversation import (
    Call,
    IdCodec,
    Result,
    Sent,
    Session,
    call_ids,
    parts,
    result_texts,
    with_id,
    words,
)

OPENAI = {"format": "openai-chat", "model": "openai/gpt-5"}
BIG = {"text": "x" * 2_000}


def drop(session: Session, *call_ids: str) -> Sent:
    session.queue(*(session.tool(id).number for id in call_ids))
    session.flush()
    return session.send()


def buried(session: Session, tokens: int = 2_000) -> Session:
    """Newer results, so that what came before is outside the protection window."""
    return session.steps(4, tokens, first=900).ask("on")


FALSE = DropCase(
    duplicate=False,
    cannot_remove=False,
    beside_reasoning=False,
    newest=False,
    small=False,
    emergency=False,
    strands=False,
)


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        ({}, "remove"),
        ({"newest": True, "small": True}, "skeleton"),
        ({"newest": True}, "remove"),
        ({"small": True}, "remove"),
        ({"newest": True, "small": True, "emergency": True}, "remove"),
        ({"strands": True}, "skeleton"),
        ({"strands": True, "emergency": True}, "skeleton"),
        ({"cannot_remove": True, "emergency": True}, "skeleton"),
        ({"beside_reasoning": True, "emergency": True}, "skeleton"),
        ({"duplicate": True, "newest": True, "small": True}, "remove"),
        ({"duplicate": True, "cannot_remove": True}, "skeleton"),
        ({"duplicate": True, "beside_reasoning": True}, "skeleton"),
        ({"duplicate": True, "strands": True}, "skeleton"),
    ],
)
def test_the_table(facts: dict[str, bool], outcome: str) -> None:
    """Section 3; rows 2 and 4 stop a duplicate too."""
    values = {name: getattr(FALSE, name) for name in FALSE.__slots__} | facts
    case = DropCase(**values)
    assert next(result for _, applies, result in DROP_MODES if applies(case)) == outcome


@pytest.mark.parametrize(("size", "mode"), [(1_024, DropMode.SKELETON_REAL), (1_025, DropMode.FULL)])
def test_case_12_small_newest_calls_stay_as_skeletons_for_good(size: int, mode: DropMode) -> None:
    """Section 12, 12: 1,024 string bytes keep the call, 1,025 do not; no later pass decides again."""
    session = Session(context_limit=400_000, protected_tokens=4_000).ask("go")
    session.step("c", words(500), Call("c", arguments={"command": "x" * size, "timeout": 3000}))
    buried(session)
    session.send()
    drop(session, "c")
    assert session.tool("c").drop_mode is mode
    session.steps(200, 40).ask("on")
    session.flush()
    sent = session.send()
    assert session.tool("c").drop_mode is mode
    assert ("c" in call_ids(sent, session.codec)) is (mode is DropMode.SKELETON_REAL)


def test_the_newest_twenty_are_counted_once_for_all_drops_of_a_pass() -> None:
    """Section 3: a drop never lets an older call into the window of the same batch."""
    session = Session(context_limit=400_000, protected_tokens=4_000).ask("go").steps(30, 1_500).ask("on")
    session.send()
    drop(session, *(f"c{i}" for i in range(26)))
    modes = [session.tool(f"c{i}").drop_mode for i in range(26)]
    assert modes == [DropMode.FULL] * 10 + [DropMode.SKELETON_REAL] * 16


@pytest.mark.parametrize("format", ["anthropic", "openai-chat"])
def test_case_13_a_kept_call_has_its_real_arguments(format: str) -> None:
    """Section 12, 13: never clipped; models copy what they see."""
    session = Session(format, protected_tokens=4_000).ask("go")
    session.step("c", words(500), Call("c", arguments={"command": "ls -la", "n": [1, 2.50]}))
    buried(session).send()
    before = session.state.path[1].body
    sent = drop(session, "c")
    number = session.tool("c").number
    assert session.state.path[1].body == before == session.raw[1]
    assert result_texts(sent, session.codec)["c"] == f"[dropped §{number}§]"


@pytest.mark.parametrize("format", ["anthropic", "openai-chat"])
def test_case_14_the_last_result_stays_as_a_skeleton(format: str) -> None:
    """Section 12, 14: else the request would end with an assistant turn."""
    session = Session(format, model="openai/gpt-5", context_limit=400_000).ask("go")
    session.steps(25, 10).step("c", words(3_000), Call("c", arguments=BIG), text="looking")
    session.send()
    session.queue(session.tool("c").number)
    # In an emergency neither the window nor the newest-20 row holds the result.
    sent = session.send(percent=96)
    assert session.tool("c").drop_mode is DropMode.SKELETON_REAL
    assert result_texts(sent, session.codec)["c"].startswith("[dropped §")


def test_of_parallel_results_at_the_end_one_stays() -> None:
    session = Session("openai-chat", model="openai/gpt-5").ask("go")
    calls = [Call(f"p{i}", arguments=BIG) for i in range(3)]
    session.add(session.write.assistant("looking", calls=calls))
    session.add(session.write.results(*(Result(f"p{i}", words(3_000)) for i in range(3))))
    session.send()
    session.queue(*(session.tool(f"p{i}").number for i in range(3)))
    session.send(percent=96)
    modes = [session.tool(f"p{i}").drop_mode for i in range(3)]
    assert modes == [DropMode.FULL, DropMode.FULL, DropMode.SKELETON_REAL]


@pytest.mark.parametrize(
    ("model", "mode"),
    [
        ("some-model", DropMode.SKELETON_REAL),  # unknown provider
        ("anthropic/claude-sonnet-4-5", DropMode.SKELETON_REAL),
        ("bedrock/anthropic.claude-3", DropMode.SKELETON_REAL),
        ("openai/gpt-5", DropMode.FULL),
    ],
)
@pytest.mark.parametrize("format", ["anthropic", "openai-chat"])
def test_case_15_beside_thinking_a_call_stays(model: str, mode: DropMode, format: str) -> None:
    """Section 12, 15: on Anthropic routes, and where the provider is unknown."""
    session = Session(format, model, protected_tokens=4_000).ask("go")
    session.add(session.write.assistant("so", calls=[Call("c", arguments=BIG)], thinking="hm"))
    session.add(session.write.results(Result("c", words(500))))
    buried(session).send()
    drop(session, "c")
    assert session.tool("c").drop_mode is mode


def test_thinking_directly_before_the_call_counts_too() -> None:
    session = Session(protected_tokens=4_000).ask("go").add(Session().write.assistant("so", thinking="hm"))
    session.step("c", words(500), Call("c", arguments=BIG))
    buried(session).send()
    drop(session, "c")
    assert session.tool("c").drop_mode is DropMode.SKELETON_REAL


def test_case_16_a_skeleton_loses_its_images() -> None:
    """Section 12, 16."""
    session = Session(protected_tokens=4_000).ask("go").step("c", Result("c", words(500), images=2))
    buried(session).send()
    sent = drop(session, "c")
    tag = session.tool("c")
    assert tag.drop_mode is DropMode.SKELETON_STRIPPED
    block = json.loads(sent.served[2])["content"][0]
    assert block["content"] == [{"type": "text", "text": f"[dropped §{tag.number}§]"}]
    assert sent.served[1] == session.raw[1]


def test_a_host_that_cannot_remove_gets_skeletons() -> None:
    session = Session(protected_tokens=4_000).ask("go").step("c", words(500), Call("c", arguments=BIG))
    buried(session)
    session.send(can_remove=False)
    drop(session, "c")
    assert session.tool("c").drop_mode is DropMode.SKELETON_REAL


def test_case_11_a_dropped_text_is_the_same_placeholder_whatever_the_host_sends() -> None:
    """Section 12, 11."""
    session = Session(codec=IdCodec())
    write = session.write
    session.raw = [with_id("a", write.user("secret")[0]), with_id("b", write.user("on")[0])]
    session.send()
    session.queue(1)
    session.flush()
    first = session.send()
    session.raw[0] = with_id("a", write.user("another secret")[0])
    assert session.send().served == first.served
    session.flush()
    again = session.send()
    assert again.served == first.served
    assert "[dropped §1§]" in [text for _, _, text, _ in parts(session.codec, again.served)]


def test_a_dropped_assistant_text_takes_its_reasoning_along_on_anthropic() -> None:
    """Section 3, text; elsewhere the reasoning lane owns it."""
    for model, thinks in (("anthropic/claude-sonnet-4-5", False), ("vertex/claude-sonnet-4-5", True)):
        session = Session(model=model).ask("go").add(Session().write.assistant("so", thinking="hm")).ask("on")
        session.send()
        session.queue(session.text_tag(1).number)
        session.flush()
        assert (b"thinking" in session.send().served[1]) is thinks


@pytest.mark.parametrize("format", ["anthropic", "openai-chat"])
def test_a_message_emptied_by_drops_leaves(format: str) -> None:
    """Section 3: call and result together, and the messages that held nothing else."""
    session = Session(format, "openai/gpt-5", protected_tokens=4_000).ask("go")
    session.step("c", words(500), Call("c", arguments=BIG))
    buried(session).send()
    sent = drop(session, "c")
    assert sent.bodies["m2"] is None and sent.bodies["m3"] is None
    assert len(sent.served) == len(session.raw) - 2


def test_a_persons_word_beside_a_dropped_result_stays() -> None:
    """Design section 12, 2: a real user message is never emptied."""
    session = Session(protected_tokens=4_000).ask("go")
    session.add(session.write.assistant(calls=[Call("c", arguments=BIG)]))
    session.add(session.write.user("stop that", results=[Result("c", words(500))]))
    buried(session).send()
    sent = drop(session, "c")
    assert [text for _, _, text, _ in parts(session.codec, [sent.bodies["m3"] or b""])] == ["§3§ stop that"]


def test_of_parallel_calls_one_may_go() -> None:
    session = Session(**OPENAI, protected_tokens=4_000).ask("go")
    session.add(session.write.assistant(calls=[Call("a", arguments=BIG), Call("b", arguments=BIG)]))
    session.add(session.write.results(Result("a", words(500)), Result("b", "kept")))
    buried(session).send()
    sent = drop(session, "a")
    assert "a" not in call_ids(sent, session.codec) and "b" in call_ids(sent, session.codec)
    assert next(iter(result_texts(sent, session.codec))) == "b"


def test_a_rewind_onto_a_result_dropped_whole_is_refused_not_sent() -> None:
    """Section 9.1, ``assistant_terminal_retry``: the frozen choice stays, so the request has no end yet."""
    session = Session(protected_tokens=4_000).ask("go")
    session.step("c", words(500), Call("c", arguments=BIG), text="looking")
    buried(session).send()
    drop(session, "c")
    session.raw = session.raw[:3]
    with pytest.raises(NotReady) as error:
        session.send()
    assert error.value.code == "assistant_terminal_retry"
    session.ask("and now?")
    assert [text for _, _, text, _ in parts(session.codec, session.send().served)][1:] == [
        "§2§ looking",
        f"§{max(session.state.tags)}§ and now?",
    ]
