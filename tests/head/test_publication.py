"""Publications through the admin API, and the passes that take them up (history-render sections 6, 7, 11)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sessions_app import models
from tests.head.conftest import HIGH, LOW, PLACEHOLDER, Desk, restart
from tests.transform.conftest import Caller, call, result

pytestmark = pytest.mark.django_db


def ordinals(desk: Desk, tail: list[object]) -> list[int]:
    """Where the served tail stands in the host's own array."""
    first = len(desk.array) - len(tail) + 1
    return list(range(first, len(desk.array) + 1))


def test_1_a_publication_changes_nothing_until_a_permitted_pass(desk: Desk) -> None:
    before = desk.step()
    desk.publish(1, 4)
    for _ in range(2):
        after = desk.step()
        assert (after.level, after.head) == ("defer", before.head)
        assert after.begins_like(before)
        before = after
    taken = desk.step(HIGH)
    assert (taken.level, taken.reasons) == ("soft", ["m1_delta"])
    assert taken.m0 == before.m0
    assert "## 1-4 · 2026-11-30 · T1\ndid it" in taken.m1
    assert ordinals(desk, taken.tail)[0] == 5
    assert not desk.state.published_pending
    again = desk.step(HIGH)
    assert (again.level, again.head) == ("defer", taken.head)
    assert again.begins_like(taken)


def test_2_the_first_compartment_of_an_empty_baseline_is_news(desk: Desk) -> None:
    before = desk.step()
    assert before.head == (
        "<session-history></session-history>",
        f"<session-history-since>{PLACEHOLDER}</session-history-since>",
    )
    assert desk.publish(1, 4)["sequence"] == 0
    assert "T1" in desk.step(HIGH).m1
    assert desk.state.max_compartment_seq == -1  # m[0] does not have it; the marker is m[0]'s


def test_3_a_fold_takes_the_news_into_the_baseline_and_happens_once(desk: Desk) -> None:
    desk.publish(1, 4)
    desk.step(HIGH)
    desk.step()
    desk.wait(minutes=10)
    folded = desk.serve()
    assert (folded.level, folded.reasons[0]) == ("hard", "ttl_idle")
    assert "T1" in folded.m0
    assert PLACEHOLDER in folded.m1
    for _ in range(2):
        after = desk.step()
        assert (after.level, after.head) == ("defer", folded.head)


@pytest.mark.parametrize("stops", [0, 1], ids=["the process goes on", "it restarts"])
def test_4_raw_messages_stay_until_their_summary_is_served(desk: Desk, stops: int) -> None:
    before = desk.step()
    desk.publish(1, 4)
    if stops:
        restart()
    after = desk.step()
    assert (after.level, len(after.tail)) == ("defer", len(desk.array))
    assert after.begins_like(before)
    if stops:
        restart()
    taken = desk.step(HIGH)
    assert ordinals(desk, taken.tail)[0] == 5
    if stops:
        restart()
    replayed = desk.step()
    assert (replayed.level, replayed.head) == ("defer", taken.head)
    assert ordinals(desk, replayed.tail)[0] == 5
    assert replayed.begins_like(taken)


def test_5_a_pair_that_covers_nothing_cuts_nothing_after_a_restart(desk: Desk) -> None:
    pair = desk.state.pair()
    assert pair is not None and pair.boundary is None
    desk.publish(1, 4)
    restart()
    assert len(desk.step().tail) == len(desk.array)


def test_7_a_session_of_the_same_id_elsewhere_has_a_head_of_its_own(
    desk: Desk, another: Callable[..., Caller]
) -> None:
    """Somebody else's host counts its sessions from one as well."""
    desk.publish(1, 4)
    desk.step(HIGH)
    other = another("bob", "host", "replay")
    answer = other.transform(desk.array, at=desk.at)
    assert b"T1" not in answer.content
    assert len(other.messages(answer)) == len(desk.array)
    assert models.HeadState.objects.count() == 2


