"""What leaves with the pair that stands for it, and what comes back (history-render sections 7 and 11)."""

from __future__ import annotations

import pytest

from magiccontext.engine.state import TagStatus
from magiccontext.engine.transcript import Kind
from tests.engine.conversation import Anthropic, Call, Result, Sent, Session, parts
from tests.engine.head_histories import TURN, HeadSession, served_texts, working


def summarised(turns: int = 4, through: int = TURN - 1, **options: object) -> HeadSession:
    """The first messages, through that index, are a served summary."""
    session = working(turns, **options)
    session.send()
    session.publish(through)
    session.send(percent=70)
    assert session.cut_count() == through + 1
    return session


def rebuild(session: HeadSession) -> Sent:
    session.flush()
    return session.send()


def arcs(sent: Sent, session: Session) -> tuple[list[str], list[str]]:
    found = parts(session.codec, sent.served)
    calls = [call for _, kind, _, call in found if kind is Kind.TOOL_CALL]
    return calls, [call for _, kind, _, call in found if kind is Kind.TOOL_RESULT]


@pytest.mark.parametrize("format", ["anthropic", "openai-chat"])
def test_it_works(format: str) -> None:
    session = summarised(format=format, model="openai/gpt-5")
    sent = session.ask("more").send()
    assert sent.level == "defer" and "turn 0" not in served_texts(sent, session)
    assert session.state.vars.wire_tokens == session.wire_tokens()


def test_a_leading_system_message_is_never_cut() -> None:
    """Design section 12 item 6."""
    session = HeadSession("openai-chat", "openai/gpt-5")
    session.raw.append(session.write.system("be good"))  # type: ignore[union-attr]
    session.ask("one").step("a").add(session.write.assistant("done")).ask("two").send()
    session.publish(4)
    sent = session.send(percent=70)
    assert session.cut_count() == 4 and b"be good" in sent.served[0]


def test_case_44_a_boundary_before_the_hosts_window_is_success() -> None:
    """Section 11, 44: the host no longer sends what the summary covers; nothing else happens."""
    session = summarised()
    before = session.send().served
    session.raw = session.raw[TURN:]
    sent = session.send()
    assert (sent.level, sent.served) == ("defer", before)
    rebuild(session)
    assert session.state.vars.degraded_cuts == 0 and session.send().served == before


def test_case_44_a_boundary_missing_inside_the_window_sends_everything_and_heals_on_a_rebuild() -> None:
    """Section 11, 44; section 7, "Heal": two degraded rebuilds, then the newest end that is there."""
    session = summarised()
    session.publish(2 * TURN - 1)
    session.send(percent=70)
    whole = list(session.raw)
    del session.raw[2 * TURN - 1]
    sent = session.send()
    assert sent.level == "defer" and session.cut_count() == 0 and "turn 0" in served_texts(sent, session)
    rebuild(session)
    assert session.cut_count() == 0
    rebuild(session)
    assert session.cut_count() == TURN
    healed = session.send().served
    assert rebuild(session).served == healed
    session.raw = whole
    rebuild(session)
    assert session.cut_count() == 2 * TURN


def test_a_boundary_that_stays_away_ends_in_cutting_nothing() -> None:
    """Section 7, "Heal": no end of any compartment is in the array."""
    session = summarised()
    del session.raw[TURN - 1]
    session.send()
    for _ in range(3):
        rebuild(session)
        session.restart()
    assert session.state.head is not None and session.state.head.boundary is None
    assert session.state.vars.degraded_cuts == 0 and session.cut_count() == 0


def test_a_publication_starts_the_count_of_degraded_rebuilds_anew() -> None:
    """Section 7: the count resets when compartments change."""
    session = summarised(turns=5)
    lost = session.raw.pop(TURN - 1)
    session.send()
    rebuild(session)
    assert session.state.vars.degraded_cuts == 1
    session.store(structural_mutation_id=1)
    rebuild(session)
    assert session.state.vars.degraded_cuts == 1 and lost not in session.raw


