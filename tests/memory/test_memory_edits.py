"""What a change of a memory does, and who hears of it (memory-search 1; dashboard-cli 2.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from memory_app.models import IdentityAlias, Memory, MemoryMutation, Project, Workspace
from memory_app.models.memory import normal_importance, normalized, normalized_hash
from memory_app.models.mutation import VISIBILITY_CATEGORY
from memory_app.services import memories, workspaces
from memory_app.services.effects import IN_SESSION, PERSON, Actor, Difference, Edit, Effect, effect
from memory_app.services.memories import Reach
from memory_app.services.refusals import Code, MemoryRefused
from tests.memory.conftest import NOW, epoch, later, logged

pytestmark = pytest.mark.django_db


def edit(memory: Memory, actor: Actor = Actor.PERSON, **values: Any) -> Memory:
    return memories.update(Reach.of(memory.project), memory.pk, Edit(**values), actor=actor, now=later(1))


def test_it_works(project: Project) -> None:
    added = memories.add(project, "NAMING", "  A session is a Session ", actor=Actor.AGENT, now=NOW)
    assert added.created
    assert (added.memory.content, added.memory.source_type) == ("A session is a Session", "agent")
    assert (added.memory.importance, added.memory.seen_count, added.memory.shareable) == (50, 1, False)
    assert (logged(), epoch(project)) == ([], 0)


def test_1_the_same_text_again_is_seen_once_more(project: Project, fact: Callable[..., Memory]) -> None:
    first = fact("Tabs, not spaces")
    again = memories.add(project, "CONSTRAINTS", "tabs,  NOT\nspaces", actor=Actor.HISTORIAN, now=later(5))
    assert (again.created, again.memory.pk, again.memory.seen_count) == (False, first.pk, 2)
    assert again.memory.last_seen_at == later(5)
    assert logged() == []


def test_the_same_text_in_two_categories_is_two_memories(fact: Callable[..., Memory]) -> None:
    assert fact(category="NAMING").pk != fact(category="CONSTRAINTS").pk


def test_a_duplicate_is_found_in_every_status_and_under_an_alias(
    owner: User, make_project: Callable[..., Project], fact: Callable[..., Memory]
) -> None:
    old, new = make_project("dir:0123456789ab"), make_project("git:" + "b" * 40)
    stored = fact(project=old, status="archived")
    IdentityAlias.objects.create(owner=owner, identity=old.identity, project=new)
    again = memories.add(new, "CONSTRAINTS", stored.content, actor=Actor.AGENT, now=NOW)
    assert (again.created, again.memory.pk) == (False, stored.pk)
    written = memories.add(old, "NAMING", "written under the old name", actor=Actor.AGENT, now=NOW)
    assert written.memory.project == new


@pytest.mark.parametrize(
    ("category", "content", "code"),
    [
        ("CONSTRAINTS", "  ", Code.MISSING_CONTENT),
        ("", "x", Code.MISSING_CATEGORY),
        ("KNOWN_ISSUES", "x", Code.UNKNOWN_CATEGORY),
        ("CONSTRAINTS", "a\x00b", Code.BAD_CONTENT),
        ("CONSTRAINTS", "half \ud83d", Code.BAD_CONTENT),
    ],
)
def test_what_cannot_be_a_memory_is_refused(
    project: Project, category: str, content: str, code: Code
) -> None:
    with pytest.raises(MemoryRefused) as refused:
        memories.add(project, category, content, actor=Actor.AGENT, now=NOW)
    assert refused.value.code is code
    assert not Memory.objects.exists()


def test_promotion_skips_what_is_no_fact_and_keeps_the_rest(project: Project) -> None:
    facts = [("NAMING", "good"), ("NAMING", " "), ("WORKFLOW", "unknown"), ("ARCHITECTURE", "better")]
    added = memories.promote(project, facts, now=NOW, source_session="pi/s1")
    assert [item.memory.content for item in added] == ["good", "better"]
    assert {item.memory.source_type for item in added} == {"historian"}
    assert {item.memory.source_session for item in added} == {"pi/s1"}


def test_new_text_forgets_what_was_decided_about_the_old(fact: Callable[..., Memory]) -> None:
    memory = fact(
        shareable=True, classified_at=NOW, verification_status="verified", verified_at=NOW, cue="tabs",
        cue_hash="h", cue_at=NOW, cue_rejections=2,
    )  # fmt: skip
    edit(memory, Actor.AGENT, content="spaces, not tabs")
    memory.refresh_from_db()
    assert memory.normalized_hash == normalized_hash("spaces, not tabs")
    assert (memory.shareable, memory.classified_at, memory.cue, memory.cue_hash) == (False, None, "", "")
    assert (memory.cue_at, memory.cue_rejections) == (None, 0)
    assert (memory.verification_status, memory.verified_at, memory.updated_at) == (
        "unverified",
        None,
        later(1),
    )


def test_11_new_text_is_private_even_when_sharing_is_asked_for_with_it(fact: Callable[..., Memory]) -> None:
    memory = fact(shareable=True)
    assert not edit(memory, content="other", shareable=True).shareable


# --- who is told what ------------------------------------------------------------------------------------

ACTIONS: list[tuple[str, dict[str, Any], dict[str, Any], Effect, Effect]] = [
    # what, the row before, the edit, told by a person, told inside a session
    ("content", {}, {"content": "other"}, Effect.UPDATE, Effect.UPDATE),
    ("archive", {}, {"status": "archived"}, Effect.ARCHIVE, Effect.ARCHIVE),
    ("archive a pinned", {"status": "permanent"}, {"status": "archived"}, Effect.ARCHIVE, Effect.ARCHIVE),
    ("restore", {"status": "archived"}, {"status": "active"}, Effect.EPOCH, Effect.VISIBILITY),
    ("pin", {}, {"status": "permanent"}, Effect.EPOCH, Effect.NONE),
    ("unpin", {"status": "permanent"}, {"status": "active"}, Effect.EPOCH, Effect.NONE),
    ("category", {}, {"category": "NAMING"}, Effect.EPOCH, Effect.UPDATE),
    ("share", {}, {"shareable": True}, Effect.VISIBILITY, Effect.VISIBILITY),
    ("scope", {}, {"scope": "universe"}, Effect.VISIBILITY, Effect.VISIBILITY),
    ("importance", {}, {"importance": 90}, Effect.NONE, Effect.NONE),
    ("same content", {}, {"content": "tabs, not spaces"}, Effect.NONE, Effect.NONE),
    ("same category", {}, {"category": "CONSTRAINTS"}, Effect.NONE, Effect.NONE),
    ("same status", {}, {"status": "active"}, Effect.NONE, Effect.NONE),
    # Several at once: still one of them. A new baseline shows new text as well.
    ("text and category", {}, {"content": "o", "category": "NAMING"}, Effect.EPOCH, Effect.UPDATE),
    ("text and pin", {}, {"content": "o", "status": "permanent"}, Effect.EPOCH, Effect.UPDATE),
    ("text and archive", {}, {"content": "o", "status": "archived"}, Effect.ARCHIVE, Effect.ARCHIVE),
]


# An agent never gets at an archived row; that is tested on its own.
CASES = [
    pytest.param(actor, before, values, person if actor is Actor.PERSON else inside, id=f"{actor}-{what}")
    for what, before, values, person, inside in ACTIONS
    for actor in Actor
    if not (actor is Actor.AGENT and before.get("status") == "archived")
]


@pytest.mark.parametrize(("actor", "before", "values", "told"), CASES)
def test_24_epoch_or_row_never_both(
    project: Project,
    fact: Callable[..., Memory],
    actor: Actor,
    before: dict[str, Any],
    values: dict[str, Any],
    told: Effect,
) -> None:
    memory = fact(**before)
    edit(memory, actor, **values)
    rows = list(MemoryMutation.objects.filter(target_id=memory.pk))
    assert epoch(project) == (1 if told is Effect.EPOCH else 0)
    assert len(rows) == (0 if told in (Effect.NONE, Effect.EPOCH) else 1)
    if rows:
        assert rows[0].type == ("archive" if told is Effect.ARCHIVE else "update")
        assert (rows[0].category == VISIBILITY_CATEGORY) is (told is Effect.VISIBILITY)
        assert rows[0].new_content == (memory_content(memory) if told is Effect.UPDATE else None)


def memory_content(memory: Memory) -> str:
    return Memory.objects.get(pk=memory.pk).content


def test_every_kind_of_difference_is_in_a_table() -> None:
    for table, silent in ((PERSON, {"rescored"}), (IN_SESSION, {"rescored", "repinned"})):
        for name in Difference.__dataclass_fields__:
            difference = Difference(**{name: True})
            assert any(hits(difference) for hits, _ in table) is (name not in silent), name
    assert effect(Difference(), Actor.PERSON) is Effect.NONE


def test_14_rescoring_many_is_told_to_nobody(project: Project, fact: Callable[..., Memory]) -> None:
    ids = [fact(f"fact {n}").pk for n in range(5)]
    done = memories.bulk(Reach.of(project), ids, Edit(importance=90), actor=Actor.DREAMER, now=later(1))
    assert done.changed == ids
    assert (logged(), epoch(project)) == ([], 0)


def test_the_recategorised_row_names_its_new_category(fact: Callable[..., Memory]) -> None:
    memory = fact()
    edit(memory, Actor.AGENT, category="NAMING")
    edit(memory, Actor.AGENT, content="other")
    rows = MemoryMutation.objects.order_by("pk").values_list("category", "new_content")
    assert list(rows) == [("NAMING", "tabs, not spaces"), ("", "other")]


def test_a_restored_row_is_nobody_s_predecessor_and_has_no_reason(
    project: Project, fact: Callable[..., Memory]
) -> None:
    memory = fact()
    memories.archive(Reach.of(project), [memory.pk], actor=Actor.AGENT, now=NOW, reason="wrong")
    memory.refresh_from_db()
    assert memory.metadata == {"archive_reason": "wrong"}
    Memory.objects.filter(pk=memory.pk).update(superseded_by=7)
    memories.restore(Reach.of(project), [memory.pk], actor=Actor.PERSON, now=NOW)
    memory.refresh_from_db()
    assert (memory.status, memory.metadata, memory.superseded_by) == ("active", {}, None)


def test_a_corrupt_metadata_value_counts_as_empty(project: Project, fact: Callable[..., Memory]) -> None:
    memory = fact(metadata=["not", "an", "object"])
    memories.archive(Reach.of(project), [memory.pk], actor=Actor.AGENT, now=NOW, reason="wrong")
    memory.refresh_from_db()
    assert memory.metadata == {"archive_reason": "wrong"}


def test_53_a_member_that_has_just_joined_is_reached_by_a_pin(
    owner: User,
    make_project: Callable[..., Project],
    make_workspace: Callable[..., Workspace],
    fact: Callable[..., Memory],
    project: Project,
) -> None:
    other, outside = make_project("git:" + "b" * 40), make_project("git:" + "c" * 40)
    memory = fact()
    workspace = make_workspace(project)
    members = [workspaces.Membership(project.pk, "a"), workspaces.Membership(other.pk, "b")]
    workspaces.save(owner.pk, workspaces.Draft("shop", ["CONSTRAINTS"], members), workspace.pk)
    before = epoch(project), epoch(other)
    edit(memory, status="permanent")
    assert (epoch(project), epoch(other)) == (before[0] + 1, before[1] + 1)
    assert epoch(outside) == 0


def test_a_person_s_pin_of_a_row_under_an_old_name_reaches_the_project_it_is_now(
    owner: User, make_project: Callable[..., Project], fact: Callable[..., Memory]
) -> None:
    old, new = make_project("dir:0123456789ab"), make_project("git:" + "b" * 40)
    memory = fact(project=old)
    IdentityAlias.objects.create(owner=owner, identity=old.identity, project=new)
    memories.pin(Reach.of(new), [memory.pk], actor=Actor.PERSON, now=NOW)
    assert epoch(new) == 1


# --- refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("actor", [Actor.PERSON, Actor.AGENT])
def test_52_two_memories_are_not_made_equal(fact: Callable[..., Memory], actor: Actor) -> None:
    """Also memory-search case 3: the probe asks in the target category."""
    first, second, elsewhere = fact("one"), fact("two"), fact("one", category="NAMING")
    for values in ({"content": "ONE"}, {"content": "one "}):
        with pytest.raises(MemoryRefused) as refused:
            edit(second, actor, **values)
        assert (refused.value.code, refused.value.other_id) == (Code.DUPLICATE, first.pk)
    with pytest.raises(MemoryRefused) as refused:
        edit(elsewhere, actor, category="CONSTRAINTS")
    assert refused.value.other_id == first.pk
    assert (logged(), epoch(first.project)) == ([], 0)


def test_52_a_twin_that_appears_in_between_is_named_as_well(
    fact: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = fact("one"), fact("two")
    probe = memories._twin
    answers = iter([None])
    monkeypatch.setattr(memories, "_twin", lambda memory: next(answers, probe(memory)))
    with pytest.raises(MemoryRefused) as refused:
        edit(second, content="one")
    assert (refused.value.code, refused.value.other_id) == (Code.DUPLICATE, first.pk)


def test_4_a_change_that_cannot_be_logged_is_not_made(
    fact: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = fact()

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no log")

    monkeypatch.setattr(memories, "log", broken)
    with pytest.raises(RuntimeError):
        edit(memory, Actor.AGENT, content="other")
    assert memory_content(memory) == "tabs, not spaces"


def test_5_an_archive_with_one_bad_id_archives_nothing(project: Project, fact: Callable[..., Memory]) -> None:
    ids = [fact("one").pk, fact("two").pk, 999_999]
    with pytest.raises(MemoryRefused) as refused:
        memories.archive(Reach.of(project), ids, actor=Actor.AGENT, now=NOW)
    assert (refused.value.code, refused.value.ids) == (Code.NOT_FOUND, (999_999,))
    assert not Memory.objects.filter(status="archived").exists()
    assert logged() == []


def test_6_an_id_named_twice_is_archived_once(project: Project, fact: Callable[..., Memory]) -> None:
    memory = fact()
    memories.archive(Reach.of(project), [memory.pk, memory.pk], actor=Actor.AGENT, now=NOW)
    assert logged() == [("archive", memory.pk)]


def test_an_agent_does_not_touch_an_archived_row_a_person_may(fact: Callable[..., Memory]) -> None:
    memory = fact(status="archived")
    with pytest.raises(MemoryRefused) as refused:
        edit(memory, Actor.AGENT, content="other")
    assert (refused.value.code, refused.value.ids) == (Code.INACTIVE, (memory.pk,))
    assert edit(memory, Actor.PERSON, content="other").content == "other"


def test_13_a_foreign_row_is_not_found_like_a_missing_one(
    make_project: Callable[..., Project], fact: Callable[..., Memory]
) -> None:
    memory = fact(shareable=True)
    other = make_project("git:" + "b" * 40)
    texts = set()
    for number in (memory.pk, memory.pk + 1000):
        with pytest.raises(MemoryRefused) as refused:
            memories.update(Reach.of(other), number, Edit(content="x"), actor=Actor.AGENT, now=NOW)
        texts.add((refused.value.code, refused.value.detail.replace(str(number), "N")))
    assert len(texts) == 1


@pytest.mark.parametrize("ids", [[], list(range(1, 1002))])
def test_a_batch_has_1_to_1000_ids(project: Project, ids: list[int]) -> None:
    with pytest.raises(MemoryRefused) as refused:
        memories.archive(Reach.of(project), ids, actor=Actor.PERSON, now=NOW)
    assert refused.value.code is Code.BAD_IDS


# --- many at once ----------------------------------------------------------------------------------------


def test_bulk_takes_one_epoch_step_and_touches_only_what_changes(
    owner: User, project: Project, make_project: Callable[..., Project], fact: Callable[..., Memory]
) -> None:
    other = make_project("git:" + "b" * 40)
    pinned, two, foreign = fact("one", status="permanent"), fact("two"), fact("three", project=other)
    done = memories.pin(Reach(owner.pk), [pinned.pk, two.pk, foreign.pk], actor=Actor.PERSON, now=later(1))
    assert done.changed == [two.pk, foreign.pk]
    assert (epoch(project), epoch(other), logged()) == (1, 1, [])
    pinned.refresh_from_db()
    assert pinned.updated_at == NOW


def test_bulk_archive_logs_each_row_once(owner: User, fact: Callable[..., Memory], project: Project) -> None:
    gone, live = fact("one", status="archived"), fact("two")
    memories.archive(Reach(owner.pk), [gone.pk, live.pk], actor=Actor.PERSON, now=NOW)
    assert logged() == [("archive", live.pk)]
    assert epoch(project) == 0


def test_bulk_that_would_make_two_equal_changes_none(owner: User, fact: Callable[..., Memory]) -> None:
    rows = [fact("one"), fact("two"), fact("two", category="NAMING")]
    with pytest.raises(MemoryRefused):
        memories.set_category(
            Reach(owner.pk), [rows[0].pk, rows[1].pk], "NAMING", actor=Actor.PERSON, now=NOW
        )
    assert set(Memory.objects.values_list("content", "category")) == {
        ("one", "CONSTRAINTS"), ("two", "CONSTRAINTS"), ("two", "NAMING")
    }  # fmt: skip


def test_restore_leaves_pinned_rows_and_unpin_archived_ones(owner: User, fact: Callable[..., Memory]) -> None:
    pinned, archived = fact("one", status="permanent"), fact("two", status="archived")
    ids = [pinned.pk, archived.pk]
    assert memories.restore(Reach(owner.pk), ids, actor=Actor.PERSON, now=NOW).changed == [archived.pk]
    Memory.objects.filter(pk=archived.pk).update(status="archived")
    assert memories.unpin(Reach(owner.pk), ids, actor=Actor.PERSON, now=NOW).changed == [pinned.pk]


def test_a_deleted_memory_leaves_its_row_in_the_log_and_its_id_to_nobody(
    project: Project, fact: Callable[..., Memory]
) -> None:
    memory = fact()
    assert memories.delete(Reach.of(project), [memory.pk], now=NOW) == [memory.pk]
    assert logged() == [("delete", memory.pk)]
    assert fact("another").pk > memory.pk


# --- the tables ------------------------------------------------------------------------------------------


def test_ids_are_never_given_twice(project: Project) -> None:
    for make in (
        lambda: MemoryMutation.objects.create(project=project, type="delete", target_id=1),
        lambda: memories.add(project, "NAMING", "n", actor=Actor.AGENT, now=NOW).memory,
    ):
        row = make()
        number = row.pk
        type(row).objects.all().delete()
        assert make().pk > number
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            for table in ("memory_app_memory", "memory_app_memorymutation", "sessions_app_m0mutation"):
                cursor.execute("SELECT sql FROM sqlite_master WHERE name = %s", [table])
                assert "AUTOINCREMENT" in cursor.fetchone()[0]


def test_the_log_is_append_only(project: Project) -> None:
    row = MemoryMutation.objects.create(project=project, type="delete", target_id=1)
    row.type = "update"
    with pytest.raises(TypeError):
        row.save()


@pytest.mark.parametrize(
    ("value", "stored"),
    [(None, 50), (float("nan"), 50), (float("inf"), 50), (-3, 1), (101, 100), (49.6, 50), (1, 1)],
)
def test_importance_has_one_form(value: float | None, stored: int) -> None:
    assert normal_importance(value) == stored


def test_golden_normalized_hash(golden: Callable[[str], list[dict[str, Any]]]) -> None:
    for case in golden("11"):
        text = case["input"]["text"]
        assert (normalized(text), normalized_hash(text)) == (
            case["expected"]["normalized"],
            case["expected"]["hash"],
        )
