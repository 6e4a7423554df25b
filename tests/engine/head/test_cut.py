"""Which raw messages leave, and what becomes of a boundary that is lost (history-render section 7)."""

from dataclasses import replace

import pytest

from magiccontext.engine.head.cut import (
    Cut,
    Healing,
    Remedy,
    Row,
    Status,
    boundary_of,
    cut,
    heal,
    newest_boundary,
)
from magiccontext.engine.head.model import Boundary
from magiccontext.engine.state import Link
from magiccontext.engine.transcript import Role
from tests.engine.head.building import compartment, fold, refresh, source


def rows(first: int, last: int) -> list[Row]:
    return [Row(f"m{n}", n) for n in range(first, last + 1)]


def links(number: int, *calls: tuple[bool, str, str], role: Role = Role.USER) -> Row:
    """A message with (is a call, call id, owner) as its parts."""
    return Row(
        f"m{number}",
        number,
        role,
        tuple(Link(is_call, call_id, part, owner) for part, (is_call, call_id, owner) in enumerate(calls)),
    )


AT_3 = Boundary("m3", 3)


def test_everything_through_the_boundary_leaves() -> None:
    assert cut(AT_3, rows(1, 6)) == Cut(Status.APPLIED, (0, 1, 2))


def test_a_message_covered_in_part_stays() -> None:
    assert cut(replace(AT_3, end_block=2), rows(1, 6)) == Cut(Status.APPLIED, (0, 1))


def test_system_messages_are_never_cut() -> None:
    given = [Row("s", 1, Role.SYSTEM), Row("m2", 2), Row("m3", 3), Row("m4", 4)]
    assert cut(AT_3, given).removed == (1, 2)


def test_what_the_host_inserted_follows_the_row_before_it() -> None:
    given = [Row(), *rows(1, 3), Row(), Row(), Row("m4", 4), Row()]
    assert cut(AT_3, given).removed == (1, 2, 3, 4, 5)
    assert cut(replace(AT_3, end_block=0), given).removed == (1, 2)


@pytest.mark.parametrize(
    ("boundary", "given", "status"),
    [
        (None, rows(1, 6), Status.NOT_REQUIRED),
        (AT_3, rows(4, 6), Status.BOUNDARY_PRECEDES_WINDOW),
        (AT_3, [], Status.BOUNDARY_PRECEDES_WINDOW),
        (AT_3, [Row("m1", 1), Row("m2", 2), Row("m4", 4)], Status.REFUSED),
        (AT_3, [*rows(1, 3), Row("m3", 4)], Status.REFUSED),
        (AT_3, [*rows(1, 3), Row("", 4)], Status.REFUSED),
        (AT_3, [Row("m2", 2), Row("m1", 1), Row("m3", 3)], Status.REFUSED),
        (AT_3, [*rows(1, 3), Row("m4", 3)], Status.REFUSED),
        (Boundary("", 3), rows(1, 6), Status.REFUSED),
    ],
)
def test_status(boundary: Boundary | None, given: list[Row], status: Status) -> None:
    assert cut(boundary, given) == Cut(status)


def test_with_compaction_off_nothing_is_attempted() -> None:
    assert cut(AT_3, rows(1, 6), compaction_off=True) == Cut(Status.NOT_ATTEMPTED)


def test_a_pair_torn_by_the_cut_goes_whole() -> None:
    given = [
        Row("m1", 1),
        links(2, (True, "a", "m2"), (True, "b", "m2"), role=Role.ASSISTANT),
        links(3, (False, "a", "m2")),
        links(4, (False, "b", "m2")),
        Row("m5", 5),
    ]
    assert cut(Boundary("m2", 2), given) == Cut(Status.APPLIED, (0, 1), ((2, 0), (3, 0)))
    assert cut(Boundary("m3", 3), given) == Cut(Status.APPLIED, (0, 1, 2), ((3, 0),))
    assert cut(Boundary("m4", 4), given).severed == ()


