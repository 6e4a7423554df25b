"""The cut in a pass: where it is made, and what becomes of what it takes or gives back (history-render 7).

A rebuild chooses the boundary that is stored with its pair; any other pass cuts where the stored one says.
Without permission nothing that was served may leave, so there the cut ends before the first such message,
whatever the boundary covers; and what comes back does so because the host went back, not because we did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from magiccontext.engine.draft import Draft
from magiccontext.engine.head.cut import Remedy, Row, Status, cut, heal, newest_boundary
from magiccontext.engine.head.model import Boundary, HeadSource, Pair
from magiccontext.engine.state import CUT, Msg, TagStatus
from magiccontext.engine.transcript import Kind, Role


def anchored(
    draft: Draft, source: HeadSource, before: Pair | None, wanted: Boundary | None
) -> Boundary | None:
    """The boundary a rebuild stores with its pair; ``wanted`` is where the newest compartment ends.

    A boundary that is missing in this array never takes the place of one that is there.  When both are
    missing the rebuild is degraded, and the second in a row heals: at the newest compartment end in the
    array, or, without any, by cutting nothing.
    """
    path = list(draft.path)
    rows = _rows(path)
    for boundary in [wanted] if before is None else [wanted, before.boundary]:
        if not cut(boundary, rows).status.degraded:
            draft.vars = replace(draft.vars, degraded_cuts=0)
            return _before_prompt(draft, path, boundary)
    known = (source.max_compartment_seq, source.structural_mutation_id)
    healing = heal(
        draft.vars.degraded_cuts,
        Status.REFUSED,
        busting=True,
        compartments_changed=known != draft.vars.degraded_at,
        visible=newest_boundary(source.compartments, {row.mid for row in rows}),
    )
    draft.vars = replace(draft.vars, degraded_cuts=healing.degraded, degraded_at=known)
    if healing.remedy is Remedy.NONE:
        return wanted
    return _before_prompt(draft, path, healing.boundary)


def apply_cut(
    draft: Draft, boundary: Boundary | None, *, moved: bool, permitted: bool, compaction_off: bool
) -> None:
    """What the head stands for leaves the array; tags follow their messages.

    ``moved``: the boundary is another than the last pass had.
    """
    if compaction_off:  # everything goes out as the host has it
        _retag(draft, frozenset())
        return
    path = list(draft.path)
    if not permitted:
        boundary = _behind_served(draft, path, boundary)
    found = cut(_before_prompt(draft, path, boundary), _rows(path))
    removed = frozenset(path[index].mid for index in found.removed)
    draft.cut = removed
    draft.severed = {}
    for index, part in found.severed:
        draft.severed.setdefault(path[index].mid, set()).add(part)
    was_cut = {m.mid for m in path if m.form == CUT}
    back = was_cut - removed
    draft.touched |= (removed - was_cut) | back | set(draft.severed)
    if permitted:
        # What the host had to send raw leaves now; what a copied session never served gets its form.
        draft.touched |= (removed & draft.raw) | {m.mid for m in path if m.form is None and m.raw}
    if draft.arrival.path is not None and not moved:
        draft.uncut = frozenset(back | _sharing_calls(draft, path, back))
    _retag(draft, removed)


def _rows(path: Sequence[Msg]) -> list[Row]:
    return [Row(m.mid, m.ordinal, m.role, m.links) for m in path]


def _covered(path: Sequence[Msg], boundary: Boundary) -> int:
    """How many messages of the array stand before the end of what ``boundary`` covers; 0: it is not there."""
    at = next((index for index, m in enumerate(path) if m.mid == boundary.mid), None)
    if at is None:
        return 0
    return at + 1 if boundary.end_block is None else at


def _ending(path: Sequence[Msg], end: int) -> Boundary | None:
    return Boundary(path[end - 1].mid, path[end - 1].ordinal) if end > 0 else None


def _before_prompt(draft: Draft, path: Sequence[Msg], boundary: Boundary | None) -> Boundary | None:
    """The newest prompt and what follows it is never cut (hosts section 2.2 item 7), nor half an arc."""
    if boundary is None:
        return None
    newest = next(
        (
            index
            for index in range(len(path) - 1, -1, -1)
            if path[index].role is Role.USER and draft.parsed(path[index]).has(Kind.TEXT, Kind.MEDIA)
        ),
        len(path) - 1,
    )
    if _covered(path, boundary) <= newest:
        return boundary
    return _ending(path, _before_arcs(path, newest))


def _before_arcs(path: Sequence[Msg], end: int) -> int:
    """The largest place up to ``end`` that no call is separated from its results by."""
    places = {m.mid: index for index, m in enumerate(path)}
    open_before = end
    for index in range(len(path) - 1, -1, -1):
        if index < open_before:
            break
        owners = [places.get(link.owner, index) for link in path[index].links]
        open_before = min([open_before, *owners])
    return open_before


def _behind_served(draft: Draft, path: Sequence[Msg], boundary: Boundary | None) -> Boundary | None:
    """``boundary``, or the place before the first message it covers that the provider has seen whole."""
    if boundary is None:
        return None
    for index, message in enumerate(path[: _covered(path, boundary)]):
        seen = message.mid in draft.raw or (
            message.mid in draft.state.position and message.form is not None and message.form != CUT
        )
        if seen and message.role is not Role.SYSTEM:
            return _ending(path, index)
    return boundary


def _sharing_calls(draft: Draft, path: Sequence[Msg], mids: set[str]) -> set[str]:
    calls = {(k.call_id, k.owner) for m in path if m.mid in mids for k in m.links}
    return {m.mid for m in path if any((k.call_id, k.owner) in calls for k in m.links)}


def _retag(draft: Draft, removed: frozenset[str]) -> None:
    """Tags of what left are compacted and leave the queue; those of what is back count again."""
    for tag in list(draft.tags()):
        if tag.mid in removed:
            if tag.status is TagStatus.ACTIVE:
                draft.move_tag(replace(tag, status=TagStatus.COMPACTED))
            draft.ops_removed.update({tag.number} & draft.state.pending.keys())
        elif tag.status is TagStatus.COMPACTED and draft.on_path(tag.mid):
            draft.move_tag(replace(tag, status=TagStatus.ACTIVE))
