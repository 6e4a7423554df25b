"""Windows, switches and kinds of session, as the head sees them (history-render sections 4 to 6 and 11)."""

from __future__ import annotations

from dataclasses import replace

from magiccontext.engine.head.model import Mural
from tests.engine.head_histories import TURN, working
from tests.engine.test_heading import HAIKU, folded, is_quiet, opened


def test_case_31_the_first_pass_knows_its_window() -> None:
    """Section 11, 31: 0 % usage is no reason for the fallback of 60,000."""
    session = opened()
    assert session.state.head is not None and session.state.head.markers.allowances == "m4000-h9750"


def test_case_32_small_steps_add_up_and_growth_never_folds() -> None:
    """Section 11, 32."""
    session = opened()
    folds = []
    for limit in (99_500, 120_000, 99_000, 98_900):
        session.context_limit = limit
        folds.append(folded(session.send()))
    assert folds == [False, False, True, False]


def test_case_33_a_new_window_is_no_new_policy() -> None:
    """Section 11, 33."""
    session = opened()
    session.context_limit = 250_000
    assert not folded(session.send())


def test_case_33_a_threshold_in_tokens_is_the_same_policy_in_any_window() -> None:
    """Section 5, "Policy identity": the selected value, not the share of the window it comes to."""
    session = opened(threshold=lambda usable: 50_000 / usable * 100, threshold_tokens=50_000)
    assert session.state.head is not None
    assert session.state.head.markers.policy == "m4000-hpdefault:tokens:50000"
    session.context_limit = 250_000
    assert not folded(session.send())


def test_a_window_unknown_on_one_request_is_no_smaller_window() -> None:
    """Section 4: an estimate does not take the place of what was known for the same model."""
    session = opened(context_limit=1_000_000)
    session.context_limit = None  # type: ignore[assignment]
    assert not folded(session.send())
    session.model = HAIKU
    assert folded(session.send())


def test_case_34_memory_switched_off_drops_its_blocks_at_once_and_settles() -> None:
    """Section 11, 34."""
    session = working()
    session.remember("a fact")
    session.send()
    session.remember("news")
    session.flush()
    session.send()
    assert "a fact" in session.head[0] and "news" in session.head[1]
    session.store(memory_enabled=False)
    sent = session.send()
    assert (sent.level, sent.reasons) == ("hard", ("render_config:memory_disabled",))
    assert "fact" not in "".join(session.head) and "news" not in "".join(session.head)
    assert is_quiet(session, session.send(), session.head)


def test_a_project_that_cannot_be_told_freezes_the_head() -> None:
    """Section 6: the complete pair is replayed, and every trigger stays armed."""
    session = working()
    session.remember("a fact")
    session.send()
    head, source = session.head, session.source
    session.publish(TURN - 1)
    session.store(project="", memories=(), memory_epoch=3)
    session.system = "system 2"
    assert is_quiet(session, session.send(percent=70), head) and session.state.published
    session.store(project=source.project, memories=source.memories)
    assert folded(sent := session.send()) and sent.reasons[0] == "system_hash"
    assert "a fact" in session.head[0] and "Work 0;" in session.head[0]


def test_case_36_a_mural_goes_with_one_fold_and_a_newer_one_waits() -> None:
    """Section 11, 36: text and image replay together from what is stored, after a restart too."""
    session = working()
    pixel = Mural("data:image/png;base64,AAAA", "1")
    session.remember("a fact")
    session.store(mural_enabled=True, images_accepted=True, mural=pixel)
    session.send()
    body = session.state.head_bodies[0]
    assert b"AAAA" in body and b"<memory-mural>" in body
    session.store(mural=Mural("data:image/png;base64,BBBB", "2"))
    session.restart()
    session.send()
    assert session.state.head_bodies[0] == body
    session.store(mural_enabled=False)
    sent = session.send()
    assert sent.reasons[0].startswith("render_config:mural") and b"image" not in session.state.head_bodies[0]
    assert not folded(session.send())


def test_a_subagent_has_no_head() -> None:
    """Section 6; without compaction it has an additive one, and loses it again."""
    session = working(subagent=True)
    session.remember("a fact")
    session.send()
    assert session.head == () and session.state.vars.head_tokens == 0
    session.settings = replace(session.settings, compaction=False)
    sent = session.send()
    assert (sent.level, sent.reasons) == ("hard", ("first_render",)) and "a fact" in session.head[0]
    session.settings = replace(session.settings, compaction=True)
    sent = session.send()
    assert (sent.level, sent.reasons) == ("hard", ("head_withdrawn",)) and session.head == ()
    assert session.state.vars.wire_tokens == session.wire_tokens()
    session.restart()
    assert session.send().level == "defer"


def test_without_compaction_the_head_only_adds() -> None:
    """Section 6: no history, no cut; new memories wait for a fold; each switch renders anew."""
    session = opened()
    raw = list(session.raw)
    session.publish(TURN - 1)
    session.send(percent=70)
    session.queue(session.tool("t1s0").number)
    session.settings = replace(session.settings, compaction=False)
    off = session.send()
    assert off.served == raw and "<session-history></session-history>" in session.head[0]
    session.remember("later")
    head = session.head
    assert is_quiet(session, session.send(percent=97), head)
    session.system = "system 2"
    assert session.send().reasons == ("system_hash",) and "later" in session.head[0]
    session.settings = replace(session.settings, compaction=True)
    assert session.send().reasons[0] == "first_render"
    assert session.cut_count() == TURN and "Work 0;" in session.head[0]
