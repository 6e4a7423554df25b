"""Chunk text (historian section 4, without expansions)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magiccontext.engine.chunk_text import CUT_LINE, Entry, blocks_of, chunk
from magiccontext.engine.transcript import Kind, Parsed, Part, Role


def words(texts: Sequence[str]) -> list[int]:
    """One token a word."""
    return [len(text.split()) for text in texts]


def text(value: str, **more: Any) -> Part:
    return Part(0, Kind.TEXT, text=value, **more)


def tool(name: str = "bash", **arguments: Any) -> Part:
    return Part(1, Kind.TOOL_CALL, call_id="c", name=name, arguments=json.dumps(arguments).encode())


RESULT = Part(0, Kind.TOOL_RESULT, call_id="c", text="output", has_output=True)


def history(*messages: tuple[Role, list[Part]]) -> list[Entry]:
    return [Entry(n, f"m{n}", Parsed(role, tuple(parts))) for n, (role, parts) in enumerate(messages, 1)]


def user(*parts: Part | str) -> tuple[Role, list[Part]]:
    return Role.USER, [text(p) if isinstance(p, str) else p for p in parts]


def agent(*parts: Part | str) -> tuple[Role, list[Part]]:
    return Role.ASSISTANT, [text(p) if isinstance(p, str) else p for p in parts]


def lines(*messages: tuple[Role, list[Part]]) -> list[str]:
    return [block.line() for block in blocks_of(history(*messages))[0]]


def test_it_works() -> None:
    assert lines(user("find\n the  bug"), agent("I look"), agent("found it"), user("thanks")) == [
        "[1] U: find the bug",
        "[2-3] A: I look / found it",
        "[4] U: thanks",
    ]


def test_a_message_with_text_is_told_by_its_text_alone() -> None:
    assert lines(agent("I look", tool(path="a"))) == ["[1] A: I look"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (tool("bash", description="List  files", command="ls"), "TC: List files"),
        (tool("read", filePath="src/a.py"), "TC: read(src/a.py)"),
        (tool("Read", file_path="src/a.py"), "TC: Read(src/a.py)"),
        (tool("grep", query="q", pattern="p"), "TC: grep(p)"),
        (tool("grep", path="x" * 61), f"TC: grep({'x' * 60}…)"),
        (tool("lsp", symbol="Parser"), "TC: lsp(Parser)"),
        (tool("bash", command="ls"), "TC: bash"),
        (tool("bash", path=7, description=["x"]), "TC: bash"),
        (Part(0, Kind.TOOL_CALL, name="odd", arguments=b"[1]"), "TC: odd"),
        (Part(0, Kind.TOOL_CALL, name="odd", arguments=b"{"), "TC: odd"),
    ],
)
def test_how_a_call_is_told(call: Part, told: str) -> None:
    assert lines(agent(call)) == [f"[1] A: {told}"]


def test_results_are_noise_and_their_ordinals_go_to_the_next_block() -> None:
    entries = history(user("go"), agent(tool(path="a")), user(RESULT), agent(tool(path="b")), user(RESULT))
    blocks, trailing = blocks_of(entries)
    assert [b.line() for b in blocks] == ["[1] U: go", "[2-4] A: TC: bash(a) / TC: bash(b)"]
    assert [b.covers for b in blocks] == [[1], [2, 3, 4]]
    assert trailing == [5]
    assert [b.tool_only for b in blocks] == [False, True]


def test_a_block_is_tool_only_until_a_message_has_text() -> None:
    blocks, _ = blocks_of(history(agent(tool()), agent("done")))
    assert blocks[0].tool_only is False


def test_injected_text_of_a_user_message_is_not_told() -> None:
    assert lines(
        user("<system-reminder>be quick</system-reminder> fix it <!-- OMO_INTERNAL_INITIATOR -->")
    ) == ["[1] U: fix it"]
    assert lines(user("<system-reminder>be quick</system-reminder>")) == []
    assert lines(agent("<system-reminder>x</system-reminder>")) == [
        "[1] A: <system-reminder>x</system-reminder>"
    ]


def test_a_user_message_with_calls_and_no_text_joins_the_assistant() -> None:
    assert lines(agent(tool(path="a")), user(tool(path="b"))) == ["[1-2] A: TC: bash(a) / TC: bash(b)"]


def test_other_roles_have_their_letter() -> None:
    assert lines((Role.SYSTEM, [text("rules")]), (Role.TOOL, [RESULT]), user("hi")) == [
        "[1] S: rules",
        "[3] U: hi",
    ]


def test_what_the_model_never_saw_is_not_told() -> None:
    assert lines(user(text("for the person", ignored=True), "for the model")) == ["[1] U: for the model"]
    assert lines(agent(Part(0, Kind.REASONING, text="hm"), "yes")) == ["[1] A: yes"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Committed `1A2B3C4` and deadbeef99", "commits: 1a2b3c4, deadbeef99 Committed and"),
        ("see 1a2b3c4 there", "commits: 1a2b3c4 see 1a2b3c4 there"),
        ("too short 1a2b3c, too long 1234567890abc", "too short 1a2b3c, too long 1234567890abc"),
        ("merged aaaaaa1 aaaaaa2 aaaaaa3 aaaaaa4 aaaaaa5 aaaaaa6 aaaaaa1",
         "commits: aaaaaa1, aaaaaa2, aaaaaa3, aaaaaa4, aaaaaa5 merged"),
    ],
)  # fmt: skip
def test_commit_hashes_are_named_first(said: str, told: str) -> None:
    assert lines(agent(said)) == [f"[1] A: {told}"]
    assert lines(user(said)) == [f"[1] U: {said}"]


# the budget


def test_a_block_that_does_not_fit_is_not_begun() -> None:
    entries = history(user("one two"), agent("three four"), user("five six"))
    assert chunk(entries, 10, words).text == "[1] U: one two\n[2] A: three four"
    told = chunk(entries, 10, words)
    assert (told.through, told.has_more) == (2, True)
    whole = chunk(entries, 15, words)
    assert (whole.through, whole.has_more, whole.tokens) == (3, False, 15)


def test_trailing_noise_is_covered_and_is_not_more() -> None:
    told = chunk(history(user("go"), agent(tool()), user(RESULT)), 100, words)
    assert (told.through, told.has_more) == (3, False)


def test_a_first_block_over_the_budget_ends_behind_a_message_that_fits() -> None:
    told = chunk(history(agent("one two"), agent("three four"), agent("five six")), 8, words)
    assert told.text == "[1-2] A: one two / three four"
    assert (told.through, told.has_more) == (2, True)


def test_one_message_over_the_budget_is_cut_and_says_so() -> None:
    told = chunk(history(user("word " * 500), agent("more")), 40, words)
    assert told.text.endswith(f"\n{CUT_LINE}")
    assert told.tokens <= 40
    assert (told.through, told.has_more) == (1, True)
    alone = chunk(history(user("word " * 500)), 40, words)
    assert (alone.through, alone.has_more) == (1, False)


def test_nothing_but_noise() -> None:
    told = chunk(history(user(RESULT), user(RESULT)), 40, words)
    assert (told.text, told.through, told.has_more) == ("", 2, False)
    assert chunk([], 40, words).through == 0


MESSAGES = st.lists(
    st.one_of(
        st.builds(user, st.text(alphabet="ab \n", max_size=30)),
        st.builds(agent, st.text(alphabet="ab \n", max_size=30)),
        st.just(agent(tool(path="x"))),
        st.just(user(RESULT)),
    ),
    max_size=25,
)


@given(MESSAGES, st.integers(20, 60))
def test_reading_on_covers_every_message_once(messages: Any, budget: int) -> None:
    """Going on behind where a chunk stopped tells each message exactly once, however small the budget."""
    entries = history(*messages)
    told: list[int] = []
    start = 0
    while True:
        part = chunk(entries[start:], budget, words)
        told += [p.ordinal for b in blocks_of(entries[start : part.through])[0] for p in b.pieces]
        if not part.has_more:
            break
        assert part.through > start
        start = part.through
    assert told == [p.ordinal for b in blocks_of(entries)[0] for p in b.pieces]


@given(MESSAGES)
def test_blocks_and_trailing_noise_leave_no_hole(messages: Any) -> None:
    blocks, trailing = blocks_of(history(*messages))
    assert [n for b in blocks for n in b.covers] + trailing == list(range(1, len(messages) + 1))
