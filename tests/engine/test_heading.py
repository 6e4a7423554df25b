"""When the head of a session changes on the wire (history-render sections 5, 6 and 11)."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from magiccontext.engine.head.history import OverlappingRanges
from magiccontext.engine.head.m1 import PLACEHOLDER
from magiccontext.engine.head.model import MutationRow, ProjectDocs
from magiccontext.engine.state import DropMode
from magiccontext.engine.wire.anthropic import AnthropicCodec
from tests.engine.conversation import MINUTE, Sent, reloaded, words
from tests.engine.head_histories import PROJECT, TURN, HeadSession, served_texts, working

HAIKU = "anthropic/claude-haiku-4-5"


def opened(turns: int = 4, **options: object) -> HeadSession:
    session = working(turns, **options)
    session.send()
    return session


def folded(sent: Sent) -> bool:
    return sent.result.changes.folded


def is_quiet(session: HeadSession, sent: Sent, head: tuple[str, ...]) -> bool:
    """Nothing was folded, nothing changed."""
    return sent.level == "defer" and not folded(sent) and session.head == head


def test_it_works() -> None:
    session = working()
    first = session.send()
    assert (first.level, first.reasons) == ("hard", ("first_render",))
    assert session.head == ("<session-history></session-history>", PLACEHOLDER)
    assert session.cut_count() == 0


def test_case_01_a_publication_changes_no_byte_until_a_permitted_pass() -> None:
    """Section 11, 1; then one SOFT pass shows the summary and takes away what it stands for."""
    session = opened()
    head, before = session.head, session.send().served
    session.publish(2 * TURN - 1)
    assert is_quiet(session, waiting := session.send(percent=50), head)
    assert waiting.served == before and session.state.published
    taken = session.send(percent=70)
    assert (taken.level, taken.reasons) == ("soft", ("m1_delta",))
    assert session.head[0] == head[0] and "all of 0;" in session.head[1]
    assert taken.served == before[2 * TURN :] and not session.state.published


def test_case_02_the_first_compartment_after_an_empty_baseline_is_news() -> None:
    """Section 11, 2."""
    session = opened()
    assert session.publish(TURN - 1).sequence == 0
    session.send(percent=70)
    assert "all of 0;" in session.head[1]


@pytest.mark.parametrize("restart", [False, True])
def test_case_03_a_fold_is_done_once(restart: bool) -> None:
    """Section 11, 3: its markers are what the next pass compares with, in this process and in any other."""
    session = opened()
    session.store(memory_epoch=1, docs=ProjectDocs((("ARCHITECTURE.md", "parts"),)))
    assert folded(session.send())
    for _ in range(3):
        if restart:
            session.restart()
        assert not folded(session.send())


def test_case_04_and_05_after_a_restart_only_what_the_served_pair_covers_is_cut() -> None:
    """Section 11, 4 and 5: published onto a pair that covers nothing, then restarted."""
    session = opened()
    before = session.send().served
    assert session.state.head is not None and session.state.head.boundary is None
    session.publish(TURN - 1)
    session.restart()
    assert session.send().served == before
    session.send(percent=70)
    session.publish(2 * TURN - 1)
    session.restart()
    session.send(percent=40)
    assert session.cut_count() == TURN and "turn 1" in served_texts(session.send(), session)


def test_case_06_a_pass_that_fails_leaves_summary_and_raw_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Section 11, 6: the injection throws after the cut was chosen."""
    session = opened()
    session.publish(TURN - 1)
    before = copy.deepcopy(reloaded(session.state))

    def fails(*_: object) -> bytes:
        raise RuntimeError("no")

    with monkeypatch.context() as patch:
        patch.setattr(AnthropicCodec, "user_message", fails)
        with pytest.raises(RuntimeError):
            session.send(percent=70)
    after = reloaded(session.state)
    assert (after.head, after.head_bodies, after.published) == (before.head, before.head_bodies, True)
    assert [m.form for m in after.path] == [m.form for m in before.path]
    session.send(percent=70)
    assert session.cut_count() == TURN and "all of 0;" in session.head[1]


def test_case_07_a_pair_belongs_to_its_stored_session() -> None:
    """Section 11, 7: another store with the same ids knows nothing of it."""
    ours, other = opened(), working()
    ours.remember("secret")
    ours.store(memory_epoch=1)
    ours.send()
    sent = other.send()
    assert [m.mid for m in ours.state.path] == [m.mid for m in other.state.path]
    assert "secret" in ours.head[0] and "secret" not in other.head[0] and sent.reasons == ("first_render",)


