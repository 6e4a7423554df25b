"""Memories edited through the admin API while a session runs (history-render sections 2, 5 and 11;
dashboard-cli 2.3).

A content edit waits for a refresh that something else permits; an edit that raises the epoch folds once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memory_app.models import Memory, MemoryMutation, Project, ProjectState
from memory_app.models.mutation import VISIBILITY_CATEGORY
from tests.head.conftest import HIGH, START, Desk, Served, restart

pytestmark = pytest.mark.django_db

OTHER_MODEL = "anthropic/claude-opus-4-5"


@pytest.fixture
def known(desk: Desk) -> tuple[Desk, int]:
    """One memory, in the baseline."""
    number = desk.remember("tabs, not spaces")
    assert f"#{number}: tabs, not spaces" in fold(desk).m0
    desk.step()
    return desk, number


def fold(desk: Desk, **members: Any) -> Served:
    """Another model: the baseline is made anew.  The one after goes back to the first."""
    folded = desk.serve(model=OTHER_MODEL if desk.session.model != OTHER_MODEL else "anthropic/claude-haiku")
    desk.members["model"] = desk.session.model
    return folded


def refresh(desk: Desk) -> Served:
    """A rebuild that the person asked for."""
    desk.flush()
    return desk.step()


def edit(desk: Desk, number: int, **fields: Any) -> None:
    answer = desk.admin.patch(f"memories/{number}/", fields)
    assert answer.status_code == 200, answer.content


def act(desk: Desk, action: str, *numbers: int, **more: Any) -> None:
    answer = desk.admin.post("memories/bulk/", {"ids": list(numbers), "action": action, **more})
    assert answer.status_code == 200, answer.content


def logged(desk: Desk, type: str, target: int, **fields: Any) -> None:
    """A row of the log as another writer leaves it, with the revision that goes with it."""
    MemoryMutation.objects.create(
        project=desk.project, type=type, target_id=target, queued_at=desk.now, **fields
    )
    moved(desk)


def moved(desk: Desk) -> None:
    state = ProjectState.objects.get(owner=desk.admin.owner, project=None)
    ProjectState.objects.filter(pk=state.pk).update(revision=state.revision + 1)


def test_a_content_edit_is_a_delta_at_the_next_permitted_pass(known: tuple[Desk, int]) -> None:
    desk, number = known
    before = desk.step()
    edit(desk, number, content="spaces, not tabs")
    for _ in range(2):
        after = desk.step()
        assert (after.level, after.head) == ("defer", before.head)
    taken = refresh(desk)
    assert (taken.level, taken.reasons, taken.m0) == ("soft", ["explicit_flush"], before.m0)
    assert f'  <updated id="{number}">spaces, not tabs</updated>' in taken.m1
    assert desk.step().head == taken.head


@pytest.mark.parametrize("action", ["pin", "set_category"])
def test_an_edit_that_raises_the_epoch_folds_exactly_once(known: tuple[Desk, int], action: str) -> None:
    desk, number = known
    more = {"category": "NAMING"} if action == "set_category" else {}
    act(desk, action, number, **more)
    folded = desk.step()
    assert folded.json["pass"]["permitted"] == ("hard" if more else "defer")
    assert desk.state.memory_epoch == 1
    if more:
        assert folded.reasons[0] == "project_memory_epoch"
        assert f"<NAMING>\n#{number}: tabs, not spaces\n</NAMING>" in folded.m0
    for _ in range(2):
        again = desk.step()
        assert (again.level, again.head) == ("defer", folded.head)


def test_12_19_27_a_fold_that_makes_the_same_bytes_advances_the_markers_and_opens_nothing(
    known: tuple[Desk, int],
) -> None:
    """reclaim-core 12 case 19; pinning changes the order of selection, and nothing of one memory."""
    desk, number = known
    before = desk.step()
    version = desk.session.view_version
    act(desk, "pin", number)
    after = desk.step()
    assert (after.level, after.json["pass"]["permitted"]) == ("defer", "defer")
    assert after.head == before.head
    assert desk.state.memory_epoch == 1
    assert desk.session.view_version == version + 1  # two messages more, nothing else


def test_14_rescoring_changes_no_byte(known: tuple[Desk, int]) -> None:
    desk, number = known
    before = refresh(desk)
    edit(desk, number, importance=99)
    after = refresh(desk)
    assert (after.level, after.head) == ("defer", before.head)


def test_15_an_update_behind_an_archive_is_still_a_removal(known: tuple[Desk, int]) -> None:
    desk, number = known
    act(desk, "archive", number)
    logged(desk, "update", number, new_content="too late")
    taken = refresh(desk)
    assert f'  <removed id="{number}"/>' in taken.m1
    assert "too late" not in taken.m1


def test_15_a_row_about_visibility_does_not_hide_new_text(known: tuple[Desk, int]) -> None:
    desk, number = known
    edit(desk, number, content="spaces")
    logged(desk, "update", number, category=VISIBILITY_CATEGORY)
    assert f'  <updated id="{number}">spaces</updated>' in refresh(desk).m1


def supersede(desk: Desk, old: int, new: int | None) -> None:
    Memory.objects.filter(pk=old).update(status="archived", superseded_by=new)
    logged(desk, "superseded", old, superseded_by=new)


def test_16_a_chain_through_what_cannot_be_seen_ends_at_its_end(known: tuple[Desk, int]) -> None:
    desk, number = known
    elsewhere = desk.admin.project("git:" + "b" * 40)
    middle = desk.admin.memory(elsewhere, "in between")
    end = desk.remember("spaces")
    Memory.objects.filter(pk=middle).update(status="archived", superseded_by=end)
    supersede(desk, number, middle)
    taken = refresh(desk)
    assert f'  <superseded id="{number}" by="{end}"/>' in taken.m1
    assert f"#{end}: spaces" in taken.m1
    assert "in between" not in taken.m1


@pytest.mark.parametrize("ends", ["in a cycle", "in the archive"])
def test_17_a_chain_that_leads_nowhere_is_a_removal(known: tuple[Desk, int], ends: str) -> None:
    desk, number = known
    other = desk.remember("spaces")
    back = number if ends == "in a cycle" else None
    Memory.objects.filter(pk=other).update(status="archived", superseded_by=back)
    supersede(desk, number, other)
    taken = refresh(desk)
    assert f'  <removed id="{number}"/>' in taken.m1
    assert "superseded" not in taken.m1


def test_18_a_replacement_older_than_the_baseline_is_shown_once_and_stays(desk: Desk) -> None:
    """It was eligible and trimmed out of m[0]; nothing but the log asks for it."""
    long = desk.remember("a long one " * 150, importance=1)
    filler = desk.remember("fills the budget " * 1_250, importance=50)
    number = desk.remember("tabs", importance=99)
    assert f"#{long}: " not in fold(desk).m0
    assert desk.state.max_memory_id == number
    supersede(desk, number, long)
    taken = refresh(desk)
    assert taken.m1.count(f"#{long}: ") == 1
    assert f'  <superseded id="{number}" by="{long}"/>' in taken.m1
    assert desk.state.visible_memory_ids == [long, filler, number]
    again = refresh(desk)
    assert (again.level, again.head) == ("defer", taken.head)


def test_19_a_change_of_what_the_baseline_left_out_is_no_line(desk: Desk) -> None:
    long = desk.remember("a long one " * 1_500, importance=1)
    desk.remember("tabs", importance=99)
    before = fold(desk)
    edit(desk, long, content="another long one " * 1_500)
    after = refresh(desk)
    assert (after.level, after.head) == ("defer", before.head)


def member(project: Project) -> dict[str, Any]:
    return {"project": project.pk, "display_name": f"p{project.pk}"}


@pytest.fixture
def shared(desk: Desk) -> tuple[Desk, Project, int]:
    """A workspace of two, the other one's memory not shareable yet, and the baseline made."""
    other = desk.admin.project("git:" + "b" * 40)
    foreign = desk.admin.memory(other, "ports start at 8000")
    desk.remember("tabs")
    answer = desk.admin.post(
        "workspaces/", {"name": "shop", "members": [member(desk.project), member(other)]}
    )
    assert answer.status_code == 201, answer.content
    assert "ports" not in fold(desk).m0
    return desk, other, foreign


