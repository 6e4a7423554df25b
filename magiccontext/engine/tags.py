"""Tag numbers for new content (reclaim-core sections 1.1 to 1.3).

Numbers only grow and are decided inside the pass that first sees the content; sizes and token counts are
measured once, then.  A tool gets its number when its result arrives, under the message of its call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from magiccontext.engine.draft import Draft
from magiccontext.engine.notation import strip_notation
from magiccontext.engine.state import Arrival, Link, Msg, Tag, TagType, pair
from magiccontext.engine.tokens import IMAGE_TOKENS_UNKNOWN, TokenCounter
from magiccontext.engine.transcript import InvalidMessage, Kind, Part, Role
from magiccontext.engine.wire.spans import string_leaves_size

TAGGED_ROLES = frozenset({Role.USER, Role.ASSISTANT, Role.TOOL})


def link_tools(draft: Draft, arrival: Arrival, unpaired: dict[str, list[Link]]) -> None:
    """Pair the results of the new messages with their calls and store the links on those messages.

    ``unpaired`` holds the open calls of the old path; it is used, not changed, while the array only grew.
    Raises InvalidMessage for a result without a call, new or left behind by what the host took away.
    """
    fresh = {m.mid for m in (*arrival.new, *arrival.revised)}
    grown = arrival.path is None
    open_calls = {call_id: list(links) for call_id, links in unpaired.items()} if grown else {}
    seen: dict[str, Msg] = {}
    earlier = draft.state.path if grown else []
    for message in arrival.new if arrival.path is None else arrival.path:
        if message.mid in fresh:
            message.links = ()
            seen[message.mid] = message
            _link(draft, message, open_calls, (earlier, seen))
            continue
        seen[message.mid] = message
        if orphan := next((k for k in message.links if not k.is_call and k.owner not in seen), None):
            raise _no_call(draft, message, orphan.call_id, orphan.part)
        pair(open_calls, message.links)


def _no_call(draft: Draft, message: Msg, call_id: str, part: int) -> InvalidMessage:
    return InvalidMessage(
        f"content[{part}]",
        f"the tool result for call {call_id!r} has no call before it; send the array from the call on, or "
        "leave the result out",
    ).at(f"messages[{draft.arrival.mids.index(message.mid)}]")


Before = tuple[Sequence[Msg], dict[str, Msg]]
"""The messages up to the one being linked, itself included: two stretches, in array order."""


def _link(draft: Draft, message: Msg, open_calls: dict[str, list[Link]], before: Before) -> None:
    for part in draft.parsed(message).parts:
        if part.kind is Kind.TOOL_CALL and part.call_id:
            link = Link(True, part.call_id, part.index, message.mid)
        elif part.kind is Kind.TOOL_RESULT:
            queue = open_calls.get(part.call_id)
            owner = queue[0].owner if queue else _answered(part.call_id, before)
            if owner is None:
                raise _no_call(draft, message, part.call_id, part.index)
            link = Link(False, part.call_id, part.index, owner)
        else:
            continue
        message.links += (link,)
        pair(open_calls, (link,))


def _answered(call_id: str, before: Before) -> str | None:
    """Owner of a further result of an answered call: the newest call with its id (section 1.2, rule 4)."""
    for message in chain(reversed(before[1].values()), reversed(before[0])):
        for link in reversed(message.links):
            if link.is_call and link.call_id == call_id:
                return link.owner
    return None


def follow_tools(draft: Draft, path: Iterable[Msg]) -> None:
    """After the host rearranged or revised messages: tool tags point to where call and result stand now.

    A result that the host wrote anew answers the same call, and keeps the call's tag.
    """
    for message in path:
        for link in message.links:
            tag = draft.tag_for_call(link.call_id, link.owner)
            if tag is None:
                continue
            if link.is_call and tag.part != link.part:
                draft.move_tag(replace(tag, part=link.part))
            elif not link.is_call and (
                (tag.result_mid == message.mid and tag.result_part != link.part)
                or not draft.on_path(tag.result_mid)
            ):
                draft.move_tag(replace(tag, result_mid=message.mid, result_part=link.part))


def allocate(draft: Draft, messages: Sequence[Msg], counter: TokenCounter) -> None:
    """Give tags to the new content of ``messages`` (in array order) and measure it."""
    counts = measure(draft, messages, counter)
    for message in messages:
        if draft.parsed(message).role in TAGGED_ROLES:
            _tag_message(draft, message, counts, counter)


def measure(draft: Draft, messages: Sequence[Msg], counter: TokenCounter) -> dict[tuple[str, int], int]:
    """Count the local tokens of ``messages``: sets ``tokens`` on each, returns them by (mid, part index).

    All texts are counted in one call of ``counter``.
    """
    texts: list[str] = []
    slots: list[tuple[Msg, Part, str]] = []
    for message in messages:
        for part in draft.parsed(message).parts:
            if part.kind is Kind.TEXT:
                texts.append(strip_notation(part.text))
                slots.append((message, part, "text"))
            elif part.kind in (Kind.REASONING, Kind.TOOL_RESULT):
                texts.append(part.text)
                slots.append((message, part, "text"))
            elif part.kind is Kind.TOOL_CALL:
                texts.append(part.arguments.decode("utf-8", "replace"))
                slots.append((message, part, "text"))
    counts = {
        (message.mid, part.index): n for (message, part, _), n in zip(slots, counter(texts), strict=True)
    }
    for message in messages:
        message.tokens = _message_tokens(draft, message, counts)
    return counts


def _message_tokens(draft: Draft, message: Msg, counts: dict[tuple[str, int], int]) -> int:
    total = 4  # role and separators of the wire format
    for part in draft.parsed(message).parts:
        total += counts.get((message.mid, part.index), 0) + IMAGE_TOKENS_UNKNOWN * part.attachments
        if part.kind is Kind.MEDIA:
            total += IMAGE_TOKENS_UNKNOWN
        elif part.kind in (Kind.OPAQUE, Kind.REDACTED):
            total += part.size // 4
    return total


def _tag_message(
    draft: Draft, message: Msg, counts: dict[tuple[str, int], int], counter: TokenCounter
) -> None:
    parts = draft.parsed(message).parts
    ranks = {TagType.MESSAGE: 0, TagType.FILE: 0}
    links = {link.part: link for link in message.links if not link.is_call}
    reasoning = sum(counts.get((message.mid, p.index), 0) for p in parts if p.kind is Kind.REASONING)
    reasoning_bytes = sum(p.size for p in parts if p.kind in (Kind.REASONING, Kind.REDACTED))
    for part in parts:
        count = counts.get((message.mid, part.index), 0)
        if part.kind is Kind.TEXT and not part.ignored:
            rank = ranks[TagType.MESSAGE]
            ranks[TagType.MESSAGE] += 1
            if not part.text.strip() or draft.tag_for_content(TagType.MESSAGE, message.mid, part.index):
                continue
            draft.add_tag(
                Tag(
                    draft.next_number(), TagType.MESSAGE, message.mid, part.index, rank,
                    output_bytes=part.size, token_count=count,
                    reasoning_bytes=reasoning_bytes if rank == 0 else 0,
                    reasoning_token_count=reasoning if rank == 0 else 0,
                )
            )  # fmt: skip
        elif part.kind is Kind.MEDIA:
            rank = ranks[TagType.FILE]
            ranks[TagType.FILE] += 1
            if draft.tag_for_content(TagType.FILE, message.mid, part.index) is None:
                draft.add_tag(
                    Tag(
                        draft.next_number(), TagType.FILE, message.mid, part.index, rank,
                        output_bytes=part.size, token_count=IMAGE_TOKENS_UNKNOWN,
                    )
                )  # fmt: skip
        elif part.kind is Kind.TOOL_RESULT and part.has_output:
            _tag_tool(draft, message, part, links[part.index], count, counts, counter)


def _tag_tool(
    draft: Draft,
    message: Msg,
    part: Part,
    link: Link,
    count: int,
    counts: dict[tuple[str, int], int],
    counter: TokenCounter,
) -> None:
    if draft.tag_for_call(link.call_id, link.owner) is not None:
        return
    owner = draft.message(link.owner)
    call = None
    if owner is not None and owner.raw:
        call = next(
            (p for p in draft.parsed(owner).parts if p.kind is Kind.TOOL_CALL and p.call_id == link.call_id),
            None,
        )
    input_tokens = 0
    if call is not None:
        known = counts.get((link.owner, call.index))
        input_tokens = known if known is not None else counter([call.arguments.decode("utf-8", "replace")])[0]
    draft.add_tag(
        Tag(
            draft.next_number(), TagType.TOOL, link.owner, call.index if call else -1, 0,
            call_id=link.call_id, result_mid=message.mid, result_part=part.index,
            tool_name=call.name if call else part.name,
            output_bytes=part.size, input_bytes=len(call.arguments) if call else 0,
            token_count=count + IMAGE_TOKENS_UNKNOWN * part.attachments, input_token_count=input_tokens,
            input_string_bytes=string_leaves_size(call.arguments) if call else -1,
            attachments=part.attachments,
        )
    )  # fmt: skip


def rebind(draft: Draft, message: Msg) -> None:
    """Follow a revision of ``message``: a tag whose part moved keeps its number by (type, rank).

    Content-id fallback of reclaim-core section 1.3; the content id moves with it.
    """
    ranks: dict[TagType, list[Part]] = {TagType.MESSAGE: [], TagType.FILE: []}
    for part in draft.parsed(message).parts:
        if part.kind is Kind.TEXT and not part.ignored:
            ranks[TagType.MESSAGE].append(part)
        elif part.kind is Kind.MEDIA:
            ranks[TagType.FILE].append(part)
    for tag in draft.tags_of(message.mid):
        if tag.type is TagType.TOOL or tag.mid != message.mid:
            continue
        parts = ranks[tag.type]
        if tag.rank < len(parts) and parts[tag.rank].index != tag.part:
            draft.move_tag(replace(tag, part=parts[tag.rank].index))
