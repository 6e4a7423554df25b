"""Dedup: the same read-only call made twice in one assistant message (reclaim-core section 6.2)."""

from __future__ import annotations

import json

from magiccontext.engine.draft import Draft
from magiccontext.engine.lanes.drops import DropBatch
from magiccontext.engine.lanes.eligibility import Eligibility
from magiccontext.engine.state import Tag, TagStatus, TagType
from magiccontext.engine.toolnames import tool_key

READ_ONLY_TOOLS = frozenset(
    {
        "grep",
        "read",
        "glob",
        "ast_grep_search",
        "lsp_diagnostics",
        "lsp_symbols",
        "lsp_find_references",
        "lsp_goto_definition",
        "lsp_prepare_rename",
    }
)


def drop_duplicates(draft: Draft, batch: DropBatch, eligibility: Eligibility) -> list[Tag]:
    """Drop every copy but the newest, whole.  Held copies serve as anchors and are never dropped."""
    groups: dict[tuple[str, str], list[Tag]] = {}
    for tag in draft.tags():
        if (
            tag.type is TagType.TOOL
            and tag.status is TagStatus.ACTIVE
            and tag.part >= 0
            and tool_key(tag.tool_name) in READ_ONLY_TOOLS
            and draft.on_path(tag.mid)
        ):
            groups.setdefault((tag.mid, tool_key(tag.tool_name)), []).append(tag)
    dropped: list[Tag] = []
    for (mid, _), tags in groups.items():
        if len(tags) < 2:
            continue
        newest: dict[str, int] = {}
        arguments = {tag.number: _canonical(draft, mid, tag.part) for tag in tags}
        for tag in tags:
            key = arguments[tag.number]
            newest[key] = max(newest.get(key, 0), tag.number)
        for tag in tags:
            if tag.number != newest[arguments[tag.number]] and not eligibility.reason(tag):
                batch.apply(tag, duplicate=True)
                dropped.append(tag)
    return dropped


def _canonical(draft: Draft, mid: str, part: int) -> str:
    found = draft.part(mid, part)
    raw = found.arguments if found is not None else b""
    try:
        return json.dumps(json.loads(raw), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return raw.decode("utf-8", "replace")
