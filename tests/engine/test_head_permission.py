"""What the head is to the one permission of a pass (reclaim-core sections 5.2, 5.3, 5.5 and 12)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magiccontext.engine.head.m1 import PLACEHOLDER
from magiccontext.engine.head.model import ProjectDocs
from magiccontext.engine.request import HistorianFacts
from magiccontext.engine.result import Outcome
from magiccontext.engine.state import TagStatus
from tests.engine.conversation import Call, Result, words
from tests.engine.head_histories import TURN, HeadSession, working

EMPTY = dict.fromkeys(("p1", "p2", "p3", "p4")) | {"title": ""}
RUNNING = HistorianFacts(running=True)
HAIKU = "anthropic/claude-haiku-4-5"
DOCS = ProjectDocs((("STRUCTURE.md", "rooms"),))


def worked() -> HeadSession:
    """A turn to summarise, then an old result that is marked and may be dropped, and newer ones."""
    session = HeadSession(protected_tokens=4_000)
    session.ask("first").add(session.write.assistant("done")).ask("go").step("old", words(3_000))
    session.steps(4, 2_000, first=900).ask("on")
    session.send()
    session.queue(session.tool("old").number)
    return session


def test_case_18_a_refresh_that_renders_the_same_bytes_is_a_defer_pass() -> None:
    """Section 12, 18: consumable, but of compartments without content; the mark stays queued."""
    session = worked()
    before = session.send().served
    session.publish(1, **EMPTY)
    sent = session.send(percent=70, historian=replace(RUNNING, running=False, can_fire=True))
    assert (sent.level, sent.result.permitted.word, sent.reasons) == ("defer", "defer", ())
    assert sent.served == before and session.state.pending and session.state.published


def test_case_18_a_memory_alone_rides_and_never_drives() -> None:
    """Section 12, 18: execute pass, nothing new but a memory; it comes with whatever rebuilds next."""
    session = working()
    session.send()
    session.remember("news")
    assert session.send(percent=70).level == "defer" and session.head[1] == PLACEHOLDER
    session.flush()
    sent = session.send(percent=70)
    assert (sent.level, sent.reasons) == ("soft", ("explicit_flush",)) and "news" in session.head[1]


def test_a_publication_below_the_threshold_waits_and_in_the_force_band_does_not() -> None:
    """Section 5.2, "consumable"."""
    session = working()
    session.send()
    session.publish(TURN - 1)
    assert session.send(percent=64).level == "defer" and session.state.published
    assert session.send(percent=88).level == "soft" and not session.state.published


@pytest.mark.parametrize("reason", ["epoch", "policy"])
def test_case_19_a_fold_that_leaves_the_prefix_opens_no_lane(reason: str) -> None:
    """Section 12, 19."""
    session = worked()
    if reason == "epoch":
        session.store(memory_epoch=1)
    else:
        session.settings = replace(session.settings, memory_budget=5_000)
    sent = session.send(percent=50)
    assert sent.result.changes.folded and (sent.level, sent.lanes) == ("defer", {})
    assert session.state.pending and not session.send(percent=50).result.changes.folded


def test_case_20_a_fold_that_lost_its_race_is_nowhere() -> None:
    """Section 12, 20: the stored pair is replayed, marks and signals are pending; then it is done once."""
    session = worked()
    head, stored = session.head, session.state.head
    session.publish(1)
    session.store(docs=DOCS, memory_epoch=1)
    lost = session.run()
    assert lost.changes.folded and lost.level.word == "hard" and lost.changes.published_taken
    assert session.head == head and session.state.head is stored
    assert session.state.published and session.state.pending
    again = session.run()
    assert (again.changes.head, again.changes.forms) == (lost.changes.head, lost.changes.forms)


def test_case_21_beside_a_running_historian_m1_is_not_even_prepared() -> None:
    """Section 12, 21: primary at 70 %, new content for m[1]; one veto for all lanes."""
    session = worked()
    head, stored = session.head, session.state.head
    session.publish(1)
    session.remember("news")
    session.historian = RUNNING
    session.flush("request")
    sent = session.send(percent=70)
    assert (sent.level, sent.lanes) == ("defer", {}) and session.head == head
    assert session.state.head == stored and session.state.published and session.state.vars.flush == "request"


def test_case_22_a_switched_model_folds_beside_a_running_historian_and_takes_the_queue() -> None:
    """Section 12, 22."""
    session = worked()
    session.store(docs=DOCS)
    session.historian, session.model = RUNNING, HAIKU
    sent = session.send()
    assert (sent.level, sent.reasons) == ("hard", ("model_change",)) and "rooms" in session.head[0]
    assert sent.lanes["queued_drops"] == 1 and not session.state.pending


@pytest.mark.parametrize("news", [False, True])
def test_case_23_an_explicit_flush_drains_beside_a_running_historian_and_keeps_m0(news: bool) -> None:
    """Section 12, 23; section 5.2: it never folds, whatever else is new."""
    session = worked()
    m0 = session.head[0]
    session.store(docs=DOCS)
    if news:
        session.remember("news")
    session.historian = RUNNING
    session.flush()
    sent = session.send(percent=50)
    assert sent.lanes["queued_drops"] == 1 and session.head[0] == m0
    assert sent.level == ("soft" if news else "soft_plus") and ("news" in session.head[1]) == news


def read(id: str) -> Call:
    return Call(id, "read", {"filePath": "a.py"})


def test_case_41_a_fold_pays_for_the_routine_lanes() -> None:
    """Section 12, 41: they ran in this episode; not again unpaid, but with a fold that loses the prefix."""
    session = worked()
    session.flush()
    session.send(percent=66)
    assert session.state.vars.episode
    session.add(session.write.assistant("look", calls=[read("a"), read("b")]))
    session.add(session.write.results(Result("a"), Result("b"))).steps(4, 2_000, first=950).ask("on")
    assert session.send(percent=70).lanes == {}
    session.store(docs=DOCS, memory_epoch=1)
    sent = session.send(percent=70)
    assert (sent.level, sent.reasons) == ("hard", ("project_memory_epoch",)) and sent.lanes.get("dedup") == 1


def test_a_refused_pass_leaves_pair_boundary_and_signal() -> None:
    """Section 5.2: a pass that ends in a refusal consumes nothing (section 8.4)."""
    session = working()
    session.send()
    session.publish(TURN - 1)
    before = (session.state.head, session.head, session.cut_count())
    session.ask(words(400_000))
    refused = session.send()
    assert refused.result.outcome is Outcome.REFUSE and refused.result.changes.head is None
    assert (session.state.head, session.head, session.cut_count()) == before and session.state.published
    session.raw.pop()
    assert session.send(percent=70).level == "soft" and session.cut_count() == TURN


def test_a_summarised_session_is_not_refused_as_unmanaged() -> None:
    """Section 8.4: MC-H06 is for a session of which nothing was ever dropped or summarised."""
    session = working()
    assert session.ask(words(400_000)).send().result.ending.code == "MC-H06"
    session.raw.pop()
    session.send()
    session.publish(TURN - 1)
    session.send(percent=70)
    assert session.ask(words(400_000)).send().result.ending.code == "MC-H04"


def test_a_ride_takes_the_publication_along() -> None:
    """Section 5.2: below the threshold a flush renders what was published, and the signal is done."""
    session = working()
    session.send()
    session.publish(TURN - 1)
    session.flush()
    sent = session.send(percent=40)
    assert (sent.level, sent.reasons) == ("soft", ("explicit_flush",))
    assert session.cut_count() == TURN and not session.state.published


def test_an_idle_session_renders_its_news_in_the_fold_that_idling_brings() -> None:
    """Section 5.2 ``idle``; drops marked after an aborted attempt land on the retry, m[0] stays then."""
    session = worked()
    session.now += 1_000
    session.send(percent=30)
    session.publish(1)
    session.state.pending.clear()
    session.idle(10)
    assert session.send().reasons == ("ttl_idle", "ttl_expiry") and "Work 0;" in session.head[0]
    m0 = session.head[0]
    session.queue(session.tool("c900").number)
    session.remember("news")
    again = session.send()
    assert again.reasons == ("ttl_expiry",) and session.head[0] == m0 and "news" in session.head[1]
    assert session.tool("old").status is not TagStatus.COMPACTED
