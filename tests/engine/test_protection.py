import pytest

from magiccontext.engine.lanes.protection import (
    ToolTag,
    default_floor,
    held_by_tool,
    in_window,
    merge_protected_tools,
    protection_floor,
    window_cutoff,
)


@pytest.mark.parametrize(
    ("usable", "floor"),
    [
        (1_024, 82),
        (50_000, 4_000),
        (100_000, 8_000),
        (200_000, 16_000),
        (320_000, 16_000),
        (400_000, 20_000),
        (1_000_000, 50_000),
        (2_000_000, 64_000),
        (1_006, 80),
        (1_010, 81),
    ],
)
def test_default_floor(usable: int, floor: int) -> None:
    assert default_floor(usable) == floor


def test_configured_floor_wins_and_is_bounded() -> None:
    assert protection_floor(None, 200_000) == 16_000
    assert protection_floor(4_000, 200_000) == 4_000
    for outside in (3_999, 1_000_001):
        with pytest.raises(ValueError, match="protected_tokens"):
            protection_floor(outside, 200_000)


def tags(*tokens: int | None, start: int = 1) -> list[ToolTag]:
    return [ToolTag(number, tokens=count) for number, count in enumerate(tokens, start)]


# (tokens of tags 1…n, floor, ratio, cutoff)
CUTOFFS = [
    ((), 1_000, 1.0, None),
    ((10,), 1_000, 1.0, 1),
    ((10, 10), 1_000, 1.0, 1),
    ((400, 400, 400, 400, 400), 1_000, 1.0, 3),
    ((400, 400, 400, 400, 400), 1_200, 1.0, 3),
    ((400, 400, 400, 400, 400), 1_201, 1.0, 2),
    ((400, 400, 400, 400, 400), 1_201, 1.1, 3),
    ((400, 400, 400, 400, 5_000), 1_000, 1.0, 3),  # never fewer than three
    ((400, None, None, None, None), 300, 1.0, 1),
    ((1, 1, 1, 1, 1), 1_000, 1.0, 1),  # never reached: all of them
    ((0, 334, 333, 333), 1_000, 1.0, 2),
    ((0, 333, 333, 333), 1_000, 1.0, 1),
    ((0, 333, 333, 333), 1_000, 1.0005, 2),  # the product is rounded up
]


@pytest.mark.parametrize(("tokens", "floor", "ratio", "cutoff"), CUTOFFS)
def test_window_cutoff(tokens: tuple[int | None, ...], floor: int, ratio: float, cutoff: int | None) -> None:
    found = tags(*tokens)
    assert window_cutoff(found, floor, ratio) == cutoff
    assert window_cutoff(reversed(found), floor, ratio) == cutoff


def test_equal_numbers_are_one_group() -> None:
    twice = [ToolTag(4, "b", tokens=10), ToolTag(4, "a", tokens=990), *tags(10, 10, 10)]
    assert window_cutoff(twice, 500) == 2, "three newest numbers, not three rows"
    assert window_cutoff(twice, 1_000) == 2


def test_status_does_not_matter_to_the_window() -> None:
    found = tags(400, 400, 400, 400, 400)
    dropped = [ToolTag(tag.number, tokens=tag.tokens, active=False) for tag in found]
    assert window_cutoff(dropped, 1_201) == window_cutoff(found, 1_201) == 2


def test_membership() -> None:
    assert [in_window(number, 3) for number in (2, 3, 4)] == [False, True, True]
    assert not in_window(1, None)


@pytest.mark.parametrize(
    ("maps", "merged"),
    [
        ((), {"todowrite": 1, "ctx_reduce": 3}),
        (({"mcp_TodoWrite": 2}, {"todowrite": 4}), {"todowrite": 4, "ctx_reduce": 3}),
        (({"todowrite": 0},), {"ctx_reduce": 3}),
        (({"Read": 2},), {"todowrite": 1, "ctx_reduce": 3, "read": 2}),
        (({"mcp__magic-context__ctx_reduce": 1},), {"todowrite": 1, "ctx_reduce": 1}),
    ],
)
def test_merged_protected_tools(maps: tuple[dict[str, int], ...], merged: dict[str, int]) -> None:
    assert merge_protected_tools(*maps) == merged


def test_newest_active_tags_of_each_protected_tool_are_held() -> None:
    found = [
        ToolTag(1, tool_name="todowrite"),
        ToolTag(2, tool_name="mcp_TodoWrite"),
        ToolTag(3, tool_name="todowrite", active=False),
        ToolTag(4, tool_name="ctx_reduce"),
        ToolTag(5, tool_name="read"),
        ToolTag(6, tool_name=None),
    ]
    assert held_by_tool(found, merge_protected_tools()) == {2, 4}
    assert held_by_tool(found, {}) == frozenset()


def test_the_defaults_are_not_changed_by_a_merge() -> None:
    merge_protected_tools({"todowrite": 9})
    assert merge_protected_tools()["todowrite"] == 1
