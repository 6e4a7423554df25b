"""When m[0] is rendered anew, and what that means for the provider's cache (history-render section 5).

A fold is the most expensive thing a session can do, so the list of reasons is closed: :data:`TRIGGERS`, in
order, first hit wins.  Each compares something now with a marker stored beside the bytes, and the fold
itself writes the new marker; so a reason that fired once does not fire again.  What is no row of the table
(a new compartment, edited documents, a new profile, an expired memory) waits for the next fold.

An empty signal means *unknown on this pass* and never fires.

A fold is not yet a bust.  Some reasons say that the provider has lost its cache anyway; for the others the
bytes decide, and a fold that reproduced them gives no other lane permission.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from magiccontext.engine import schedule
from magiccontext.engine.head import budgets as allowance
from magiccontext.engine.head import m1
from magiccontext.engine.head.model import (
    COMPARTMENT_EPOCH,
    Budgets,
    HeadSource,
    Markers,
    Pair,
    Workspace,
)
from magiccontext.engine.head.selection import is_workspaced, shared_categories
from magiccontext.engine.tokens import TokenCounter

NOTHING = Pair("", "")

# Blocks that must not outlive the switch that turns memory off (row 3).
MEMORY_BLOCKS = (
    "<project-memory>",
    "<user-profile>",
    "<memory-updates>",
    "<memory-mural>",
    "<new-memories>",
    "<new-user-profile>",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What a pass knows beside the snapshot.  Empty texts and zeros mean unknown; times are milliseconds.

    ``host_compaction_ms`` is when the host's own compaction, heading its window, was finished.
    ``canonical`` turns a model key into the one all its aliases share.
    """

    now_ms: int
    last_response_ms: int = 0
    ttl_ms: float = schedule.DEFAULT_TTL_MS
    model_key: str = ""
    system_hash: str = ""
    tool_fingerprint: str = ""
    host_compaction_ms: int = 0
    canonical: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class Standing:
    """What is served, against what is."""

    pair: Pair
    source: HeadSource
    budgets: Budgets
    signals: Signals

    @property
    def stored(self) -> Markers:
        return self.pair.markers


def workspace_fingerprint(workspace: Workspace | None) -> str | None:
    """What a workspace shares and how far each member's memories are; None unless there are two members."""
    if workspace is None or not is_workspaced(workspace):
        return None
    shared = json.dumps(list(shared_categories(workspace).categories), separators=(",", ":"))
    members = sorted((member.identity, member.epoch) for member in workspace.members)
    lines = [f"share_categories\0{shared}\n", *(f"{name}\0{epoch}\n" for name, epoch in members)]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _differs(now: str, stored: str) -> bool:
    return bool(now) and now != stored


def _memory_blocks_left(s: Standing) -> bool:
    return not s.source.memory_enabled and any(b in s.pair.m0 or b in s.pair.m1 for b in MEMORY_BLOCKS)


def _model_changed(s: Standing) -> bool:
    return _differs(s.signals.canonical(s.signals.model_key), s.signals.canonical(s.stored.model_key))


def _idle(s: Standing) -> bool:
    signals = s.signals
    return (
        schedule.expired(signals.now_ms, signals.last_response_ms, signals.ttl_ms)
        and signals.last_response_ms > s.stored.materialized_ms
    )


def memory_moved(source: HeadSource, stored: Markers) -> bool:
    """Row 14: by fingerprint whenever a workspace is or was involved, else by the project's own epoch."""
    fingerprint = workspace_fingerprint(source.workspace)
    if fingerprint is not None or stored.workspace_fingerprint is not None:
        return fingerprint != stored.workspace_fingerprint
    return source.memory_epoch != stored.memory_epoch


def _flag(on: bool | None) -> str:
    return "on" if on else "off"


class Trigger(NamedTuple):
    """``loses_cache``: the provider's cache is gone, whatever the new bytes are."""

    name: str
    fires: Callable[[Standing], bool]
    loses_cache: bool = False
    detail: Callable[[Standing], str] = lambda s: ""  # what the reason says beyond the name


TRIGGERS: tuple[Trigger, ...] = (
    Trigger("first_render", lambda s: not s.pair.m0, loses_cache=True),
    Trigger("cached_m1_missing", lambda s: not s.pair.m1),
    Trigger("render_config:memory_disabled", _memory_blocks_left),
    Trigger("compartment_render_epoch", lambda s: s.stored.compartment_epoch != COMPARTMENT_EPOCH),
    Trigger(
        "render_config:mural",
        lambda s: s.stored.mural_flag is not None and s.stored.mural_flag != s.source.mural_enabled,
        detail=lambda s: f"({_flag(s.stored.mural_flag)}→{_flag(s.source.mural_enabled)})",
    ),
    Trigger(
        "render_config:budget",
        lambda s: allowance.policy_changed(s.stored.policy, s.budgets.policy),
        detail=lambda s: f"({s.stored.policy}→{s.budgets.policy})",
    ),
    Trigger(
        "render_config:budget_shrink",
        lambda s: allowance.shrunk(s.stored.allowances, s.budgets),
        detail=lambda s: f"({s.stored.allowances}→{allowance.allowances(s.budgets)})",
    ),
    Trigger("model_change", _model_changed, loses_cache=True),
    Trigger("system_hash", lambda s: _differs(s.signals.system_hash, s.stored.system_hash), loses_cache=True),
    # The first sight of a tool list is adopted, see :func:`adopted`.
    Trigger(
        "tool_list",
        lambda s: (
            bool(s.stored.tool_fingerprint)
            and _differs(s.signals.tool_fingerprint, s.stored.tool_fingerprint)
        ),
        loses_cache=True,
    ),
    Trigger("ttl_idle", _idle, loses_cache=True),
    Trigger(
        "host_compaction",
        lambda s: s.signals.host_compaction_ms > s.stored.materialized_ms,
        loses_cache=True,
    ),
    # A project that cannot be resolved on this pass is unknown; one never recorded is adopted.
    Trigger(
        "project_change",
        lambda s: s.stored.project is not None and _differs(s.source.project, s.stored.project),
    ),
    Trigger("project_memory_epoch", lambda s: memory_moved(s.source, s.stored)),
    Trigger("max_mutation_id", lambda s: s.source.structural_mutation_id != s.stored.structural_mutation_id),
    Trigger("upgrade_state", lambda s: s.source.upgrade_state != s.stored.upgrade_state),
)