def test_case_08_a_missing_m1_is_a_fresh_pair_with_the_whole_history() -> None:
    """Section 11, 8."""
    session = opened()
    session.publish(TURN - 1)
    session.send(percent=70)
    assert session.state.head is not None
    session.state.head = replace(session.state.head, m1="")
    session.restart()
    sent = session.send()
    assert sent.level == "hard" and sent.reasons == ("cached_m1_missing", "first_render")
    assert "all of 0;" in session.head[0] and session.cut_count() == TURN


def test_case_11_a_memory_that_expires_stays_until_the_next_fold() -> None:
    """Section 11, 11: neither a defer pass nor a refresh looks at the clock."""
    session = working()
    session.remember("short lived", expires_ms=session.now + MINUTE)
    session.send()
    session.idle(2)
    head = session.head
    assert is_quiet(session, session.send(), head)
    session.flush()
    assert is_quiet(session, session.send(), head)
    session.system = "system 2"
    session.send()
    assert "short lived" not in session.head[0]


def test_case_12_edited_documents_wait_for_a_natural_fold() -> None:
    """Section 11, 12."""
    session = opened()
    head = session.head
    session.store(docs=ProjectDocs((("STRUCTURE.md", "rooms"),)))
    assert is_quiet(session, session.send(), head)
    session.flush()
    assert is_quiet(session, session.send(), head)
    session.system = "system 2"
    session.send()
    assert "rooms" in session.head[0]
    session.store(inject_docs=False, memory_epoch=1)
    session.send()
    assert "<project-docs>" not in session.head[0]
    assert session.state.head is not None and session.state.head.markers.docs_hash == ""


def test_case_18_a_replacement_that_m0_left_out_is_shown_once_and_stays() -> None:
    """Section 11, 18: in the manifest too; a repeated refresh gives the same bytes."""
    session = working(memory_budget=500)
    session.remember(words(400, "a"), importance=90)
    session.remember(words(400, "b"), importance=10)
    session.send()
    assert session.state.head is not None and session.state.head.m0_memory_ids == (1,)
    session.mutate(1, "archive")
    row = MutationRow(2, "superseded", 1, PROJECT, superseded_by=2)
    session.store(mutations=(row,), mutation_head=2)
    session.flush()
    assert session.send().level == "soft"
    assert '<superseded id="1" by="2"/>' in session.head[1] and session.head[1].count("#2:") == 1
    assert session.state.head.visible_memory_ids == (1, 2)
    head = session.head
    session.flush()
    assert is_quiet(session, session.send(), head)


def test_case_22_numbers_that_went_back_fold() -> None:
    """Section 11, 22: a restored backup has a lower epoch and a shorter structural log."""
    session = working()
    session.store(memory_epoch=5, structural_mutation_id=5)
    session.send()
    session.store(memory_epoch=4)
    assert folded(session.send())
    session.store(structural_mutation_id=2)
    assert folded(session.send())
    assert not folded(session.send())


def test_case_23_an_alias_is_no_other_model() -> None:
    """Section 11, 23."""
    aliases = {"claude/sonnet": "anthropic/claude-sonnet-4-5"}
    session = opened(canonical_model=lambda key: aliases.get(key, key))
    session.model = "claude/sonnet"
    assert not folded(session.send())
    session.model = HAIKU
    assert folded(sent := session.send()) and sent.result.permitted.word == "hard"


def test_case_24_what_is_unknown_on_a_pass_folds_nothing() -> None:
    """Section 11, 24; known again and unchanged, still nothing."""
    session = opened()
    for system, tools in (("", ""), ("system 1", "tools 1")):
        session.system, session.tools = system, tools
        assert not folded(session.send())


def test_a_system_prompt_disclosed_late_folds_on_its_own_request() -> None:
    """Section 5, "Signals"; a tool list is adopted at first sight, and kept although nothing else changed."""
    session = working()
    session.system, session.tools = "", ""
    session.send()
    session.tools = "tools 1"
    assert not folded(session.send())
    assert session.state.head is not None and session.state.head.markers.tool_fingerprint == "tools 1"
    session.system = "system 1"
    assert folded(session.send())
    assert not folded(session.send())
    session.tools = "tools 2"
    assert folded(session.send())