def test_20_a_foreign_memory_appears_when_shared_and_goes_when_revoked(
    shared: tuple[Desk, Project, int],
) -> None:
    desk, other, foreign = shared
    edit(desk, foreign, shareable=True)
    assert "ports" not in desk.step().m1
    taken = refresh(desk)
    assert taken.m1.count(f"#{foreign} [p{other.pk}]: ports start at 8000") == 1
    assert f"#{foreign} [p{other.pk}]" in fold(desk).m0
    edit(desk, foreign, shareable=False)
    revoked = refresh(desk)
    assert f'  <removed id="{foreign}"/>' in revoked.m1


def test_21_leaving_a_workspace_folds_by_fingerprint(shared: tuple[Desk, Project, int]) -> None:
    """Even where the plain numbers are equal again."""
    desk, _, foreign = shared
    edit(desk, foreign, shareable=True)
    assert "ports" in fold(desk).m0
    assert desk.state.workspace_fingerprint
    number = desk.admin.listed("workspaces/")[0]["id"]
    assert desk.admin.delete(f"workspaces/{number}/").status_code == 204
    ProjectState.objects.filter(project=desk.project).update(memory_epoch=desk.state.memory_epoch)
    folded = desk.step()
    assert folded.reasons[0] == "project_memory_epoch"
    assert "ports" not in folded.m0 + folded.m1
    assert desk.state.workspace_fingerprint is None
    assert desk.step().head == folded.head


