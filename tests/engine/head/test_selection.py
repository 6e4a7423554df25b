"""Who may see a memory and which fit (history-render section 4, memory-search section 2; examples 48, 49)."""

import random

import pytest

from magiccontext.engine.head.model import Member, ProfileEntry, Workspace
from magiccontext.engine.head.selection import (
    eligible,
    member_floor,
    preference,
    select_memories,
    shared_categories,
    trim_profile,
)
from tests.engine.head.building import NOW, PROJECT, count, memory, source

OTHER, THIRD = "git:other", "git:third"


def workspace(share: str | None = None, *, names: tuple[str, ...] = ("own", "svc", "lib")) -> Workspace:
    members = (Member(PROJECT, names[0]), Member(OTHER, names[1]), Member(THIRD, names[2]))
    return Workspace(members, share)


def shared(number: int, **fields: object) -> object:
    return memory(number, **({"project": OTHER, "shareable": True} | fields))


def test_what_does_not_fit_is_skipped_not_the_end() -> None:
    """Example 48."""
    pool = [
        memory(7, "a" * 70, importance=90),
        memory(8, "b" * 140, importance=80),
        memory(9, "c" * 14, importance=10),
    ]
    assert [m.id for m in select_memories(source(), pool, 60, count)] == [7, 9]
    assert [m.id for m in select_memories(source(), pool, 46, count)] == [7]
    assert [m.id for m in select_memories(source(), pool, 47, count)] == [7, 9]


def test_every_member_gets_an_equal_floor() -> None:
    """Example 49."""
    assert member_floor(100, 40, 3) == 20


def test_case_41_memories_without_importance_rank_by_recency() -> None:
    ranked = sorted(
        [
            memory(1, last_seen_ms=5),
            memory(2, verified_ms=9),
            memory(3),
            memory(4, last_seen_ms=9, verified_ms=1),
            memory(5, importance=1),
            memory(6, status="permanent"),
            memory(7, importance=100),
        ],
        key=preference,
    )
    assert [m.id for m in ranked] == [6, 7, 5, 2, 4, 1, 3]


def test_a_quiet_member_is_not_crowded_out() -> None:
    own = [memory(number, "x" * 70, importance=90) for number in range(1, 30)]
    foreign = [shared(number, content="y" * 70, importance=10) for number in range(50, 55)]
    given = source(workspace=workspace())
    chosen = {m.id for m in select_memories(given, [*own, *foreign], 400, count)}
    assert chosen & {m.id for m in foreign}
    alone = select_memories(source(), [*own, *foreign], 400, count)
    assert not {m.id for m in alone} & {m.id for m in foreign}


def test_what_the_floors_leave_is_shared_out_by_preference() -> None:
    own = [memory(number, "x" * 70, importance=90) for number in range(1, 30)]
    given = source(workspace=workspace())
    # One opening of the category, then every further memory at its own price: as many as without members.
    assert len(select_memories(given, own, 400, count)) == len(select_memories(source(), own, 400, count)) > 9


def test_permanents_come_before_the_floors() -> None:
    own = [memory(number, "x" * 70, status="permanent", importance=1) for number in range(1, 30)]
    foreign = [shared(50, content="y" * 70, importance=100)]
    chosen = select_memories(source(workspace=workspace()), [*own, *foreign], 300, count)
    assert {m.id for m in chosen} <= {m.id for m in own}


@pytest.mark.parametrize(
    ("stored", "categories", "valid"),
    [
        (None, ("CONSTRAINTS",), True),
        ("null", ("CONSTRAINTS",), True),
        ("[]", (), True),
        ('["NAMING","ARCHITECTURE","NAMING"]', ("ARCHITECTURE", "NAMING"), True),
        ('["NAMING","OTHER"]', (), False),
        ('"NAMING"', (), False),
        ("{", (), False),
        ("", (), False),
        ('[["NAMING"]]', (), False),
        ("[1]", (), False),
    ],
)
def test_share_lists(stored: str | None, categories: tuple[str, ...], valid: bool) -> None:
    assert shared_categories(workspace(stored)) == (categories, valid)


@pytest.mark.parametrize(
    ("fields", "visible"),
    [
        ({}, True),
        ({"status": "permanent"}, True),
        ({"scope": "universe"}, True),
        ({"status": "archived"}, False),
        ({"shareable": False}, False),
        ({"scope": "galaxy"}, False),
        ({"category": "NAMING"}, False),
        ({"expires_ms": NOW}, False),
        ({"expires_ms": NOW + 1}, True),
        ({"project": "git:elsewhere"}, False),
    ],
)
def test_a_foreign_memory_needs_everything(fields: dict[str, object], visible: bool) -> None:
    given = source(workspace=workspace(), memories=(shared(1, **fields),))
    assert bool(eligible(given, NOW)) == visible
    assert not eligible(source(memories=(shared(1, **fields),)), NOW)


def test_an_own_memory_needs_only_to_live() -> None:
    pool = (memory(1, category="X"), memory(2, status="archived"), memory(3, expires_ms=NOW))
    assert [m.id for m in eligible(source(memories=pool), NOW)] == [1]


def test_the_profile_skips_what_does_not_fit() -> None:
    entries = [ProfileEntry(3, "c" * 5, 1), ProfileEntry(1, "a" * 500, 2), ProfileEntry(2, "b" * 5, 2)]
    assert [e.id for e in trim_profile(entries, 12, count)] == [3, 2]
    assert [e.id for e in trim_profile(entries, 11, count)] == [3]


def test_order_of_the_pool_does_not_matter() -> None:
    pool = [memory(n, "x" * (n % 7 * 20), importance=n % 3 or None, last_seen_ms=n % 2) for n in range(40)]
    expected = select_memories(source(), pool, 200, count)
    random.Random(1).shuffle(pool)
    assert select_memories(source(), pool, 200, count) == expected
