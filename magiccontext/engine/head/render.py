"""The entry points: render a pair, or its second half (history-render sections 5 to 7).

``fold`` and ``refresh`` are functions of their arguments.  Whoever stores the result decides whether it was
made from the right snapshot (:func:`~magiccontext.engine.head.materialize.moved`) and whether it may be
served.
"""

from __future__ import annotations

from dataclasses import replace

from magiccontext.engine.head import budgets as allowance
from magiccontext.engine.head import history, m0, m1, selection
from magiccontext.engine.head.cut import newest_boundary
from magiccontext.engine.head.materialize import NOTHING, Signals, workspace_fingerprint
from magiccontext.engine.head.model import (
    COMPARTMENT_EPOCH,
    MEMORY_RENDER_EPOCH,
    Boundary,
    Budgets,
    HeadSource,
    Markers,
    Mural,
    Pair,
)
from magiccontext.engine.tokens import TokenCounter


def _boundary(source: HeadSource) -> Boundary | None:
    return newest_boundary(source.compartments) if source.compaction_on else None


def _mural(source: HeadSource) -> Mural | None:
    shown = source.memory_enabled and source.mural_enabled and source.images_accepted
    return source.mural if shown and source.mural and source.mural.data_url else None


def render_fold(
    source: HeadSource,
    budgets: Budgets,
    count: TokenCounter,
    signals: Signals,
    *,
    before: Pair | None = None,
    at_ms: int | None = None,
) -> Pair:
    """Render m[0] and m[1] anew (level HARD).

    ``before`` is the pair served so far: signals unknown on this pass keep its values.  ``at_ms`` is both
    the cutoff of expiry and the new ``materialized_ms``; it is now, except for bytes that will not be
    stored, which take the last stored one (0 without any).  Raises
    :class:`~magiccontext.engine.head.history.OverlappingRanges`.
    """
    at = signals.now_ms if at_ms is None else at_ms
    old = (before or NOTHING).markers
    allowed = allowance.local(budgets)
    documents = m0.canonical_docs(source.docs) if source.inject_docs else []
    candidates = selection.eligible(source, at) if source.memory_enabled else []
    chosen = selection.select_memories(source, candidates, allowed.memory, count)
    profile = selection.trim_profile(source.profile, allowed.profile, count) if source.memory_enabled else []
    mural = _mural(source)
    text = m0.assemble(
        docs=m0.project_docs(documents),
        profile=m0.profile(profile),
        history=history.session_history(
            source.compartments if source.compaction_on else (),
            allowed.history,
            count,
            dated=source.temporal_awareness,
        ),
        memories=m0.memories(chosen, m0.source_names(source.project, source.workspace)),
        mural=m0.mural(mural),
    )
    markers = Markers(
        materialized_ms=at,
        model_key=signals.model_key or old.model_key,
        system_hash=signals.system_hash or old.system_hash,
        tool_fingerprint=signals.tool_fingerprint or old.tool_fingerprint,
        project=source.project or old.project,
        memory_epoch=source.memory_epoch,
        workspace_fingerprint=workspace_fingerprint(source.workspace),
        profile_version=source.profile_version,
        max_compartment_seq=source.max_compartment_seq,
        max_memory_id=max((memory.id for memory in candidates), default=0),
        memory_mutation_id=source.mutation_head,
        structural_mutation_id=source.structural_mutation_id,
        docs_hash=m0.docs_hash(documents),
        upgrade_state=source.upgrade_state,
        compartment_epoch=COMPARTMENT_EPOCH,
        memory_render_epoch=MEMORY_RENDER_EPOCH,
        mural_flag=source.mural_enabled,
        policy=budgets.policy or old.policy,
        allowances=allowance.allowances(budgets),
    )
    ids = tuple(memory.id for memory in chosen)
    folded = Pair(text, m1.PLACEHOLDER, markers, mural=mural, m0_memory_ids=ids)
    return render_refresh(folded, source, budgets, count)


def render_refresh(pair: Pair, source: HeadSource, budgets: Budgets, count: TokenCounter) -> Pair:
    """Render m[1] of a complete pair anew and move its boundary (level SOFT).

    Everything is seen from the markers stored with ``pair``; they do not change.  The caller compares the
    bytes: equal ones are no refresh (section 6).  Raises
    :class:`~magiccontext.engine.head.history.OverlappingRanges`.
    """
    news = m1.render(source, pair.markers, pair.m0_memory_ids, allowance.local(budgets), count)
    return replace(
        pair,
        m1=news.text,
        boundary=_boundary(source),
        visible_memory_ids=tuple(sorted({*pair.m0_memory_ids, *news.memory_ids})),
    )
