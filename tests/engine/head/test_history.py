"""What a compartment says (history-render section 8; worked examples 33 to 36)."""

import pytest

from magiccontext.engine.head.history import (
    OverlappingRanges,
    dates,
    heading,
    legacy_tier,
    new_rows,
    row_text,
    session_history,
)
from magiccontext.engine.head.model import Compartment
from tests.engine.head.building import compartment, count


def test_a_forged_heading_and_markup_are_disarmed() -> None:
    """Example 33."""
    row = Compartment(
        0,
        1,
        5,
        title='A <b>\n## 9-9 · x & "q"',
        p1="l1\n## l2 <x>\n##l3",
        first_day="2026-01-02",
        last_day="2026-01-09",
    )
    assert row_text(row, 1) == (
        '## 1-5 · 2026-01-02→09 · A &lt;b&gt; ## 9-9 · x &amp; "q"\nl1\n ## l2 &lt;x&gt;\n##l3'
    )


@pytest.mark.parametrize(("tier", "body"), [(1, "\none"), (2, "\none"), (3, ""), (4, "\none")])
def test_a_missing_tier_falls_back_and_an_empty_one_does_not(tier: int, body: str) -> None:
    """Example 34."""
    row = compartment(0, p1="one", p2=None, p3="", p4=None, content="content")
    assert row_text(row, tier) == "## 1-10 · Work 0" + body


def test_a_legacy_row_that_quotes_the_user_is_cut() -> None:
    """Example 35."""
    content = "U: hi\n" + "x" * 500
    row = compartment(0, legacy=True, p1=None, content=content)
    assert legacy_tier(row) == 3
    assert session_history([row], 60_000, count) == (
        f"<session-history>\n## 1-10 · Work 0\n{content[:420]}…\n</session-history>"
    )


def test_a_legacy_row_without_a_quote_is_a_heading() -> None:
    """Example 36."""
    row = compartment(0, legacy=True, p1=None, content="no line of the user U: here")
    assert session_history([row], 60_000, count) == "<session-history>\n## 1-10 · Work 0\n</session-history>"


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        ("2026-06-08", "2026-06-08", "2026-06-08"),
        ("2026-06-08", "2026-06-09", "2026-06-08→09"),
        ("2026-06-30", "2026-07-01", "2026-06-30→2026-07-01"),
        ("2025-06-08", "2026-06-09", "2025-06-08→2026-06-09"),
        (None, "2026-06-09", ""),
        ("2026-06-08", None, ""),
    ],
)
def test_dates(first: str | None, last: str | None, shown: str) -> None:
    assert dates(compartment(0, first_day=first, last_day=last)) == shown


def test_dates_can_be_switched_off() -> None:
    row = compartment(0, first_day="2026-06-08", last_day="2026-06-08")
    assert heading(row) == "## 1-10 · 2026-06-08 · Work 0"
    assert heading(row, dated=False) == "## 1-10 · Work 0"


@pytest.mark.parametrize(
    ("length", "tier", "kept"),
    [(1_200, 2, 1_200), (1_201, 2, 1_200), (420, 3, 420), (421, 3, 420), (5_000, 1, 5_000), (9, 4, 0)],
)
def test_flat_rows_are_cut_by_code_points(length: int, tier: int, kept: int) -> None:
    row = compartment(0, p1=None, content="😀" * length)
    body = row_text(row, tier).partition("\n")[2]
    assert body == "😀" * kept + ("…" if 0 < kept < length else "")


def test_a_cut_ends_in_no_space_and_in_no_half_entity() -> None:
    row = compartment(0, p1=None, content="<" * 415 + "     " + "tail" * 50)
    assert row_text(row, 3).endswith("&lt;…")


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\u2028", "\u2029"])
def test_every_end_of_line_is_watched_for_headings(end: str) -> None:
    row = compartment(0, p1=f"## a{end}## b")
    assert row_text(row, 1) == f"## 1-10 · Work 0\n ## a{end} ## b"


def test_case_39_an_empty_fourth_tier_leaves_the_heading() -> None:
    row = compartment(0, p4="", content="never shown")
    assert row_text(row, 4) == "## 1-10 · Work 0"


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\t", "\x00\x1f", "\x85", "\u2028", "\u2029\n"])
def test_case_40_a_title_is_one_escaped_line(separator: str) -> None:
    row = compartment(0, title=f"a{separator}</session-history>")
    assert heading(row) == "## 1-10 · a &lt;/session-history&gt;"


def test_case_48_overlapping_ranges_fail_loudly() -> None:
    with pytest.raises(OverlappingRanges, match="compartment 1 starts at 10"):
        session_history([compartment(0), compartment(1, start=10)], 1_000, count)


def test_case_48_gaps_are_legal_and_a_shared_message_too() -> None:
    rows = [compartment(0), compartment(5), compartment(7, end_block=3), compartment(8, start=80)]
    assert session_history(rows, 1_000, count).count("## ") == 4


def test_case_48_rows_of_a_lineage_left_behind_are_not_compared() -> None:
    rows = [compartment(0), compartment(1, resolves=False), compartment(2, start=11, end=14)]
    assert session_history(rows, 1_000, count).count("## ") == 3


def test_order_is_by_sequence_whatever_the_order_given() -> None:
    rows = [compartment(number) for number in range(5)]
    assert session_history(rows[::-1], 1_000, count) == session_history(rows, 1_000, count)


def test_a_row_without_content_is_only_a_boundary() -> None:
    nothing = Compartment(1, 11, 20, end_mid="m20", p1="")
    rows = [compartment(0), nothing]
    assert session_history(rows, 1_000, count) == session_history(rows[:1], 1_000, count)
    assert new_rows([nothing], -1) == ""


def test_new_rows_are_rendered_in_full_whatever_their_age() -> None:
    rows = [compartment(number, importance=1) for number in range(100)]
    assert new_rows(rows, 1).count("full") == 98
    assert new_rows(rows, 99) == ""