@pytest.mark.parametrize("rewound", [TURN - 2, 3, 1])
def test_a_rewind_behind_the_boundary_brings_back_what_is_visible(rewound: int) -> None:
    """Section 7: the summary reaches past the common point, so nothing of the array is left out."""
    session = summarised()
    session.raw = session.raw[:rewound]
    sent = session.ask("otherwise").send()
    assert sent.level == "defer" and session.cut_count() == 0
    assert len(sent.served) == rewound + 1 and "turn 0" in served_texts(sent, session)
    assert all(t.status is TagStatus.ACTIVE for m in session.state.path for t in session.state.tags_of(m.mid))
    rebuild(session)
    assert session.cut_count() == 0 and session.state.head is not None
    session.clear(0)
    session.send()
    assert "Work 0" not in "".join(session.head)


def test_a_rewind_before_the_boundary_changes_nothing_of_the_front() -> None:
    session = summarised()
    before = session.send().served
    session.raw = session.raw[: 2 * TURN]
    sent = session.ask("otherwise").send()
    assert sent.level == "defer" and sent.served[:TURN] == before[:TURN] and session.cut_count() == TURN


def test_a_rewind_that_is_undone_cuts_again() -> None:
    session = summarised()
    before, whole = session.send().served, list(session.raw)
    session.raw = session.raw[:3]
    session.ask("otherwise").send()
    session.raw = whole
    sent = session.send()
    assert sent.level == "defer" and session.cut_count() == 0  # what was seen whole waits for a rebuild
    assert rebuild(session).served == before


def test_what_the_provider_has_seen_leaves_only_on_a_rebuild() -> None:
    """Section 6: a rearranged array without permission never loses a message that was served."""
    session = summarised()
    taken = session.raw.pop(TURN - 1)
    uncut = session.send().served
    session.raw.insert(TURN - 1, taken)
    sent = session.send()
    assert sent.level == "defer" and sent.served[: TURN - 1] == uncut[: TURN - 1]
    rebuild(session)
    assert session.cut_count() == TURN


def test_tags_of_what_left_are_compacted_and_their_marks_are_gone() -> None:
    """Section 7; reclaim-core 1.5: together, and back again with the messages."""
    session = working()
    session.send()
    gone, kept = session.tool("t0s0"), session.tool("t2s0")
    session.queue(gone.number, kept.number)
    session.publish(TURN - 1)
    session.send(percent=70)
    assert session.tool("t0s0").status is TagStatus.COMPACTED and list(session.state.pending) == [kept.number]
    session.restart()
    session.clear(0)
    session.send()
    assert session.tool("t0s0").status is TagStatus.ACTIVE


def test_case_46_a_call_id_used_again_survives_the_cut() -> None:
    """Section 11, 46."""
    session = HeadSession().ask("one").step("same", "old").ask("two").step("same", "new").ask("three")
    session.send()
    session.publish(2)
    sent = session.send(percent=70)
    assert arcs(sent, session) == (["same"], ["same"]) and "new" in served_texts(sent, session)
    assert "old" not in served_texts(sent, session)


def test_case_47_a_newest_compartment_without_an_end_does_not_move_the_boundary() -> None:
    """Section 11, 47: nor does one that no longer resolves."""
    session = summarised()
    session.publish(2 * TURN - 1, end_mid="")
    sent = session.send(percent=70)
    assert sent.level == "soft" and "all of 1;" in session.head[1] and session.cut_count() == TURN


@pytest.mark.parametrize("format", ["anthropic", "openai-chat"])
def test_hosts_case_05_a_result_whose_call_was_cut_leaves_with_it(format: str) -> None:
    """Hosts section 11, 5: whatever a compartment claims to end at."""
    session = HeadSession(format, "openai/gpt-5").ask("one")
    session.add(session.write.assistant("both", calls=[Call("a"), Call("b")]))
    session.add(session.write.results(Result("a")), session.write.results(Result("b")))
    session.add(session.write.assistant("done")).ask("two").send()
    session.publish(1)
    sent = session.send(percent=70)
    assert arcs(sent, session) == ([], []) and sent.served
    assert session.ask("three").send().level == "defer"
    assert arcs(rebuild(session), session) == ([], [])


