"""``ctx_expand`` (memory-search section 12)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from magiccontext.engine.expand import (
    BUDGET,
    ExpandError,
    History,
    One,
    Range,
    Tagged,
    choose,
    expand,
)
from magiccontext.engine.state import DropMode, Link, Msg, Tag, TagStatus, TagType
from magiccontext.engine.transcript import Kind
from magiccontext.engine.wire import codec_for


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def line(*messages: dict[str, Any], removed: tuple[int, ...] = ()) -> list[Msg]:
    """Messages of one lineage with their tool links, as a pass stores them."""
    codec = codec_for("anthropic")
    built: list[Msg] = []
    owners: dict[str, str] = {}
    for ordinal, message in enumerate(messages, 1):
        raw, mid = json.dumps(message).encode(), f"m{ordinal}"
        parsed = codec.parse(raw)
        links = []
        for part in parsed.parts:
            if part.kind is Kind.TOOL_CALL:
                owners[part.call_id] = mid
                links.append(Link(True, part.call_id, part.index, mid))
            elif part.kind is Kind.TOOL_RESULT:
                links.append(Link(False, part.call_id, part.index, owners[part.call_id]))
        built.append(
            Msg(mid, 1, ordinal, parsed.role, b"", raw, "", links=tuple(links), removed=ordinal in removed)
        )
    return built


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def agent(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def tool_use(id: str = "c1", name: str = "read", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def tool_result(content: Any, id: str = "c1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


CONVERSATION = (
    user("find the bug"),
    agent({"type": "thinking", "thinking": "let me see", "signature": "s"}, tool_use(path="a.py")),
    user([tool_result("line one\n  line two")]),
    agent({"type": "text", "text": "  It is in\n line two.  "}),
)


def show(arguments: dict[str, Any], *messages: dict[str, Any], tags: Sequence[Tag] = (), **more: Any) -> str:
    built = line(*(messages or CONVERSATION), **more)
    history = History(built, codec_for("anthropic"), words)
    by_number = {tag.number: tag for tag in tags}
    by_mid = {message.mid: message for message in built}
    return expand(choose(arguments), history, by_number.get, by_mid.get).text


@pytest.mark.parametrize(
    ("arguments", "form"),
    [
        ({"start": 1, "end": 3}, Range(1, 3)),
        ({"start": "1", "end": 3.0, "verbose": True}, Range(1, 3, verbose=True)),
        ({"start": 2, "end": 2, "message": 7, "tag": 9}, Range(2, 2)),
        ({"start": 0, "end": 0, "message": 7}, One(7)),
        ({"start": 0, "end": 0, "message": 7, "tag": 4}, One(7)),
        ({"start": 0, "end": 0, "message": 0, "tag": 9, "verbose": False}, Tagged(9)),
        ({"start": "", "end": None, "tag": "9"}, Tagged(9)),
        ({"start": 5, "end": 3, "message": 7}, One(7)),
    ],
)
def test_which_form_is_meant(arguments: dict[str, Any], form: Any) -> None:
    assert choose(arguments) == form


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "nothing to expand"),
        ({"start": 0, "end": 0, "message": 0, "tag": 0}, "nothing to expand"),
        ({"start": 3}, "start not after end"),
        ({"start": 3, "end": 1}, "start not after end"),
        ({"message": -3}, "message must be a positive integer"),
        ({"message": True}, "message must be a positive integer"),
        ({"message": 1.5, "tag": ""}, "message must be a positive integer"),
        ({"message": "9" * 40}, "message must be a positive integer"),
        ({"tag": "§4§"}, "tag must be a positive integer"),
    ],
)
def test_what_names_nothing(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ExpandError) as error:
        choose(arguments)
    assert error.value.text.startswith("Error: ") and said in error.value.text


def test_a_range_is_chunk_text() -> None:
    assert show({"start": 1, "end": 50}) == (
        "Messages 1-4 (4 messages, ~17 tokens):\n\n"
        "[1] U: find the bug\n[2-4] A: TC: read(a.py) / It is in line two."
    )


def test_a_range_over_the_budget_says_where_to_go_on() -> None:
    messages = [
        m for n in range(40) for m in (user(f"{n} " + "word " * 500), agent({"type": "text", "text": "ok"}))
    ]
    text = show({"start": 1, "end": 80}, *messages)
    last = int(text.rpartition("start=")[2].partition(",")[0])
    assert text.endswith(f"Go on with start={last}, end=80.")
    assert text.startswith(f"Messages 1-{last - 1} ({last - 1} messages, ~")
    assert BUDGET - 600 < words([text])[0] <= BUDGET + 60
    rest = show({"start": last, "end": 80}, *messages)
    assert f"[{last}]" in rest and "Go on" not in rest


def test_a_range_without_anything_to_show() -> None:
    assert show({"start": 9, "end": 12}).startswith("No messages found in range 9-")
    assert show({"start": 3, "end": 3}).startswith("No messages found in range 3-3")


def test_a_verbose_range_has_an_entry_a_message() -> None:
    assert show({"start": 1, "end": 4, "verbose": True}).partition("\n\n")[2].splitlines() == [
        "[1] U (user)",
        "- find the bug",
        "[2] A (assistant)",
        "- reasoning: let me see",
        "- read(a.py) → output ~4 tok",
        "[3] tool results",
        "- read → output ~4 tok",
        "[4] A (assistant)",
        "- It is in line two.",
    ]


def test_verbose_bullets_are_cut() -> None:
    text = show(
        {"start": 1, "end": 2, "verbose": True},
        user("u" * 300),
        agent({"type": "thinking", "thinking": "t" * 300, "signature": "s"}, tool_use()),
    )
    assert f"- {'u' * 200}…\n" in text and f"- reasoning: {'t' * 120}…\n" in text
    assert text.endswith("- read() → no output")


def test_a_verbose_range_stops_at_the_budget_but_never_before_one_message() -> None:
    blocks = [{"type": "text", "text": f"{'word ' * 38}{n}"} for n in range(1000)]
    text = show({"start": 1, "end": 2, "verbose": True}, user(blocks), user("next"))
    assert text.startswith("Messages 1-1 (1 messages") and text.endswith("start=2, end=2.")


def test_one_message_comes_whole() -> None:
    text = show({"message": 2})
    assert text == (
        '[2] A (assistant) — full recovery:\n\nread, input:\n{"path": "a.py"}\n\n'
        "read, output:\nline one\n  line two"
    )
    assert show({"message": 3}).endswith("full recovery:\n\nread, output:\nline one\n  line two")
    assert show({"message": 4}).endswith("\n\n  It is in\n line two.  ")


def test_one_message_is_not_held_to_the_budget() -> None:
    long = "word " * (2 * BUDGET)
    assert show({"message": 1}, user(long)).endswith(long)


def test_a_message_that_is_not_there() -> None:
    with pytest.raises(ExpandError, match="there is no message 9: it was deleted"):
        show({"message": 9})
    with pytest.raises(ExpandError, match="there is no message 1"):
        show({"message": 1}, removed=(1,))


def test_an_error_and_attachments_are_said() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    messages = (
        user([{"type": "text", "text": "look"}, image]),
        agent(tool_use()),
        user([tool_result([{"type": "text", "text": "broken"}, image], is_error=True)]),
    )
    assert "[image/png, 4 bytes, not shown]" in show({"message": 1}, *messages)
    assert show({"message": 3}, *messages).endswith("read, error:\nbroken\n[1 attachments, not shown]")


def test_a_call_without_result() -> None:
    assert show({"message": 1}, agent(tool_use())).endswith("read: no output in this conversation.")


TOOL = Tag(
    7, TagType.TOOL, "m2", 1, 0, call_id="c1", result_mid="m3", result_part=0, tool_name="read",
    status=TagStatus.DROPPED, drop_mode=DropMode.FULL,
)  # fmt: skip


def test_a_tag_is_found_through_its_owner_whatever_became_of_it() -> None:
    assert show({"tag": 7}, tags=[TOOL]) == (
        'Tag §7§ (tool read) — full recovery:\n\nread, input:\n{"path": "a.py"}\n\n'
        "read, output:\nline one\n  line two"
    )
    text = Tag(8, TagType.MESSAGE, "m4", 0, 0, status=TagStatus.COMPACTED)
    assert show({"tag": 8}, tags=[text]) == (
        "Tag §8§ (assistant text) — full recovery:\n\n  It is in\n line two.  "
    )


def test_one_call_id_in_two_turns_are_two_items() -> None:
    """Reclaim-core 12 case 1."""
    messages = (
        user("go"), agent(tool_use(path="old")), user([tool_result("old output")]),
        agent(tool_use(path="new")), user([tool_result("new output")]),
    )  # fmt: skip
    first = Tag(1, TagType.TOOL, "m2", 0, 0, call_id="c1", result_mid="m3", result_part=0, tool_name="read")
    second = Tag(2, TagType.TOOL, "m4", 0, 0, call_id="c1", result_mid="m5", result_part=0, tool_name="read")
    assert show({"tag": 1}, *messages, tags=[first, second]).endswith("old output")
    assert show({"tag": 2}, *messages, tags=[first, second]).endswith("new output")


def test_a_tag_nobody_knows() -> None:
    with pytest.raises(ExpandError, match="unknown tag §7§"):
        show({"tag": 7})
    with pytest.raises(ExpandError, match="unknown tag §7§"):
        show({"tag": 7}, tags=[TOOL], removed=(2,))


def test_a_removed_result_is_not_shown() -> None:
    assert show({"tag": 7}, tags=[TOOL], removed=(3,)).endswith("read: no output in this conversation.")
