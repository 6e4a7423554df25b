"""From decisions to bytes: the form in which one message is served (design section 3).

A form is a pure function of the message's own bytes and of frozen decisions (tag statuses, drop modes,
stored sources).  No count, clock or boundary enters here, so the same decisions give the same bytes on
any later pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from magiccontext.engine.draft import Draft
from magiccontext.engine.notation import placeholder, prefix_for, strip_notation
from magiccontext.engine.state import CUT, DropMode, Msg, Tag, TagStatus, TagType
from magiccontext.engine.transcript import Kind, Part, Role
from magiccontext.engine.view import Edit, Form, Op

INVISIBLE = frozenset({Kind.REASONING, Kind.REDACTED, Kind.META})
"""Part kinds that do not make a message meaningful (reclaim-core section 3)."""


def is_meaningful(part: Part, role: Role) -> bool:
    """Whether ``part`` alone makes a message worth sending (reclaim-core section 3).

    Notation alone is nothing where a model imitated it; where a person typed it, it is what they said.
    """
    if part.kind is Kind.TEXT:
        return bool((part.text if role is Role.USER else strip_notation(part.text)).strip())
    return part.kind not in INVISIBLE


@dataclass(frozen=True, slots=True)
class Shown:
    """What every form of a session shares: are tag prefixes shown (reclaim-core section 1.4)."""

    prefixes: bool


def form_of(draft: Draft, message: Msg, shown: Shown) -> Form:
    """The form of ``message`` under the draft's decisions.

    A message without edits keeps its own bytes as body: the very object, so that comparing is cheap.
    """
    if message.mid in draft.cut:
        return CUT
    parsed = draft.parsed(message)
    if draft.codec.is_leading_system(parsed) or parsed.role in (Role.SYSTEM, Role.OTHER):
        return Form((), message.raw)
    owners = {link.part: link.owner for link in message.links}
    edits: list[Edit] = []
    kept_visible = dropped_visible = False
    drop_reasoning = False
    for part in parsed.parts:
        tag = _tag_of(draft, message, part, owners)
        severed = part.index in draft.severed.get(message.mid, ())
        change = [Edit(Op.REMOVE, part.index)] if severed else _edits_of(part, tag, shown)
        edits.extend(change)
        gone = any(edit.op is Op.REMOVE for edit in change)
        if is_meaningful(part, parsed.role):
            kept_visible |= not gone
            dropped_visible |= gone
        if part.kind is Kind.TEXT and tag is not None and tag.status is TagStatus.DROPPED:
            drop_reasoning = True
    if dropped_visible and not kept_visible:
        return Form((Edit(Op.REMOVE_MESSAGE),), None)
    if drop_reasoning and draft.route.canonical_anthropic and parsed.role is Role.ASSISTANT:
        edits.extend(
            Edit(Op.REMOVE, p.index) for p in parsed.parts if p.kind in (Kind.REASONING, Kind.REDACTED)
        )
    if not edits:
        return Form((), message.raw)
    ordered = tuple(sorted(edits, key=lambda edit: edit.part if edit.part is not None else -1))
    return Form(ordered, draft.codec.encode(message.raw, ordered))


def _tag_of(draft: Draft, message: Msg, part: Part, owners: Mapping[int, str]) -> Tag | None:
    if part.kind is Kind.TEXT:
        return draft.tag_for_content(TagType.MESSAGE, message.mid, part.index)
    if part.kind is Kind.MEDIA:
        return draft.tag_for_content(TagType.FILE, message.mid, part.index)
    if part.kind in (Kind.TOOL_CALL, Kind.TOOL_RESULT):
        return draft.tag_for_call(part.call_id, owners.get(part.index, message.mid))
    return None


def _edits_of(part: Part, tag: Tag | None, shown: Shown) -> list[Edit]:
    """Edits of one part.  A dropped tag wins over everything else said about its part."""
    if tag is None:
        return []
    dropped = tag.status is TagStatus.DROPPED
    if part.kind is Kind.TOOL_CALL:
        return [Edit(Op.REMOVE, part.index)] if dropped and tag.drop_mode is DropMode.FULL else []
    if part.kind is Kind.TOOL_RESULT:
        if dropped and tag.drop_mode is DropMode.FULL:
            return [Edit(Op.REMOVE, part.index)]
        if dropped:
            return [Edit(Op.REPLACE_OUTPUT, part.index, placeholder(tag.number), drop_attachments=True)]
        if shown.prefixes and part.has_output:
            return [Edit(Op.PREFIX, part.index, prefix_for(tag.number))]
        return []
    if dropped:
        text = placeholder(tag.number)
        return [] if part.text == text else [Edit(Op.REPLACE_TEXT, part.index, text)]
    if part.kind is not Kind.TEXT:
        return []
    source = part.text if tag.source is None else tag.source
    prefix = ""
    if shown.prefixes:
        prefix = prefix_for(tag.number)
        # A text of nothing but notation is what somebody wrote; without it the message would be empty.
        source = strip_notation(source) or source
    if source != part.text:
        return [Edit(Op.REPLACE_TEXT, part.index, prefix + source)]
    return [Edit(Op.PREFIX, part.index, prefix)] if prefix else []