def test_what_a_cut_tore_is_whole_again_when_the_boundary_is_lost() -> None:
    """Section 7: a pass without permission may only give back; call and results come back together."""
    session = HeadSession().ask("one").add(Anthropic().assistant(calls=[Call("a"), Call("b")]))
    session.add(session.write.results(Result("a")), session.write.results(Result("b")))
    session.add(session.write.assistant("done")).ask("two").send()
    session.publish(2)
    assert arcs(session.send(percent=70), session) == ([], [])
    session.raw[2] = session.write.results(Result("a", "other"))[0]
    sent = session.send()
    assert sent.level == "defer" and arcs(sent, session) == (["a", "b"], ["a", "b"])
    assert arcs(rebuild(session), session) == (["a", "b"], ["a", "b"])


def test_a_message_that_is_covered_in_part_stays_whole() -> None:
    """Section 7: the compartment ends partway."""
    session = working()
    session.send()
    session.publish(TURN - 1, end_block=0)
    sent = session.send(percent=70)
    assert session.cut_count() == TURN - 1 and "done 0" in served_texts(sent, session)


def test_the_newest_prompt_is_never_cut() -> None:
    """Hosts section 2.2 item 7: and no arc is torn for it; behind a newer prompt the rest leaves."""
    session = HeadSession().ask("one").step("a")
    session.send()
    session.publish(2)
    sent = session.send(percent=70)
    assert "one" in served_texts(sent, session) and arcs(sent, session) == (["a"], ["a"])
    session.add(session.write.assistant("done")).ask("two")
    assert session.send().level == "defer" and session.cut_count() == 0
    rebuild(session)
    assert session.cut_count() == 3


def test_equal_bytes_move_the_boundary_only_on_a_rebuild() -> None:
    """Section 6: compartments without content; by a refresh and by a fold."""
    empty = {"title": "", "p1": None, "p2": None, "p3": None, "p4": None}
    session = working()
    session.send()
    session.publish(TURN - 1, **empty)
    assert session.send(percent=70).result.permitted.word == "defer"
    session.store(memory_epoch=1)
    sent = session.send(percent=70)
    assert sent.result.changes.folded and sent.level == "defer" and session.cut_count() == 0
    assert session.state.published
    rebuild(session)
    assert session.cut_count() == TURN and not session.state.published


def test_a_message_sent_raw_leaves_with_the_rebuild_and_brings_no_live_tag() -> None:
    """Hosts section 10.2 ``raw_from``: it gets its number on the rebuild that takes it away."""
    session = working()
    session.send(raw_from=TURN)
    session.publish(2 * TURN - 1)
    session.send(percent=70)
    assert session.cut_count() == 2 * TURN
    of_cut = [t for m in session.state.path[: 2 * TURN] for t in session.state.tags_of(m.mid)]
    assert of_cut and all(t.status is TagStatus.COMPACTED for t in of_cut)


def test_an_edit_of_what_is_cut_is_no_change() -> None:
    """Hosts section 11, 54: the raw message is stored anew, nothing served differs, its tags stay."""
    session = summarised()
    before = session.send().served
    session.raw[0] = session.write.user("turn 0, edited")[0]
    sent = session.send()
    assert (sent.level, sent.served) == ("defer", before)
    assert all(t.status is TagStatus.COMPACTED for t in session.state.tags_of(session.state.path[0].mid))


def test_a_summary_frees_what_the_emergency_would_have_dropped() -> None:
    """Reclaim-core section 7: what a lane may take is what is still there."""
    session = HeadSession(context_limit=40_000, protected_tokens=4_000, smart_drops=False).ask("one")
    session.steps(20, 1_000).add(session.write.assistant("done")).ask("two")
    session.steps(7, 1_000, first=50).ask("three").send()
    session.publish(41)
    sent = session.send(used=35_000)
    assert session.cut_count() == 42 and sent.reasons == ("force_band", "m1_delta")
    assert "emergency_drop" not in sent.lanes
