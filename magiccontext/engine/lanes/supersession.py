"""Supersession: calls whose effect a later call replaced (reclaim-core section 6.3, ``smart_drops``)."""

from __future__ import annotations

import json

from magiccontext.engine.draft import Draft
from magiccontext.engine.lanes.drops import DropBatch
from magiccontext.engine.lanes.eligibility import Eligibility
from magiccontext.engine.state import Tag, TagStatus, TagType
from magiccontext.engine.toolnames import tool_key

NEWEST_OWNERS_EXEMPT = 20
KEPT_BY_COUNT = frozenset({"todowrite", "ctx_reduce"})
ALWAYS = frozenset({"bash_status", "bash_kill"})
EDITS = frozenset({"edit", "write"})
PATH_KEYS = ("filePath", "file_path", "path")
NOTE_ACTIONS = frozenset({"read", "dismiss"})


def drop_superseded(draft: Draft, batch: DropBatch, eligibility: Eligibility) -> list[Tag]:
    """Drop what a newer call made pointless.  Ignores the age watermark."""
    tools = [
        tag
        for tag in draft.tags()
        if tag.type is TagType.TOOL and tag.status is TagStatus.ACTIVE and draft.on_path(tag.mid)
    ]
    owners: list[str] = []
    for tag in reversed(tools):
        if tag.mid not in owners:
            owners.append(tag.mid)
        if len(owners) >= NEWEST_OWNERS_EXEMPT:
            break
    exempt = set(owners)
    newest_edit: dict[str, int] = {}
    paths: dict[int, str] = {}
    for tag in tools:
        if tool_key(tag.tool_name) in EDITS and (path := _path(draft, tag)):
            paths[tag.number] = path
            newest_edit[path] = max(newest_edit.get(path, 0), tag.number)
    dropped: list[Tag] = []
    for tag in tools:
        if tag.mid in exempt or draft.is_queued(tag.number) or eligibility.reason(tag):
            continue
        if _superseded(draft, tag, paths, newest_edit):
            batch.apply(tag)
            dropped.append(tag)
    return dropped


def _superseded(draft: Draft, tag: Tag, paths: dict[int, str], newest_edit: dict[str, int]) -> bool:
    name = tool_key(tag.tool_name)
    if name in KEPT_BY_COUNT or name in ALWAYS:
        return True  # those within their keep count are held by eligibility
    if name in EDITS:
        path = paths.get(tag.number)
        return path is not None and newest_edit[path] > tag.number
    return name == "ctx_note" and _arguments(draft, tag).get("action") in NOTE_ACTIONS


def _path(draft: Draft, tag: Tag) -> str:
    arguments = _arguments(draft, tag)
    found = next((arguments[key] for key in PATH_KEYS if isinstance(arguments.get(key), str)), "")
    return str(found)


def _arguments(draft: Draft, tag: Tag) -> dict[str, object]:
    part = draft.part(tag.mid, tag.part)
    try:
        value = json.loads(part.arguments) if part is not None else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