def test_a_call_whose_result_was_cut_takes_its_other_results_along() -> None:
    given = [
        links(1, (False, "a", "m2")),
        links(2, (True, "a", "m2"), (True, "b", "m2"), role=Role.ASSISTANT),
        links(3, (False, "a", "m2"), (False, "b", "m2")),
    ]
    assert cut(Boundary("m1", 1), given).severed == ((1, 0), (2, 0))


def test_case_46_a_call_id_used_again_later_survives() -> None:
    given = [
        links(1, (True, "a", "m1"), role=Role.ASSISTANT),
        links(2, (False, "a", "m1")),
        links(3, (True, "a", "m3"), role=Role.ASSISTANT),
        links(4, (False, "a", "m3")),
    ]
    assert cut(Boundary("m2", 2), given) == Cut(Status.APPLIED, (0, 1))


def test_case_47_the_newest_compartment_with_an_end_is_the_boundary() -> None:
    ends = [compartment(0), compartment(1), compartment(2, end_mid=""), compartment(3, resolves=False)]
    assert newest_boundary(ends) == Boundary("m20", 20)
    assert newest_boundary(ends[2:]) is None


def test_case_04_a_compartment_the_pair_does_not_cover_stays_raw() -> None:
    before = source(compartments=(compartment(0),))
    after = source(compartments=(compartment(0), compartment(1)))
    pair = fold(before)
    assert len(cut(boundary_of(pair, after.compartments), rows(1, 25)).removed) == 10
    assert len(cut(boundary_of(refresh(pair, after), after.compartments), rows(1, 25)).removed) == 20


def test_case_05_a_pair_that_covers_nothing_cuts_nothing() -> None:
    pair = fold(source())
    published = (compartment(0),)
    assert cut(boundary_of(pair, published), rows(1, 25)) == Cut(Status.NOT_REQUIRED)
    assert len(cut(boundary_of(None, published), rows(1, 25)).removed) == 10


def test_case_44_a_boundary_before_the_window_is_success_a_missing_one_is_not() -> None:
    assert not cut(AT_3, rows(10, 20)).status.degraded
    lost = cut(Boundary("gone", 12), rows(10, 20))
    assert lost == Cut(Status.REFUSED)
    visible = newest_boundary([compartment(0), compartment(1)], {row.mid for row in rows(10, 20)})
    waiting = heal(1, lost.status, busting=False, compartments_changed=False, visible=visible)
    assert waiting == Healing(2)
    healed = heal(waiting.degraded, lost.status, busting=True, compartments_changed=False, visible=visible)
    assert healed == Healing(0, Remedy.REANCHOR, Boundary("m20", 20))
    assert cut(healed.boundary, rows(10, 20)).status is Status.APPLIED


REFUSED, FOUND, BEFORE = Status.REFUSED, Status.APPLIED, Status.BOUNDARY_PRECEDES_WINDOW


@pytest.mark.parametrize(
    ("degraded", "status", "busting", "changed", "visible", "healing"),
    [
        (0, REFUSED, True, False, AT_3, Healing(1)),
        (1, REFUSED, True, False, AT_3, Healing(0, Remedy.REANCHOR, AT_3)),
        (1, REFUSED, True, False, None, Healing(0, Remedy.MATERIALIZE)),
        (1, REFUSED, False, False, AT_3, Healing(2)),
        (7, REFUSED, False, False, None, Healing(8)),
        (7, REFUSED, True, True, AT_3, Healing(1)),
        (7, FOUND, True, False, AT_3, Healing(0)),
        (7, BEFORE, True, False, AT_3, Healing(0)),
    ],
)
def test_healing(
    degraded: int, status: Status, busting: bool, changed: bool, visible: Boundary | None, healing: Healing
) -> None:
    found = heal(degraded, status, busting=busting, compartments_changed=changed, visible=visible)
    assert found == healing