class Due(NamedTuple):
    """A fold that is due: the reason as recorded, and whether it loses the provider's cache by itself."""

    reason: str
    loses_cache: bool


def due(pair: Pair | None, source: HeadSource, budgets: Budgets, signals: Signals) -> Due | None:
    """The first trigger that fires, or None: replay the pair.  ``pair`` None means nothing was rendered."""
    standing = Standing(pair or NOTHING, source, budgets, signals)
    for trigger in TRIGGERS:
        if trigger.fires(standing):
            return Due(trigger.name + trigger.detail(standing), trigger.loses_cache)
    return None


def adopted(pair: Pair, source: HeadSource, signals: Signals) -> Pair:
    """``pair`` with what it never recorded: project and tool list are adopted at first sight, unfolded."""
    stored = pair.markers
    markers = replace(
        stored,
        project=(source.project or None) if stored.project is None else stored.project,
        tool_fingerprint=stored.tool_fingerprint or signals.tool_fingerprint,
    )
    return pair if markers == stored else replace(pair, markers=markers)


def bust(cause: Due, before: Pair | None, after: Pair) -> bool:
    """Whether an executed fold gives other lanes permission (section 5, "Does the fold bust?")."""
    served = before or NOTHING
    return cause.loses_cache or (served.m0, served.m1, served.mural) != (after.m0, after.m1, after.mural)


# The pressure backstop: how much may pile up in m[1] before m[0] is made anew.  All strict.
PRESSURE_REASON = "pressure_refold"
MAX_UPDATE_ENTRIES = 40
MAX_SHARE_OF_BUDGET = (20, 100)
MAX_SHARE_OF_M0 = (15, 100)
MIN_M0_TOKENS = 500


def _exceeds(tokens: int, share: tuple[int, int], whole: int) -> bool:
    """``tokens > share × whole`` in whole numbers, so that the edge is exact."""
    return tokens * share[1] > whole * share[0]


class Weight(NamedTuple):
    """A freshly rendered m[1] beside its m[0], in local tokens."""

    m0_tokens: int
    m1_tokens: int
    history_budget: int
    entries: int = 0
    placeholder: bool = False


PRESSURE: dict[str, Callable[[Weight], bool]] = {
    "entries": lambda w: w.entries > MAX_UPDATE_ENTRIES,
    "budget": lambda w: not w.placeholder and _exceeds(w.m1_tokens, MAX_SHARE_OF_BUDGET, w.history_budget),
    "ratio": lambda w: (
        not w.placeholder
        and w.m0_tokens >= MIN_M0_TOKENS
        and _exceeds(w.m1_tokens, MAX_SHARE_OF_M0, w.m0_tokens)
    ),
}


def overweight(weight: Weight) -> str | None:
    """The first bound of :data:`PRESSURE` that is exceeded."""
    return next((name for name, exceeded in PRESSURE.items() if exceeded(weight)), None)


def pressure_refold(pair: Pair, budgets: Budgets, count: TokenCounter) -> bool:
    """Whether the pressure backstop asks for a fold.

    Meaningful only on a pass with rebuild permission on which m[1] was rendered, no fold ran and nobody
    else wrote (section 5).
    """
    m0_tokens, m1_tokens = count([pair.m0, pair.m1])
    weight = Weight(
        m0_tokens,
        m1_tokens,
        allowance.local(budgets).history,
        m1.update_entries(pair.m1),
        pair.m1 == m1.PLACEHOLDER,
    )
    return overweight(weight) is not None


def moved(markers: Markers, source: HeadSource) -> bool:
    """Whether the world moved while a fold was rendered: then its bytes must not be stored (section 7).

    New memories and edited documents are no reason: they show up in m[1] or at the next fold.
    """
    return memory_moved(source, markers) or (
        markers.profile_version,
        markers.max_compartment_seq,
        markers.structural_mutation_id,
        markers.memory_mutation_id,
        markers.upgrade_state,
        markers.project,
    ) != (
        source.profile_version,
        source.max_compartment_seq,
        source.structural_mutation_id,
        source.mutation_head,
        source.upgrade_state,
        source.project or markers.project,
    )


def same_base(stored: Pair, held: Pair) -> bool:
    """Whether a refresh of ``held`` may be written over ``stored``, or a sibling's row must be adopted whole.

    The documents' hash is ignored: no byte of m[1] depends on it (section 7).
    """
    ours = replace(held.markers, docs_hash=stored.markers.docs_hash)
    return (stored.m0, stored.mural, stored.markers) == (held.m0, held.mural, ours)