@pytest.mark.parametrize("answered", [False, True])
def test_case_25_an_expired_cache_folds_once_in_a_turn_of_many_steps(answered: bool) -> None:
    """Section 11, 25: with answers in between and without."""
    session = opened()
    session.now += 1_000
    session.send(percent=30)
    session.idle(10)
    folds = 0
    for step in range(4):
        session.step(f"late{step}")
        folds += folded(session.send(percent=30 if answered and step else None))
        session.now += 1_000
    assert folds == 1


def test_case_26_a_cache_that_never_expires_never_folds() -> None:
    """Section 11, 26."""
    session = opened(cache_ttl="never", ttl_is_policy=True)
    session.send(percent=30)
    session.idle(1_000_000)
    assert not folded(session.send())


def with_mark() -> HeadSession:
    """An old result that is marked to be dropped, and may be."""
    session = HeadSession(protected_tokens=4_000).ask("go").step("old", words(3_000))
    session.steps(4, 2_000, first=900).ask("on")
    session.send()
    session.queue(session.tool("old").number)
    return session


def test_case_27_a_fold_that_changes_no_byte_carries_nobody() -> None:
    """Section 11, 27 (and reclaim-core 12, 19): the markers advance, no lane rides, the mark stays queued."""
    session = with_mark()
    before = session.send().served
    session.store(memory_epoch=1)
    sent = session.send()
    assert folded(sent) and (sent.level, sent.result.permitted.word) == ("defer", "defer")
    assert sent.served == before and session.state.pending
    assert not folded(session.send())


def test_case_27_a_lost_cache_carries_everybody_whatever_the_bytes() -> None:
    """Section 11, 27: the reason says that the provider's cache is gone."""
    session = with_mark()
    session.system = "system 2"
    sent = session.send()
    assert (sent.level, sent.lanes["queued_drops"], sent.reasons) == ("soft_plus", 1, ("system_hash",))


def test_a_cache_lost_for_a_later_reason_is_lost_too() -> None:
    """The recorded reason is the first that fires; a smaller window comes with another model."""
    session = with_mark()
    session.model, session.context_limit = HAIKU, 60_000
    sent = session.send()
    assert sent.reasons[0].startswith("render_config:budget_shrink")
    assert sent.lanes["queued_drops"] == 1


def test_case_28_a_tiny_head_does_not_refold_for_its_placeholder() -> None:
    """Section 11, 28."""
    session = opened()
    session.flush()
    assert not folded(session.send())


def test_case_29_a_growing_m1_folds_by_the_cap() -> None:
    """Section 11, 29: 20 % of the history budget, here 1,950 tokens; and the fold ends it."""
    session = opened()
    session.publish(TURN - 1, p1=words(1_800))
    assert session.send(percent=70).level == "soft"
    session.publish(2 * TURN - 1, p1=words(200))
    sent = session.send(percent=70)
    assert (sent.level, sent.reasons[0]) == ("hard", "pressure_refold")
    assert session.head[1] == PLACEHOLDER and "Work 1;" in session.head[0]
    assert session.cut_count() == 2 * TURN
    session.flush()
    assert not folded(session.send())


def test_case_48_overlapping_ranges_fail_loudly_and_leave_everything() -> None:
    """Section 11, 48."""
    session = opened()
    row = session.publish(TURN - 1)
    session.store(compartments=(row, replace(row, sequence=1)))
    with pytest.raises(OverlappingRanges):
        session.send(percent=70)
    assert session.state.published and session.cut_count() == 0


def test_a_session_whose_pair_was_forgotten_renders_first_again() -> None:
    """Section 5: a recomp clears the pair; what was cut behind the summary that is gone comes back."""
    session = opened()
    raw = session.send().served
    session.publish(TURN - 1)
    session.send(percent=70)
    session.clear(0)
    sent = session.send()
    assert (sent.level, sent.reasons) == ("soft", ("first_render",)) and sent.served == raw
    assert session.cut_count() == 0 and "Work 0" not in "".join(session.head)


def test_a_first_render_of_a_worked_session_pays_for_what_is_queued() -> None:
    """Section 6: a first render counts as a bust even when empty."""
    session = with_mark()
    session.state.head = None
    sent = session.send()
    assert sent.lanes["queued_drops"] == 1 and session.tool("old").drop_mode is not DropMode.NONE
