"""Publishing and changing compartments (historian 9; history-render 5 and 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from magiccontext.engine.head.model import Boundary, Markers, Mural, Pair
from memory_app.models import Memory, Project
from memory_app.services import memories
from sessions_app import models
from sessions_app.services import compartments
from sessions_app.services.calls import Refused
from sessions_app.services.drafts import Draft, Event, Text
from sessions_app.services.line import places, unresolved
from sessions_app.services.sessions import BadRequest
from tests.memory.conftest import NOW, add_message, later, logged

pytestmark = pytest.mark.django_db

PAIR = Pair(
    m0="<session-history></session-history>",
    m1="half \ud83d",
    markers=Markers(materialized_ms=5, model_key="anthropic/claude", project="git:a", max_compartment_seq=3),
    mural=Mural("data:image/png;base64,AA==", "h"),
    boundary=Boundary("m3", 3, 1),
    m0_memory_ids=(1, 2),
    visible_memory_ids=(1, 2, 9),
)


def draft(start: int, end: int, p1: str | None = "did it", **fields: Any) -> Draft:
    return Draft(start, end, Text(title=f"T{start}", p1=p1), **fields)


def stored(session: models.Session) -> list[tuple[int, int, int]]:
    rows = models.Compartment.objects.filter(session=session).order_by("sequence")
    return list(rows.values_list("sequence", "start", "end"))


def with_pair(session: models.Session) -> models.HeadState:
    head, _ = models.HeadState.objects.get_or_create(session=session)
    head.store_pair(PAIR)
    head.save()
    return head


def head_of(session: models.Session) -> models.HeadState:
    return models.HeadState.objects.get(session=session)


def version(session: models.Session) -> int:
    return models.Session.objects.get(pk=session.pk).version


def test_it_works(session: models.Session) -> None:
    done = compartments.publish(session, [draft(1, 3), draft(4, 5)], now=NOW, producer="builtin")
    assert stored(session) == [(0, 1, 3), (1, 4, 5)]
    row = done.rows[0]
    assert (row.start_mid, row.end_mid, row.content, row.legacy) == ("m1", "m3", "did it", False)
    assert (row.importance, row.producer) == (50, "builtin")
    assert (row.started_at, row.ended_at, row.created) == (later(1), later(3), NOW)
    assert done.last_end == 5


def test_1_publication_touches_nothing_that_is_served(session: models.Session) -> None:
    with_pair(session)
    before = version(session)
    compartments.publish(session, [draft(1, 3)], now=NOW)
    head = head_of(session)
    assert head.pair() == PAIR
    assert head.published_pending
    assert head.pending_marker == {"ordinal": 3, "mid": "m3", "time": 1_796_040_000_000}
    assert not models.M0Mutation.objects.exists()
    assert version(session) == before + 1


def test_36_sequences_go_on_behind_the_highest_and_gaps_in_ordinals_are_legal(
    session: models.Session,
) -> None:
    compartments.publish(session, [draft(1, 1), draft(3, 3)], now=NOW)
    compartments.delete(session, [0], now=NOW)
    compartments.publish(session, [draft(6, 7)], now=NOW)
    assert stored(session) == [(1, 3, 3), (2, 6, 7)]


BAD_RANGES = [
    ([], "compartments"),
    ([draft(3, 2)], "compartments.0.end"),
    ([draft(0, 2)], "compartments.0.start"),
    ([draft(1, 11)], "compartments.0.end"),
    ([draft(1, 3), draft(3, 5)], "compartments.1.start"),  # 48: overlap fails loudly
    ([draft(5, 6), draft(1, 2)], "compartments.1.start"),
    ([draft(1, 2, end_mid="m3")], "compartments.0.end_mid"),
    ([draft(1, 2, start_mid="other")], "compartments.0.start_mid"),
    ([draft(1, 4)], "compartments.0.end"),  # between the call in 4 and its result in 5
    ([Draft(1, 2, Text(p1="a\x00"))], "compartments.0.p1"),
    ([Draft(1, 2, Text(title="\ud83d"))], "compartments.0.title"),
    ([Draft(1, 2, Text(episode_type="x" * 256))], "compartments.0.episode_type"),
]


@pytest.mark.parametrize(("drafts", "field"), BAD_RANGES, ids=lambda v: v if isinstance(v, str) else "")
def test_what_does_not_fit_is_refused_with_its_place(
    session: models.Session, drafts: list[Draft], field: str
) -> None:
    before = version(session)
    with pytest.raises(BadRequest) as refused:
        compartments.publish(session, drafts, now=NOW)
    assert refused.value.field == field
    assert stored(session) == []
    assert version(session) == before


def test_48_a_range_over_a_stored_one_is_refused(session: models.Session) -> None:
    compartments.publish(session, [draft(1, 3)], now=NOW)
    with pytest.raises(BadRequest, match="covered already"):
        compartments.publish(session, [draft(3, 5)], now=NOW)


def test_a_range_may_end_in_a_message_that_stays_and_so_with_its_call(session: models.Session) -> None:
    done = compartments.publish(session, [draft(1, 4, end_block=0)], now=NOW)
    assert done.rows[0].end_block == 0


def test_a_call_in_flight_is_not_separated_and_a_dead_one_binds_nothing(session: models.Session) -> None:
    models.RawMessage.objects.filter(session=session, ordinal=5).update(links=[])
    compartments.publish(session, [draft(1, 4)], now=NOW)
    add_message(session, 11, links=[[1, "c2", 0, "m11"], [1, "c3", 1, "m11"]])
    add_message(session, 12, links=[[0, "c3", 0, "m11"]])
    with pytest.raises(BadRequest, match="call in message 11"):
        compartments.publish(session, [draft(5, 12)], now=NOW)
    compartments.publish(session, [draft(5, 10)], now=NOW)


def test_parallel_calls_stay_together(session: models.Session) -> None:
    add_message(session, 11, links=[[1, "c2", 0, "m11"], [1, "c3", 1, "m11"]])
    add_message(session, 12, links=[[0, "c3", 0, "m11"]])
    add_message(session, 13, links=[[0, "c2", 0, "m11"]])
    add_message(session, 14)
    for end in (11, 12):
        with pytest.raises(BadRequest):
            compartments.publish(session, [draft(6, end)], now=NOW)
    compartments.publish(session, [draft(6, 13)], now=NOW)


def test_46_a_call_id_used_again_is_another_call(session: models.Session) -> None:
    add_message(session, 11, links=[[1, "c1", 0, "m11"]])
    add_message(session, 12, links=[[0, "c1", 0, "m11"]])
    compartments.publish(session, [draft(1, 8)], now=NOW)
    with pytest.raises(BadRequest):
        compartments.publish(session, [draft(9, 11)], now=NOW)


TEXTS = [
    # (given, stored content, legacy)
    (Text(p1="one", p2="", p3=None), "one", False),
    (Text(p1="one", content="flat"), "flat", False),
    (Text(content="flat"), "flat", True),
    (Text(title="only a title"), "", True),
    (Text(p1="  ", content="flat"), "flat", True),
    (Text(), "", False),  # 39: a boundary marker, not a legacy row
    (Text(p1=" "), "", False),
]


@pytest.mark.parametrize(("text", "content", "legacy"), TEXTS)
def test_legacy_is_text_without_tiers(
    session: models.Session, text: Text, content: str, legacy: bool
) -> None:
    (row,) = compartments.publish(session, [Draft(1, 2, text)], now=NOW).rows
    assert (row.content, row.legacy) == (content, legacy)
    assert row.p2 == text.p2
    assert row.p1 is None or row.p1.strip()


@pytest.mark.parametrize(("given", "importance"), [(None, 50), (0, 1), (101, 100), (77, 77)])
def test_importance_is_clamped(session: models.Session, given: int | None, importance: int) -> None:
    text = Text(p1="x", importance=given)
    assert compartments.publish(session, [Draft(1, 2, text)], now=NOW).rows[0].importance == importance


def test_facts_become_memories_of_the_session_s_project(session: models.Session, project: Project) -> None:
    seen = memories.promote(project, [("NAMING", "known")], now=NOW)[0].memory
    done = compartments.publish(
        session, [draft(1, 3)], [("NAMING", "Known"), ("CONSTRAINTS", "new"), ("GOSSIP", "no")], now=later(1)
    )
    assert [(fact.memory.content, fact.created) for fact in done.facts] == [("known", False), ("new", True)]
    seen.refresh_from_db()
    assert seen.seen_count == 2
    assert done.facts[1].memory.source_session == "custom/s1"
    assert logged() == []


def test_32_a_fact_that_cannot_be_stored_takes_the_publication_with_it(
    session: models.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Memory, "save", full)
    before = version(session)
    with pytest.raises(OSError, match="disk full"):
        compartments.publish(session, [draft(1, 3)], [("NAMING", "new")], now=NOW)
    assert stored(session) == []
    assert not models.HeadState.objects.exists()
    assert version(session) == before


def test_facts_of_a_session_without_a_project_are_left_out(session: models.Session) -> None:
    models.Session.objects.filter(pk=session.pk).update(project=None)
    done = compartments.publish(session, [draft(1, 3)], [("NAMING", "new")], now=NOW)
    assert done.facts == []
    assert not Memory.objects.exists()


def test_events_keep_their_compartment(session: models.Session) -> None:
    events = [Event("causal_incident", {"summary": "x"}, 2), Event("trajectory_correction", {}, 9)]
    done = compartments.publish(session, [draft(1, 2), draft(3, 3)], now=NOW, events=events)
    kept = list(models.CompartmentEvent.objects.order_by("pk").values_list("compartment", "at_compartment"))
    assert kept == [(done.rows[1].pk, 2), (None, 9)]
    compartments.delete(session, [1], now=NOW)
    assert models.CompartmentEvent.objects.filter(compartment=None).count() == 2


# --- structural changes ----------------------------------------------------------------------------------


def structural(session: models.Session) -> list[tuple[str, int | None]]:
    return list(
        models.M0Mutation.objects.filter(session=session).order_by("pk").values_list("type", "target")
    )


def test_a_deletion_is_structural_and_clears_the_pair(session: models.Session) -> None:
    compartments.publish(session, [draft(1, 2), draft(3, 3)], now=NOW)
    with_pair(session)
    before = version(session)
    compartments.delete(session, [1], now=NOW)
    assert stored(session) == [(0, 1, 2)]
    assert structural(session) == [("compartment_delete", 1)]
    head = head_of(session)
    assert head.pair() is None
    assert head.published_pending
    assert (head.materialized_ms, head.visible_memory_ids, head.boundary_mid) == (5, [], "")
    assert version(session) == before + 1


def test_a_merge_covers_all_of_it_under_the_first_sequence(session: models.Session) -> None:
    compartments.publish(session, [draft(1, 2), draft(3, 3), draft(4, 6)], now=NOW)
    with_pair(session)
    row = compartments.merge(session, 1, 2, Text(title="both", p1="all"), now=later(1))
    assert (row.start, row.end, row.start_mid, row.end_mid, row.p1) == (3, 6, "m3", "m6", "all")
    assert stored(session) == [(0, 1, 2), (1, 3, 6)]
    assert structural(session) == [("compartment_merge", 1)]
    assert head_of(session).pair() is None


def test_other_words_clear_the_pair_too(session: models.Session) -> None:
    compartments.publish(session, [Draft(1, 2, Text(content="flat"))], now=NOW)
    with_pair(session)
    row = compartments.rewrite(session, 0, Text(title="T", p1="tiers"), now=NOW)
    assert (row.p1, row.legacy, row.start, row.end) == ("tiers", False, 1, 2)
    assert structural(session) == [("compartment_upgrade", 0)]
    assert head_of(session).pair() is None


def test_a_rewind_takes_what_reaches_past_it(session: models.Session) -> None:
    compartments.publish(session, [draft(1, 2), draft(3, 3), draft(4, 6)], now=NOW)
    with_pair(session)
    assert compartments.revert(session, 5, now=NOW) == [2]
    assert structural(session) == [("recomp_boundary_change", 2)]
    assert head_of(session).pair() is None
    with_pair(session)
    assert compartments.revert(session, 5, now=NOW) == []
    assert head_of(session).pair() == PAIR


def test_what_is_not_there_changes_nothing(session: models.Session) -> None:
    compartments.publish(session, [draft(1, 2)], now=NOW)
    with_pair(session)
    acts: list[Callable[[], object]] = [
        lambda: compartments.delete(session, [0, 7], now=NOW),
        lambda: compartments.delete(session, [], now=NOW),
        lambda: compartments.merge(session, 0, 0, Text(p1="x"), now=NOW),
        lambda: compartments.merge(session, 0, 5, Text(p1="x"), now=NOW),
        lambda: compartments.rewrite(session, 7, Text(p1="x"), now=NOW),
    ]
    for act in acts:
        with pytest.raises(BadRequest):
            act()
    assert stored(session) == [(0, 1, 2)]
    assert structural(session) == []
    assert head_of(session).pair() == PAIR


def test_a_deleted_session_is_not_written(session: models.Session) -> None:
    models.Session.objects.filter(pk=session.pk).update(cleanup_pending=True)
    with pytest.raises(Refused) as refused:
        compartments.publish(session, [draft(1, 2)], now=NOW)
    assert refused.value.code == "unknown_session"


# --- lineages --------------------------------------------------------------------------------------------


def rewind(session: models.Session, through: int, number: int = 2) -> None:
    models.Lineage.objects.create(session=session, number=number, parent=number - 1, through_ordinal=through)
    state = {**session.engine_state, "lineage": number}
    models.Session.objects.filter(pk=session.pk).update(lineage=number, engine_state=state)
    session.refresh_from_db()


def test_after_a_rewind_ordinals_are_those_of_the_new_line(session: models.Session) -> None:
    rewind(session, 3)
    add_message(session, 4, lineage=2, mid="n4", links=[])
    assert [place.mid for place in places(session).values()] == ["m1", "m2", "m3", "n4"]
    done = compartments.publish(session, [draft(1, 4)], now=NOW)
    assert (done.rows[0].end_mid, done.rows[0].lineage) == ("n4", 2)
    with pytest.raises(BadRequest, match="no message 5"):
        compartments.publish(session, [draft(5, 5)], now=NOW)


def test_compartments_past_the_common_point_no_longer_resolve(session: models.Session) -> None:
    rows = compartments.publish(session, [draft(1, 2), draft(3, 6)], now=NOW).rows
    assert unresolved(session, rows) == set()
    rewind(session, 3)
    assert unresolved(session, rows) == {1}


def test_one_whose_ends_came_back_resolves_again(session: models.Session) -> None:
    rows = compartments.publish(session, [draft(1, 2), draft(4, 6)], now=NOW).rows
    rewind(session, 3)
    for ordinal in (4, 5, 6):
        add_message(session, ordinal, lineage=2)
    assert unresolved(session, rows) == set()


def test_a_line_of_a_line_ends_where_its_parent_did(session: models.Session) -> None:
    rewind(session, 5)
    add_message(session, 6, lineage=2, mid="n6")
    rewind(session, 2, number=3)
    add_message(session, 3, lineage=3, mid="o3")
    assert [place.mid for place in places(session).values()] == ["m1", "m2", "o3"]


def test_the_newest_revision_counts(session: models.Session) -> None:
    add_message(session, 10, revision=1, links=[[1, "c9", 0, "m10"]])
    with pytest.raises(BadRequest, match="call in message 10"):
        compartments.publish(session, [draft(9, 10)], now=NOW)