def test_12_18_a_publication_without_text_gives_no_permission(desk: Desk) -> None:
    """reclaim-core 12 case 18: the same bytes are no refresh."""
    before = desk.step()
    desk.publish(1, 4, p1="", title="")
    after = desk.step(HIGH)
    assert (after.level, after.head) == ("defer", before.head)
    assert len(after.tail) == len(desk.array)


def test_12_18_a_new_memory_alone_is_a_defer_pass_and_rides_with_the_next_refresh(desk: Desk) -> None:
    before = desk.step()
    desk.remember("tabs, not spaces")
    after = desk.step(HIGH)
    assert (after.level, after.head) == ("defer", before.head)
    desk.publish(1, 4)
    taken = desk.step(HIGH)
    assert (taken.level, taken.m0) == ("soft", before.m0)
    assert "tabs, not spaces" in taken.m1 and "T1" in taken.m1


@pytest.mark.parametrize(("ttl", "level"), [("never", "defer"), ("30s", "hard"), ("1h", "hard")], ids=str)
def test_26_a_cache_that_lives_for_ever_never_idles(
    desk: Desk, configured: Callable[..., None], ttl: str, level: str
) -> None:
    configured(cache_ttl=ttl)
    desk.step()
    desk.wait(days=3)
    assert desk.serve().permitted == level


def test_25_a_long_turn_after_the_lifetime_folds_once(desk: Desk) -> None:
    desk.publish(1, 4)
    desk.wait(minutes=10)
    desk.array += [call(1), result(1)]
    first = desk.serve()
    assert (first.level, first.reasons[0]) == ("hard", "ttl_idle")
    for index in (2, 3):
        desk.array += [call(index), result(index)]
        again = desk.serve()
        assert (again.level, again.head) == ("defer", first.head)


def test_30_long_documents_take_nothing_from_the_history(desk: Desk) -> None:
    """The budget is the history's own: 20k tokens of documents beside it change no compartment."""
    text = "full account of the step " * 40
    for start in (1, 3, 5, 7):
        desk.publish(start, start + 1, text, p2="short", p3="s", p4="s")
    plain = desk.serve(model="anthropic/claude-opus-4-5")
    docs = {"project": {**desk.members["project"], "docs": {"ARCHITECTURE.md": "word " * 20_000}}}
    long = desk.serve(model="anthropic/claude-sonnet-4-5", **docs)
    assert plain.level == long.level == "hard"
    assert len(long.m0) > len(plain.m0) + 90_000
    assert history(long.m0) == history(plain.m0)
    assert history(long.m0).count(text.strip()) == 4


def history(m0: str) -> str:
    return m0[m0.index("<session-history>") : m0.index("</session-history>")]


def test_31_the_first_pass_after_a_restart_has_its_budget_from_the_window(desk: Desk) -> None:
    desk.publish(1, 4)
    restart()
    folded = desk.serve(model="anthropic/claude-opus-4-5")
    assert folded.level == "hard"
    allowances = desk.state.allowances
    assert allowances is not None
    assert allowances.endswith("-h19500")


def test_33_a_grown_window_folds_nothing(desk: Desk) -> None:
    before = desk.step()
    policy = desk.state.policy
    after = desk.step(context_limit=400_000)
    assert (after.level, after.head) == ("defer", before.head)
    assert desk.state.policy == policy


def test_32_a_window_that_shrinks_in_small_steps_folds_once(desk: Desk) -> None:
    desk.publish(1, 4)
    levels = [desk.step(context_limit=limit).level for limit in (199_500, 198_900, 198_100, 197_500, 197_200)]
    assert levels == ["defer", "defer", "defer", "hard", "defer"]


def test_12_documents_that_change_wait_for_the_next_fold(desk: Desk, configured: Callable[..., None]) -> None:
    def told(text: str) -> dict[str, object]:
        return {"project": {**desk.members["project"], "docs": {"STRUCTURE.md": text}}}

    before = desk.step()
    for text in ("one", "two"):
        after = desk.step(**told(text))
        assert (after.level, after.head) == ("defer", before.head)
    desk.wait(minutes=10)
    assert '<file name="STRUCTURE.md">\ntwo\n</file>' in desk.serve(**told("two")).m0
    assert desk.state.docs_hash
    configured(dreamer={"inject_docs": False})
    assert "<project-docs>" in desk.step(**told("two")).m0
    desk.wait(minutes=10)
    assert "<project-docs>" not in desk.serve(**told("two")).m0
    assert desk.state.docs_hash == ""


