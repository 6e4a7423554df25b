"""What is served, in tokens and bytes: kept as it goes, equal to a count from nothing (reclaim-core 13)."""

from __future__ import annotations

import pytest

from magiccontext.engine.tokens import IMAGE_TOKENS_UNKNOWN
from tests.engine.conversation import Call, Result, Session, words

BIG = {"text": "x" * 2_000}


def agree(session: Session) -> None:
    vars = session.state.vars
    assert (vars.wire_tokens, vars.raw_bytes, vars.served_bytes) == session.totals()
    assert vars.raw_bytes == sum(len(m.raw) for m in session.state.path)
    assert vars.served_bytes == sum(len(m.body or b"") for m in session.state.path)


def test_it_works() -> None:
    session = Session().ask(words(100))
    session.send()
    assert session.state.vars.wire_tokens == 104
    session.add(session.write.assistant(words(50), calls=[Call("a", arguments={})], thinking=words(30)))
    session.add(session.write.results(Result("a", words(20), images=1)))
    session.send()
    assert session.state.vars.wire_tokens == 104 + 84 + 24 + IMAGE_TOKENS_UNKNOWN
    agree(session)


def test_a_file_costs_the_flat_rate() -> None:
    session = Session().add(Session().write.user("see", images=2))
    session.send()
    assert session.state.vars.wire_tokens == 4 + 2 * IMAGE_TOKENS_UNKNOWN


def test_drops_come_off() -> None:
    session = Session(protected_tokens=4_000).ask("go").step("c", words(1_000), Call("c", arguments=BIG))
    session.steps(4, 2_000, first=900).ask("on")
    session.send()
    before = session.state.vars.wire_tokens
    session.queue(session.tool("c").number)
    session.flush()
    session.send()
    tag = session.tool("c")
    assert before - session.state.vars.wire_tokens == tag.tokens + 2 * 4
    agree(session)


def test_a_skeleton_keeps_its_arguments_in_the_count() -> None:
    session = Session(protected_tokens=4_000).ask("go").step("c", words(1_000))
    session.steps(4, 2_000, first=900).ask("on")
    session.send()
    before = session.state.vars.wire_tokens
    session.queue(session.tool("c").number)
    session.flush()
    session.send()
    assert 950 < before - session.state.vars.wire_tokens < 1_000
    agree(session)


@pytest.mark.parametrize("format", ["anthropic", "openai-chat"])
def test_totals_agree_through_rewinds_edits_drops_and_raw_sending(format: str) -> None:
    session = Session(format, protected_tokens=4_000).ask("go")
    session.step("c", words(1_000), Call("c", arguments=BIG)).steps(4, 2_000, first=900).ask("on")
    session.send()
    agree(session)
    session.queue(session.tool("c").number, session.text_tag(0).number)
    session.flush()
    session.send()
    agree(session)
    full = list(session.raw)
    for array in (full[:5], [*session.write.user("summary"), *full[5:]], full):
        session.raw = list(array)
        session.ask("more")
        session.send()
        agree(session)
    session.send(raw_from=0)
    agree(session)
    session.restart()
    session.ask("after").send()
    agree(session)


def test_a_message_sent_raw_counts_whole_although_it_was_dropped() -> None:
    """The host fell back to its own array: what was dropped is in the window again."""
    session = Session().ask(words(1_000)).ask("on")
    session.send()
    session.queue(1)
    session.flush()
    session.send()
    small = session.state.vars.wire_tokens
    session.add(session.write.assistant("answer")).ask("more")
    session.send(raw_from=0)
    assert session.state.vars.wire_tokens > small + 900
    agree(session)
