"""Tag numbers: what gets one, whose it is, and that it is for good (reclaim-core sections 1 and 12)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magiccontext.engine.state import SessionState, TagType
from magiccontext.engine.transcript import InvalidMessage
from tests.engine.conversation import Call, Result, Session, parts, result_texts, words


def kinds(session: Session) -> dict[int, str]:
    return {n: f"{t.type}:{t.call_id or t.part}" for n, t in session.state.tags.items()}


def test_it_works() -> None:
    session = Session().ask("hello").step("c1", text="I look").ask("thanks")
    sent = session.send()
    assert kinds(session) == {1: "message:0", 2: "message:0", 3: "tool:c1", 4: "message:0"}
    said = [text for _, _, text, _ in parts(session.codec, sent.served)]
    assert said == ["§1§ hello", "§2§ I look", "", "§3§ ok", "§4§ thanks"]


def test_case_01_a_call_id_used_again_is_another_call() -> None:
    """Section 12, 1: two tags with separate owners; dropping one leaves the other."""
    session = Session(protected_tokens=4_000).ask("go")
    session.step("same", "first").step("same", "second").steps(22, 300)
    session.send()
    first, second = (t for t in session.state.tags.values() if t.call_id == "same")
    assert (first.mid, second.mid) == ("m2", "m4")
    session.queue(first.number)
    session.flush()
    sent = session.send()
    assert sent.bodies["m3"] is None
    assert b"second" in (sent.bodies["m5"] or b"")


def test_hosts_case_04_one_call_id_in_two_turns_is_two_arcs() -> None:
    """Hosts section 11: arcs are keyed by owning message and call id."""
    session = Session("openai-chat").ask("go").step("same", "first").ask("again").step("same", "second")
    session.send()
    owners = [link.owner for m in session.state.path for link in m.links]
    assert owners == ["m2", "m2", "m5", "m5"]


def test_case_03_a_deleted_number_is_never_given_again() -> None:
    """Section 12, 3: tags 1 to 9, the message with tag 9 deleted, restart: the next is 10."""
    session = Session()
    for index in range(9):
        session.ask(f"question {index}")
    session.send()
    state = session.state
    session.state = SessionState(
        state.vars,
        [m for m in state.messages.values() if m.mid != "m9"],
        [m.mid for m in state.path if m.mid != "m9"],
        None,
        [t for t in state.tags.values() if t.number != 9],
    )
    session.raw.pop()
    session.ask("another").send()
    assert max(session.state.tags) == 10


def test_the_counter_is_the_highest_of_all_sources() -> None:
    """Section 1.3: stored counter or highest stored tag, whichever is more."""
    session = Session().ask("one").ask("two")
    session.send()
    session.state.vars = replace(session.state.vars, tag_counter=0)
    session.ask("three").send()
    assert sorted(session.state.tags) == [1, 2, 3]


def test_parallel_calls_are_numbered_in_the_order_of_their_results() -> None:
    session = Session().ask("go").add(Session().write.assistant(calls=[Call("a"), Call("b")]))
    session.add(session.write.results(Result("b", "second"), Result("a", "first")))
    session.send()
    assert kinds(session) == {1: "message:0", 2: "tool:b", 3: "tool:a"}
    assert [session.tool("a").part, session.tool("b").part] == [0, 1]


def test_a_call_gets_its_number_when_its_result_is_there() -> None:
    """Section 1.1: a pending call has no tag."""
    session = Session().ask("go").add(Session().write.assistant(calls=[Call("a")]))
    session.send()
    assert kinds(session) == {1: "message:0"}
    session.add(session.write.results(Result("a", "done")))
    session.send()
    assert kinds(session)[2] == "tool:a"
    assert session.tool("a").mid == "m2"


def test_a_failed_call_is_finished() -> None:
    session = Session().ask("go").step("a", Result("a", "no such file", error=True))
    session.send()
    assert session.tool("a").token_count == 3


def test_a_result_without_output_has_no_number() -> None:
    session = Session().ask("go").step("a", Result("a", None))
    sent = session.send()
    assert kinds(session) == {1: "message:0"}
    assert sent.served[2] == session.raw[2]


def test_blank_text_has_no_number() -> None:
    session = Session().ask("go").add(Session().write.assistant("  ", calls=[Call("a")]))
    session.add(session.write.results(Result("a")))
    session.send()
    assert kinds(session) == {1: "message:0", 2: "tool:a"}


def test_files_have_numbers_of_their_own() -> None:
    session = Session().add(Session().write.user("look", images=2))
    session.send()
    assert kinds(session) == {1: "message:0", 2: "file:1", 3: "file:2"}
    assert [t.rank for t in session.state.tags.values()] == [0, 0, 1]


def test_sizes_are_measured_once() -> None:
    """Section 1.3: output, arguments and the message's reasoning, at insert."""
    session = Session().ask("go")
    session.add(
        session.write.assistant("hello you", calls=[Call("a", "read", {"path": "x" * 40})], thinking="h" * 80)
    )
    session.add(session.write.results(Result("a", "y" * 400, images=1)))
    session.send()
    text, tool = session.text_tag(1), session.tool("a")
    assert (text.token_count, text.reasoning_token_count) == (2, 20)
    assert (tool.token_count, tool.input_token_count) == (100 + 1_200, 51 // 4)
    assert (tool.input_string_bytes, tool.attachments, tool.tool_name) == (40, 1, "read")


def test_a_second_result_of_one_call_follows_the_newest_call() -> None:
    """Section 1.2, rule 4: the call was answered already; there is one tag, and a drop takes both."""
    session = Session("openai-chat", model="openai/gpt-5", protected_tokens=4_000).ask("go")
    session.step("a", "one", Call("a", arguments={"text": "x" * 2_000}))
    session.add(session.write.results(Result("a", "two"))).steps(4, 2_000).ask("on")
    session.send()
    assert len([t for t in session.state.tags.values() if t.call_id == "a"]) == 1
    session.queue(session.tool("a").number)
    session.flush()
    assert "a" not in result_texts(session.send(), session.codec)


def test_a_result_is_paired_with_the_oldest_open_call() -> None:
    """Section 1.2, rule 2: first in, first out."""
    session = Session("openai-chat").ask("go")
    for _ in range(2):
        session.add(session.write.assistant(calls=[Call("a")]))
    session.add(session.write.results(Result("a", "first")), session.write.results(Result("a", "second")))
    session.send()
    assert [m.links[0].owner for m in session.state.path[3:]] == ["m2", "m3"]


@pytest.mark.parametrize("format", ["anthropic", "openai-chat"])
def test_a_result_before_its_call_is_refused_with_its_place(format: str) -> None:
    """Hosts section 2.1."""
    session = Session(format).ask("go")
    session.add(session.write.results(Result("a")), session.write.assistant(calls=[Call("a")]))
    with pytest.raises(InvalidMessage) as error:
        session.send()
    assert error.value.field == "messages[1].content[0]"


def test_a_result_whose_call_the_host_took_away_is_refused() -> None:
    session = Session().ask("go").step("a").ask("on")
    session.send()
    session.raw.pop(1)
    with pytest.raises(InvalidMessage) as error:
        session.send()
    assert error.value.field == "messages[1].content[0]"


def test_without_the_tool_tags_are_kept_but_not_shown() -> None:
    """Section 1.4."""
    session = Session().ask("hello").step("a")
    sent = session.send(reduce_callable=False)
    assert sent.served == session.raw
    assert len(session.state.tags) == 2


def test_the_verdict_stays() -> None:
    session = Session().ask("hello")
    session.send(reduce_callable=True)
    session.ask("more")
    assert "§2§ more".encode() in session.send(reduce_callable=False).served[1]


def test_without_a_user_message_nothing_is_decided() -> None:
    session = Session("openai-chat")
    session.raw = [session.write.system("be kind")]
    assert session.send(reduce_callable=False).served == session.raw
    assert session.state.vars.reduce_verdict is None
    session.ask("hello")
    session.send()
    assert session.state.vars.reduce_verdict is True


def test_the_start_of_an_answer_has_nothing_before_it() -> None:
    """The model goes on from its last character; also on a rebuild, and when it comes back."""
    session = Session().ask("a poem").add(Session().write.assistant("Roses"))
    assert session.send().served[1] == session.raw[1]
    session.flush()
    assert session.send().served[1] == session.raw[1]
    old = list(session.raw)
    session.raw = old[:1]
    session.send()
    session.raw = old
    assert session.send().served[1] == session.raw[1]


def test_system_messages_have_no_number() -> None:
    """Design section 12, 6."""
    session = Session("openai-chat")
    session.raw = [session.write.system(words(10)), *session.write.user("hello")]
    sent = session.send()
    assert sent.served[0] == session.raw[0]
    assert [t.type for t in session.state.tags.values()] == [TagType.MESSAGE]