def test_22_numbers_that_went_back_after_a_restored_backup_fold_too(known: tuple[Desk, int]) -> None:
    desk, number = known
    act(desk, "set_category", number, category="NAMING")
    desk.step()
    assert desk.state.memory_epoch == 1
    ProjectState.objects.filter(project=desk.project).update(memory_epoch=0)
    Memory.objects.filter(pk=number).update(category="CONSTRAINTS")
    moved(desk)
    assert desk.step().reasons[0] == "project_memory_epoch"
    assert desk.state.memory_epoch == 0


@pytest.mark.parametrize(
    ("first", "then", "folds"),
    [
        ("openai/gpt-5", "openai-codex/gpt-5", False),
        ("openai-codex/gpt-5", "openai/gpt-5", False),
        ("openai/gpt-5", "openai-codex/gpt-5-mini", True),
    ],
)
def test_23_another_spelling_is_no_other_model(desk: Desk, first: str, then: str, folds: bool) -> None:
    desk.members["model"] = first
    before = desk.step()
    desk.publish(1, 4)
    after = desk.step(model=then)
    assert (after.level == "hard") is folds
    assert (after.head != before.head) is folds


def test_24_what_is_unknown_on_one_pass_folds_nothing(desk: Desk) -> None:
    desk.step(system="you are an agent")
    desk.publish(1, 4)
    before = desk.step(system="you are an agent")
    for _ in range(2):
        assert desk.step().level == "defer"
    assert desk.step(system="you are an agent").head == before.head
    assert desk.step(system="you are another").reasons[0] == "system_hash"


def test_24_the_date_of_the_system_prompt_is_no_change(desk: Desk) -> None:
    desk.step(system="You are an agent.\nToday's date: 2026-11-30\n")
    desk.publish(1, 4)
    assert desk.step(system="You are an agent.\nToday's date: 2026-12-01\n").level == "defer"


def test_34_memory_that_is_switched_off_goes_with_the_very_next_request(
    known: tuple[Desk, int], configured: Callable[..., None]
) -> None:
    desk, _ = known
    configured(memory={"enabled": False})
    after = desk.step()
    assert after.level == "hard"
    assert after.reasons[0] == "render_config:memory_disabled"
    assert "tabs" not in after.m0 + after.m1
    again = desk.step()
    assert (again.level, again.head) == ("defer", after.head)


def test_35_memory_that_is_off_is_not_found_again_by_the_directory(
    known: tuple[Desk, int], configured: Callable[..., None]
) -> None:
    desk, _ = known
    configured(memory={"enabled": False})
    desk.step()
    for members in ({"project": None}, {"project": {"directory": "/srv/elsewhere"}}, {}):
        restart()
        after = desk.step(**members)
        assert "tabs" not in after.m0 + after.m1


def test_42_a_change_of_documents_alone_lets_a_refresh_go_on(known: tuple[Desk, int]) -> None:
    """A sibling process stored another hash; the bytes are the same, so this one's refresh stands."""
    desk, number = known
    head = desk.state
    head.docs_hash = "f" * 64
    head.save(update_fields=["docs_hash"])
    edit(desk, number, content="spaces")
    taken = refresh(desk)
    assert (taken.level, "spaces" in taken.m1) == ("soft", True)


def test_a_profile_that_changed_is_told_in_the_delta(desk: Desk) -> None:
    from memory_app.services import profile

    before = desk.step()
    profile.add(desk.admin.owner.pk, "writes tests first", now=START)
    assert desk.step(HIGH).head == before.head
    taken = refresh(desk)
    assert "<new-user-profile>\n- writes tests first\n</new-user-profile>" in taken.m1
    assert "<user-profile>\n- writes tests first\n</user-profile>" in fold(desk).m0


def tools(description: str = "runs a command", **schema: Any) -> list[dict[str, Any]]:
    return [{"name": "bash", "description": description, "input_schema": {"type": "object", **schema}}]


def test_10_20_another_schema_of_a_tool_folds_nothing_and_another_description_does(desk: Desk) -> None:
    """History-render section 5, row 10; hosts 11 case 20, first half.  First sight is adopted silently."""
    desk.members["capabilities"] = {"own_tools": True}
    desk.publish(1, 4)
    assert desk.step(tools=tools()).level == "defer"
    assert desk.step(tools=tools(required=["command"])).level == "defer"
    assert desk.step().level == "defer"
    assert desk.step(tools=tools("runs two commands")).reasons[0] == "tool_list"
    assert desk.step(tools=tools("runs two commands")).level == "defer"


def test_10_a_host_whose_tools_are_not_its_own_folds_for_none(desk: Desk) -> None:
    desk.publish(1, 4)
    for description in ("one", "two"):
        assert desk.step(tools=tools(description)).level == "defer"
