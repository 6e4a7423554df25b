"""What a head is read from (history-render 7 and 13; memory-search 2)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from magiccontext.engine.head.model import HeadSource, ProjectDocs, UpgradeState
from magiccontext.engine.head.selection import eligible, shared_categories
from memory_app.models import IdentityAlias, Memory, Project, Workspace
from memory_app.services import memories, profile, workspaces
from memory_app.services.effects import Actor, Edit
from memory_app.services.memories import Reach
from memory_app.services.merging import merge
from sessions_app import models
from sessions_app.services import compartments
from sessions_app.services.clock import to_ms
from sessions_app.services.drafts import Draft, Text
from sessions_app.services.head_source import Options, read, snapshot, stamp
from tests.memory.conftest import NOW, epoch, later

pytestmark = pytest.mark.django_db

CUTOFF = to_ms(NOW)


def source(session: models.Session, **options: Any) -> HeadSource:
    return read(models.Session.objects.get(pk=session.pk), Options(**options))


def shown(session: models.Session) -> list[int]:
    return [memory.id for memory in eligible(source(session), CUTOFF)]


def marked(session: models.Session, mutation_id: int) -> None:
    """Store that the head knows the log up to there."""
    models.HeadState.objects.update_or_create(session=session, defaults={"memory_mutation_id": mutation_id})


@pytest.fixture
def neighbour(make_project: Callable[..., Project]) -> Project:
    return make_project("git:" + "b" * 40)


def test_it_works(
    owner: User, session: models.Session, project: Project, fact: Callable[..., Memory]
) -> None:
    memory = fact(importance=70, expires_at=later(60))
    entry = profile.add(owner.pk, "likes tables", now=NOW)
    compartments.publish(session, [Draft(1, 2, Text("T", p1="did it", p3=""))], now=NOW)
    docs = ProjectDocs((("ARCHITECTURE.md", "x"),))
    found = source(session, docs=docs, temporal_awareness=False)
    assert (found.project, found.memory_epoch, found.profile_version) == (project.identity, 0, 1)
    (row,) = found.compartments
    assert (row.sequence, row.start, row.end, row.end_mid, row.resolves) == (0, 1, 2, "m2", True)
    assert (row.p1, row.p2, row.p3, row.first_day) == ("did it", None, "", "2026-11-30")
    (candidate,) = found.memories
    assert (candidate.id, candidate.importance, candidate.expires_ms) == (memory.pk, 70, to_ms(later(60)))
    assert [(item.id, item.promoted_ms) for item in found.profile] == [(entry.pk, CUTOFF)]
    assert (found.docs, found.temporal_awareness, found.workspace, found.mutation_head) == (
        docs,
        False,
        None,
        0,
    )
    assert (found.max_compartment_seq, found.upgrade_state) == (0, UpgradeState.READY)


def test_a_new_session_without_a_project_has_nothing(owner: User) -> None:
    session = models.Session.objects.create(owner=owner, harness="pi", sid="s9", format="pi")
    assert source(session) == HeadSource()


def test_34_with_memory_off_nothing_of_it_is_read(
    owner: User, session: models.Session, fact: Callable[..., Memory]
) -> None:
    fact()
    profile.add(owner.pk, "likes tables", now=NOW)
    found = source(session, memory_enabled=False)
    assert (found.memories, found.profile, found.mutations, found.memory_enabled) == ((), (), (), False)


def test_11_an_expired_memory_is_still_a_candidate(
    session: models.Session, fact: Callable[..., Memory]
) -> None:
    """The cutoff is frozen with the bytes; the reader does not know it."""
    memory = fact(expires_at=NOW - timedelta(days=1))
    assert [item.id for item in source(session).memories] == [memory.pk]
    assert shown(session) == []


def test_archived_rows_are_read_only_where_a_change_names_them(
    session: models.Session, project: Project, fact: Callable[..., Memory]
) -> None:
    old, live = fact("old"), fact("live")
    memories.archive(Reach.of(project), [old.pk], actor=Actor.AGENT, now=NOW)
    assert [item.id for item in source(session).memories] == [old.pk, live.pk]
    marked(session, source(session).mutation_head)
    assert [item.id for item in source(session).memories] == [live.pk]


def test_only_changes_behind_the_marker_are_read_and_the_newest_is_always_known(
    session: models.Session, fact: Callable[..., Memory]
) -> None:
    memory = fact()
    for text in ("b", "c"):
        memories.update(Reach.of(memory.project), memory.pk, Edit(content=text), actor=Actor.AGENT, now=NOW)
    found = source(session)
    assert [row.new_content for row in found.mutations] == ["b", "c"]
    marked(session, found.mutations[0].id)
    assert [row.new_content for row in source(session).mutations] == ["c"]
    marked(session, found.mutation_head)
    assert (source(session).mutations, source(session).mutation_head) == ((), found.mutations[1].id)


def test_9_16_a_chain_is_read_to_its_end_through_what_cannot_be_seen(
    owner: User,
    session: models.Session,
    project: Project,
    neighbour: Project,
    fact: Callable[..., Memory],
) -> None:
    first, middle, last = fact("first"), fact("middle", project=neighbour), fact("last")
    other = fact("other")
    merge(Reach(owner.pk), [first.pk, middle.pk], "middle", actor=Actor.DREAMER, now=NOW)
    done = merge(Reach(owner.pk), [middle.pk, last.pk], "last", actor=Actor.DREAMER, now=NOW)
    found = {item.id: item for item in source(session).memories}
    assert done.canonical.pk == last.pk
    assert set(found) == {first.pk, middle.pk, last.pk, other.pk}
    assert [found[pk].superseded_by for pk in (first.pk, middle.pk)] == [middle.pk, last.pk]
    assert found[middle.pk].project == neighbour.identity
    assert shown(session) == [last.pk, other.pk]


def test_17_a_cycle_ends(session: models.Session, project: Project, fact: Callable[..., Memory]) -> None:
    one, two = fact("one"), fact("two")
    memories.archive(Reach.of(project), [one.pk, two.pk], actor=Actor.AGENT, now=NOW)
    Memory.objects.filter(pk=one.pk).update(superseded_by=two.pk)
    Memory.objects.filter(pk=two.pk).update(superseded_by=one.pk)
    assert {item.id for item in source(session).memories} == {one.pk, two.pk}


def test_20_a_shared_memory_is_seen_and_a_revoked_one_leaves_a_visibility_row(
    session: models.Session,
    project: Project,
    neighbour: Project,
    make_workspace: Callable[..., Workspace],
    fact: Callable[..., Memory],
) -> None:
    make_workspace(project, neighbour)
    foreign = fact(project=neighbour)
    reach = Reach.of(neighbour)
    assert shown(session) == []
    memories.update(reach, foreign.pk, Edit(shareable=True), actor=Actor.DREAMER, now=NOW)
    assert shown(session) == [foreign.pk]
    memories.update(reach, foreign.pk, Edit(shareable=False), actor=Actor.DREAMER, now=NOW)
    assert shown(session) == []
    rows = source(session).mutations
    assert [(row.category, row.project) for row in rows] == [("__mc_visibility__", neighbour.identity)] * 2


def test_a_workspace_comes_with_its_members_and_their_epochs(
    session: models.Session,
    project: Project,
    neighbour: Project,
    make_workspace: Callable[..., Workspace],
    fact: Callable[..., Memory],
) -> None:
    make_workspace(project, neighbour, shared=("NAMING", "CONSTRAINTS"))
    memories.pin(Reach.of(project), [fact().pk], actor=Actor.PERSON, now=NOW)
    found = source(session)
    assert found.workspace is not None
    assert {(m.identity, m.display_name, m.epoch) for m in found.workspace.members} == {
        (project.identity, f"p{project.pk}", 2),
        (neighbour.identity, f"p{neighbour.pk}", 2),
    }
    assert shared_categories(found.workspace).categories == ("CONSTRAINTS", "NAMING")
    assert found.memory_epoch == epoch(project) == 2


@pytest.mark.parametrize(
    ("value", "categories", "valid"),
    [
        (None, ("CONSTRAINTS",), True),
        ([], (), True),
        (["NAMING", "NAMING"], ("NAMING",), True),
        (["NAMING", "SECRETS"], (), False),
        ({"NAMING": True}, (), False),
        ("NAMING", (), False),
        (7, (), False),
    ],
)
def test_12_a_malformed_share_list_shares_nothing(
    session: models.Session,
    project: Project,
    neighbour: Project,
    make_workspace: Callable[..., Workspace],
    value: Any,
    categories: tuple[str, ...],
    valid: bool,
) -> None:
    make_workspace(project, neighbour)
    Workspace.objects.update(share_categories=value)
    workspace = source(session).workspace
    assert workspace is not None
    assert shared_categories(workspace) == (categories, valid)


def test_rows_of_an_old_identity_are_the_project_s_own(
    owner: User, session: models.Session, project: Project, fact: Callable[..., Memory], neighbour: Project
) -> None:
    memory = fact(project=neighbour)
    IdentityAlias.objects.create(owner=owner, identity=neighbour.identity, project=project)
    memories.update(Reach.of(project), memory.pk, Edit(content="x"), actor=Actor.AGENT, now=NOW)
    found = source(session)
    assert [(item.id, item.project) for item in found.memories] == [(memory.pk, project.identity)]
    assert [row.project for row in found.mutations] == [project.identity]
    models.Session.objects.filter(pk=session.pk).update(project=neighbour)
    assert source(session).project == project.identity


def test_21_a_project_that_left_its_workspace_has_none(
    owner: User,
    session: models.Session,
    project: Project,
    neighbour: Project,
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace(project, neighbour)
    draft = workspaces.Draft("shop", members=[workspaces.Membership(neighbour.pk, "n")])
    workspaces.save(owner.pk, draft, workspace.pk)
    found = source(session)
    assert (found.workspace, found.memory_epoch) == (None, 2)


def test_another_owner_s_rows_are_never_read(owner: User, session: models.Session, project: Project) -> None:
    bob = User.objects.create_user("bob")
    twin = Project.objects.create(owner=bob, identity=project.identity)
    memories.add(twin, "NAMING", "bob's", actor=Actor.AGENT, now=NOW)
    profile.add(bob.pk, "bob", now=NOW)
    found = source(session)
    assert (found.memories, found.profile, found.profile_version) == ((), (), 0)


def test_dates_are_told_in_the_zone_of_the_first_pair(session: models.Session) -> None:
    models.RawMessage.objects.filter(session=session).update(created=NOW + timedelta(hours=11, minutes=30))
    compartments.publish(session, [Draft(1, 2, Text(p1="x"))], now=NOW)
    for zone, day in (("UTC", "2026-11-30"), ("Europe/Berlin", "2026-12-01")):
        assert source(session, time_zone=zone).compartments[0].last_day == day
    models.HeadState.objects.update(time_zone="Europe/Berlin")
    assert source(session, time_zone="UTC").compartments[0].first_day == "2026-12-01"


def test_the_number_of_queries_does_not_grow(
    session: models.Session,
    project: Project,
    neighbour: Project,
    make_workspace: Callable[..., Workspace],
    fact: Callable[..., Memory],
    django_assert_max_num_queries: Callable[..., Any],
) -> None:
    make_workspace(project, neighbour)
    for number in range(40):
        fact(f"mine {number}")
        fact(f"theirs {number}", project=neighbour)
    compartments.publish(session, [Draft(n, n, Text(p1="x")) for n in (1, 2, 3, 6, 7, 8, 9)], now=NOW)
    row = models.Session.objects.get(pk=session.pk)
    with django_assert_max_num_queries(14):
        found = read(row, Options())
    assert (len(found.memories), len(found.compartments)) == (80, 7)
    with django_assert_max_num_queries(3):
        stamp(row)


def test_equal_stamps_mean_equal_rows(
    owner: User,
    session: models.Session,
    project: Project,
    neighbour: Project,
    fact: Callable[..., Memory],
) -> None:
    memory = fact()
    entry = profile.add(owner.pk, "one", now=NOW)
    compartments.publish(session, [Draft(1, 2, Text(p1="x")), Draft(3, 3, Text(p1="y"))], now=NOW)
    reach = Reach.of(project)
    shop = workspaces.Draft("shop", members=[workspaces.Membership(project.pk, "a")])
    acts: list[Callable[[], object]] = [
        lambda: memories.add(project, "NAMING", "new", actor=Actor.AGENT, now=NOW),
        lambda: memories.update(reach, memory.pk, Edit(importance=3), actor=Actor.DREAMER, now=NOW),
        lambda: memories.pin(reach, [memory.pk], actor=Actor.PERSON, now=NOW),
        lambda: profile.dismiss(owner.pk, entry.pk, now=NOW),
        lambda: workspaces.save(owner.pk, shop),
        lambda: memories.delete(reach, [memory.pk], now=NOW),
        lambda: compartments.publish(session, [Draft(6, 6, Text(p1="z"))], now=NOW),
        lambda: compartments.rewrite(session, 2, Text(p1="zz"), now=NOW),
        lambda: compartments.delete(session, [2], now=NOW),
    ]
    for index, act in enumerate(acts):
        row = models.Session.objects.get(pk=session.pk)
        before = stamp(row), read(row, Options())
        assert stamp(row) == before[0]
        act()
        row = models.Session.objects.get(pk=session.pk)
        assert read(row, Options()) != before[1], index
        assert stamp(row) != before[0], index


@pytest.mark.django_db(transaction=True)
def test_one_snapshot_sees_one_moment_and_holds_up_no_writer() -> None:
    owner = User.objects.create_user("ada")
    project = Project.objects.create(owner=owner, identity="git:" + "a" * 40)
    failures: list[BaseException] = []

    def write() -> None:
        try:
            memories.add(project, "NAMING", "meanwhile", actor=Actor.AGENT, now=NOW)
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    with snapshot():
        assert Memory.objects.count() == 0
        writer = threading.Thread(target=write)
        writer.start()
        writer.join(10)
        assert not failures
        assert Memory.objects.count() == 0
    assert Memory.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_1_two_writers_of_one_text_at_once_make_one_memory() -> None:
    owner = User.objects.create_user("ada")
    project = Project.objects.create(owner=owner, identity="git:" + "a" * 40)
    start = threading.Barrier(4)
    created: list[bool] = []
    failures: list[BaseException] = []

    def write() -> None:
        try:
            start.wait(10)
            created.append(memories.add(project, "NAMING", "one", actor=Actor.AGENT, now=NOW).created)
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not failures
    assert sorted(created) == [False, False, False, True]
    assert Memory.objects.get().seen_count == 4