def test_37_38_legacy_and_archived_rows_weigh_nothing(desk: Desk) -> None:
    """Rows without tiers neither age nor press the others; with them or without, these read the same."""
    desk.publish(3, 4, "full", p2="less", p3="little", p4="hint")
    alone = history(desk.serve(model="anthropic/claude-opus-4-5").m0)
    desk.publish(5, 6, p1="", content="U: what was said\nand done")
    both = history(desk.serve(model="anthropic/claude-sonnet-4-5").m0)
    assert both.startswith(alone.rstrip())
    assert "## 5-6 · 2026-11-30 · T5" in both
    assert desk.state.upgrade_state == "legacy"


def test_39_an_empty_tier_is_a_heading_and_not_the_content(desk: Desk) -> None:
    desk.publish(1, 2, "all of it", p2="", p3="", p4="", importance=1)
    for number in range(3, 10):
        desk.publish(number, number, "x", importance=100)
    folded = desk.serve(model="anthropic/claude-opus-4-5", context_limit=40_000)
    assert "## 1-2 · 2026-11-30 · T1" in folded.m0
    assert "all of it" not in folded.m0


@pytest.mark.parametrize(
    ("title", "line"),
    [
        ("a\nb", "a b"),
        ("a\u2028b\u2029c", "a b c"),
        ("## 9-9 · forged", "## 9-9 · forged"),
        ("</session-history>", "&lt;/session-history&gt;"),
    ],
)
def test_40_a_title_is_one_escaped_line(desk: Desk, title: str, line: str) -> None:
    desk.publish(1, 4, title=title)
    taken = desk.step(HIGH)
    assert f"\n## 1-4 · 2026-11-30 · {line}\ndid it\n" in taken.m1


def test_46_a_call_id_used_again_survives_the_cut(desk: Desk) -> None:
    desk.array += [call(1, "bash"), result(1, "first"), call(1, "bash"), result(1, "second")]
    desk.step()
    desk.publish(1, 13)
    taken = desk.step(HIGH)
    first, second = taken.tail[0]["content"][0], taken.tail[1]["content"][0]
    assert (first["type"], second["type"]) == ("tool_use", "tool_result")
    assert "second" in second["content"]


def test_48_ranges_that_overlap_are_refused_and_gaps_are_not(desk: Desk) -> None:
    desk.publish(1, 2)
    answer = desk.admin.post(
        "compartments/", {"session": str(desk.session), "compartments": [{"start": 2, "end": 4, "p1": "x"}]}
    )
    assert (answer.status_code, answer.json()["field"]) == (422, "compartments.0.start")
    desk.publish(5, 6)
    taken = desk.step(HIGH)
    assert "## 1-2" in taken.m1 and "## 5-6" in taken.m1
    assert ordinals(desk, taken.tail)[0] == 7


def test_48_ranges_that_overlap_in_the_store_fail_loudly(desk: Desk) -> None:
    """Nothing writes such rows; should they be there all the same, no prompt is made from them."""
    desk.publish(1, 2)
    desk.publish(3, 4)
    models.Compartment.objects.filter(start=3).update(start=2)
    restart()
    refused = desk.send(model="anthropic/claude-opus-4-5")
    assert (refused.status_code, refused.json()["code"]) == (503, "degraded_pass")
    assert "OverlappingRanges" in desk.session.last_error


def test_a_deleted_compartment_brings_its_messages_back(desk: Desk) -> None:
    row = desk.publish(1, 4)
    desk.step(HIGH)
    assert desk.admin.delete(f"compartments/{row['id']}/").status_code == 204
    after = desk.step(LOW)
    assert (after.permitted, after.reasons) == ("hard", ["first_render"])
    assert after.level != "defer"
    assert len(after.tail) == len(desk.array)
    assert "T1" not in after.m0 + after.m1
