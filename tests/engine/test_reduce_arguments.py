import json
from typing import Any

import pytest

from magiccontext.engine.reduce import (
    FATES,
    Fate,
    ReduceError,
    ReduceFault,
    TagFacts,
    copied_placeholders,
    copied_refusal,
    parse_drop,
    plan_reduce,
    storage_failure,
)
from magiccontext.engine.state import TagStatus

PARSED = [
    ("5", (5,)),
    ("3-5,5,1", (1, 3, 4, 5)),
    (" 1 , 3 - 4 ", (1, 3, 4)),
    ("[dropped §7§]", (7,)),
    ("[dropped §7§]-[dropped §9§]", (7, 8, 9)),
    ("tag 5, Tag 6", (5, 6)),
    ("tag 5-tag 7", (5, 6, 7)),
    ("§5", (5,)),
    ("§5§,§6-§8§", (5, 6, 7, 8)),
    ("§3-5§", (3, 4, 5)),
    ("1-1000", tuple(range(1, 1_001))),
    ("1-1000,1-1000", tuple(range(1, 1_001))),
]


@pytest.mark.parametrize(("text", "numbers"), PARSED)
def test_drop(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_drop({"drop": text}) == numbers


REFUSED: list[tuple[dict[str, Any], ReduceFault]] = [
    ({}, ReduceFault.EMPTY),
    ({"drop": ""}, ReduceFault.EMPTY),
    ({"drop": " \n"}, ReduceFault.EMPTY),
    ({"drop": None}, ReduceFault.EMPTY),
    ({"drop": [1, 2]}, ReduceFault.EMPTY),
    ({"drop": "one"}, ReduceFault.NOT_AN_INTEGER),
    ({"drop": "1,"}, ReduceFault.NOT_AN_INTEGER),
    ({"drop": "1-2-3"}, ReduceFault.NOT_AN_INTEGER),
    ({"drop": "§1§§2§"}, ReduceFault.NOT_AN_INTEGER),
    ({"drop": "１-２"}, ReduceFault.NOT_AN_INTEGER),
    ({"drop": "9" * 5_000}, ReduceFault.NOT_AN_INTEGER),
    ({"drop": "5-3"}, ReduceFault.START_AFTER_END),
    ({"drop": "1-1001"}, ReduceFault.TOO_MANY),
    ({"drop": "1-999999999999999"}, ReduceFault.TOO_MANY),
    ({"drop": "1-600,1001-1600"}, ReduceFault.TOO_MANY),
]


@pytest.mark.parametrize(("arguments", "kind"), REFUSED)
def test_drop_is_refused(arguments: dict[str, Any], kind: ReduceFault) -> None:
    with pytest.raises(ReduceError) as caught:
        parse_drop(arguments)
    assert caught.value.kind is kind
    assert caught.value.text.startswith("Error:")
    assert caught.value.text.startswith("Error: Invalid range syntax.") is (kind is not ReduceFault.EMPTY)
    assert len(caught.value.text) < 300


def test_error_names_the_item_and_the_limit() -> None:
    with pytest.raises(ReduceError, match='"7-x"'):
        parse_drop({"drop": "1,7-x"})
    with pytest.raises(ReduceError, match="1000"):
        parse_drop({"drop": "1-5000"})


def test_echoed_summary_is_decoded_only_if_valid() -> None:
    assert parse_drop({"reduced": True, "summary": json.dumps({"drop": "3-5"})}) == (3, 4, 5)
    # The outer argument is used when it is there.
    assert parse_drop({"drop": "1", "reduced": True, "summary": json.dumps({"drop": "3-5"})}) == (1,)
    for summary in ("not json", "[" * 100_000, "[3]", json.dumps({"drop": 3}), json.dumps({}), None):
        with pytest.raises(ReduceError):
            parse_drop({"reduced": True, "summary": summary})
    with pytest.raises(ReduceError):
        parse_drop({"reduced": "true", "summary": json.dumps({"drop": "3"})})


def test_case_06_ranges_with_section_signs_lists_and_a_reversed_range() -> None:
    assert parse_drop({"drop": "§302§-§380§"}) == tuple(range(302, 381))
    assert parse_drop({"drop": "3-5,5,1"}) == (1, 3, 4, 5)
    with pytest.raises(ReduceError):
        parse_drop({"drop": "5-3"})


TAGS = {
    1: TagFacts(),
    2: TagFacts(tool_name="read"),
    3: TagFacts(held=True),
    4: TagFacts(status=TagStatus.DROPPED),
    5: TagFacts(queued=True),
    6: TagFacts(tool_name="mcp__magic-context__ctx_reduce"),
    7: TagFacts(inert=True),
    8: TagFacts(status=TagStatus.COMPACTED),
    9: TagFacts(status=TagStatus.COMPACTED, tool_name="ctx_reduce"),
}

# Section 2: (numbers, queued, error, what the answer says)
ANSWERS = [
    ((1, 2), (1, 2), False, ["Queued: drop §1§, §2§."]),
    ((1, 4, 5), (1,), False, ["Queued: drop §1§.", "2 more"]),
    ((1, 3), (1, 3), False, ["Queued: drop §1§, §3§.", "Held", "§3§"]),
    ((4, 5), (), False, ["already queued or processed"]),
    ((6,), (), False, ["Nothing to queue.", "§6§", "automatically"]),
    ((1, 6), (1,), False, ["Queued: drop §1§.", "§6§"]),
    ((7,), (), False, ["Nothing to queue.", "§7§", "framing"]),
    ((1, 11, 12), (), True, ["Error:", "§11§, §12§"]),
    ((1, 8), (), True, ["Error:", "conflict", "§8§"]),
    ((9,), (), True, ["Error:", "§9§"]),
    ((8, 11), (), True, ["Error:", "unknown", "§11§"]),
]


@pytest.mark.parametrize(("numbers", "queue", "error", "says"), ANSWERS)
def test_answer(numbers: tuple[int, ...], queue: tuple[int, ...], error: bool, says: list[str]) -> None:
    plan = plan_reduce(numbers, TAGS.get)
    assert (plan.queue, plan.error) == (queue, error)
    assert plan.text.startswith("Error:") is error
    for words in says:
        assert words in plan.text


def test_the_plan_says_what_became_of_every_number() -> None:
    plan = plan_reduce((1, 2, 3, 4, 5, 6, 7), TAGS.get)
    assert plan.queue == (1, 2, 3)
    assert plan.held == (3,)
    assert plan.already == (4, 5)
    assert plan.refused_reduce_calls == (6,)
    assert plan.inert == (7,)


def test_every_fate_has_a_row() -> None:
    assert [fate for fate, _ in FATES] == list(Fate)


def test_case_07_one_unknown_tag_refuses_the_whole_call() -> None:
    plan = plan_reduce((*range(1, 8), 99), TAGS.get)
    assert plan.error and not plan.queue
    assert "§99§" in plan.text


def test_case_08_a_protected_tag_is_queued_and_reported_held() -> None:
    plan = plan_reduce((3,), TAGS.get)
    assert (plan.queue, plan.held, plan.error) == ((3,), (3,), False)


def test_storage_failure_gives_the_reason() -> None:
    assert storage_failure("database is locked").startswith("Error:")
    assert "database is locked" in storage_failure("database is locked")


COPIED = [
    ("[dropped §7§]", True),
    (" [dropped §7§]\n", True),
    ("[dropped §7§][dropped §8§]", True),
    ("text [dropped §7§]", False),
    ("[dropped 7]", False),
    ("...[truncated]", True),
    ("abcde...[truncated]", True),
    ("abcdef...[truncated]", False),
    ("[object]", True),
    ("[3 items]", True),
    ("[items]", False),
    ("[3 items] more", False),
    ("", False),
]


@pytest.mark.parametrize(("value", "copied"), COPIED)
def test_copied_value(value: str, copied: bool) -> None:
    found = copied_placeholders({"content": value})
    assert bool(found) is copied
    if copied:
        assert found == [("content", value.strip())]


def test_copied_values_are_found_anywhere_and_in_order() -> None:
    arguments = {
        "path": "a.py",
        "edits": [{"old": "x", "new": "[object]"}, {"old": "[2 items]", "new": 5}],
        "more": {"deep": [["...[truncated]"]]},
        "[object]": "a key is no value",
    }
    assert copied_placeholders(arguments) == [
        ("edits[0].new", "[object]"),
        ("edits[1].old", "[2 items]"),
        ("more.deep[0][0]", "...[truncated]"),
    ]


def test_copied_values_are_capped() -> None:
    many = {f"p{i}": "[object]" for i in range(40)}
    assert [offence.path for offence in copied_placeholders(many)] == [f"p{i}" for i in range(12)]
    long = copied_placeholders({"content": "[dropped §" + "7" * 500 + "§]"})
    assert len(long[0].quoted) == 160


def test_depth_has_no_bound() -> None:
    deep: Any = "[object]"
    for _ in range(20_000):
        deep = [deep]
    assert len(copied_placeholders({"a": deep})) == 1


def test_case_57_a_copied_placeholder_in_a_write_is_refused_before_execution() -> None:
    offences = copied_placeholders({"filePath": "a.py", "content": "[dropped §7§]"})
    refusal = copied_refusal(offences)
    assert "content" in refusal and "[dropped §7§]" in refusal
    assert "ctx_expand" in refusal
    assert copied_placeholders({"filePath": "a.py", "content": "x = 1"}) == []
