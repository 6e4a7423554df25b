"""What the head is made from, and what comes out (history-render sections 1, 2, 7 and 13).

A :class:`HeadSource` is one snapshot of everything a render reads, taken in one read transaction.  A
:class:`Pair` is what a render made; it is stored as one atomic row, because its bytes, its boundary and its
markers are only true together.  :class:`Markers` are the operands of later comparisons: they say from what
state of the world the bytes were made.

Times are milliseconds since the epoch, UTC.  Budgets and counts are tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

# The renderer's format of compartments.  Raised with any change of their bytes; the local tokenizer decides
# bytes too, so another encoding is another format (section 5, row 4).
COMPARTMENT_EPOCH = "cre2"
# Stored for attribution only: a change of the memory blocks' format folds nothing by itself.
MEMORY_RENDER_EPOCH = "mre1"

VISIBILITY_CATEGORY = "__mc_visibility__"


class UpgradeState(StrEnum):
    """Section 10: ``legacy`` while any compartment of the session is legacy."""

    LEGACY = "legacy"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class Compartment:
    """One summarised stretch of raw messages.

    ``start`` and ``end`` are inclusive ordinals; gaps between compartments are legal, overlaps are not.
    ``end_block`` is the part index of ``end_mid`` at which the stretch ends, or None when it ends with the
    message.  The tiers ``p1`` (richest) to ``p4`` may be None (never written) or empty (nothing to say).
    ``resolves`` is False once its end points are no longer in the session's lineage.  ``first_day`` and
    ``last_day`` are local ``YYYY-MM-DD`` dates in the session's one time zone.
    """

    sequence: int
    start: int
    end: int
    start_mid: str = ""
    end_mid: str = ""
    end_block: int | None = None
    title: str = ""
    content: str = ""
    p1: str | None = None
    p2: str | None = None
    p3: str | None = None
    p4: str | None = None
    importance: int | None = None  # 1–100; None counts as 50
    legacy: bool = False
    first_day: str | None = None
    last_day: str | None = None
    episode_type: str = ""
    resolves: bool = True

    @property
    def tiers(self) -> tuple[str | None, str | None, str | None, str | None]:
        return self.p1, self.p2, self.p3, self.p4

    @property
    def has_content(self) -> bool:
        """Whether it renders at all; a row without any text only marks a boundary (section 8)."""
        return any(text and text.strip() for text in (self.title, self.content, *self.tiers))


class MemoryStatus(StrEnum):
    ACTIVE = "active"
    PERMANENT = "permanent"
    ARCHIVED = "archived"


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory as stored (memory-search section 1.1).

    ``project`` is the identity of its owner with aliases and raw paths already resolved.
    """

    id: int
    category: str
    content: str
    project: str
    status: str = MemoryStatus.ACTIVE
    importance: int | None = None  # None sorts below every number
    last_seen_ms: int | None = None
    verified_ms: int | None = None
    expires_ms: int | None = None
    shareable: bool = False
    scope: str = "project"
    superseded_by: int | None = None


class MutationType(StrEnum):
    """What a row of the memory mutation log says of its target (memory-search section 1.4)."""

    ARCHIVE = "archive"
    DELETE = "delete"
    UPDATE = "update"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class MutationRow:
    """One row of the append-only memory mutation log; ``category`` may be :data:`VISIBILITY_CATEGORY`.

    ``project`` has its aliases resolved, as in :class:`Memory`.
    """

    id: int
    type: str
    target_id: int
    project: str
    superseded_by: int | None = None
    category: str | None = None
    new_content: str | None = None


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """An active user memory; ``promoted_ms`` orders the profile."""

    id: int
    content: str
    promoted_ms: int


@dataclass(frozen=True, slots=True)
class Member:
    """A project in a workspace.  ``epoch`` is its memory epoch; the display name may be empty."""

    identity: str
    display_name: str = ""
    path: str = ""
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Workspace:
    """The workspace the project belongs to, the project itself among ``members``.

    ``share_categories`` is the stored text unread: None when nothing is stored, and empty (which is
    malformed, so nothing is shared) when the workspace's own row is missing.
    """

    members: tuple[Member, ...]
    share_categories: str | None = None


@dataclass(frozen=True, slots=True)
class ProjectDocs:
    """Texts of the project's documents as (file name, text), uncanonicalised.

    A file that is no regular file or too large is absent here; :mod:`m0` leaves out too large texts itself.
    """

    files: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Mural:
    """The image of memories beyond the budget: a PNG as ``data:`` URL, and the hash of what it shows."""

    data_url: str
    hash: str = ""


@dataclass(frozen=True, slots=True)
class HeadSource:
    """Everything a render reads, one snapshot.

    ``compartments`` are all of the session, in any order.  ``memories`` is the candidate pool: every live
    memory of the project and of the workspace's members, whether shared or not, **not** filtered by expiry
    (the cutoff is frozen elsewhere), and in addition every memory that ``mutations`` or a ``superseded_by``
    names, whatever its status.  ``mutations`` holds at least the rows of those identities that are newer
    than the stored marker; ``mutation_head`` is the newest id of them all, 0 without any.
    ``structural_mutation_id`` is the head of the session's own m[0] mutation log.
    """

    project: str = ""
    compartments: tuple[Compartment, ...] = ()
    memories: tuple[Memory, ...] = ()
    mutations: tuple[MutationRow, ...] = ()
    mutation_head: int = 0
    structural_mutation_id: int = 0
    memory_epoch: int = 0
    profile: tuple[ProfileEntry, ...] = ()
    profile_version: int = 0
    docs: ProjectDocs = ProjectDocs()
    workspace: Workspace | None = None
    mural: Mural | None = None
    # configuration
    memory_enabled: bool = True
    inject_docs: bool = True
    mural_enabled: bool = False
    temporal_awareness: bool = True
    images_accepted: bool = False  # by the model of this pass; unknown is no
    compaction_on: bool = True  # off: the head is additive, compartments are not rendered

    @property
    def upgrade_state(self) -> UpgradeState:
        return UpgradeState.LEGACY if any(c.legacy for c in self.compartments) else UpgradeState.READY

    @property
    def max_compartment_seq(self) -> int:
        """The compartment watermark: −1 when there is none, so that sequence 0 counts as new."""
        return max((c.sequence for c in self.compartments), default=-1)


@dataclass(frozen=True, slots=True)
class Budgets:
    """Allowances in provider tokens, and what turns them into local ones (section 4).

    ``ratio`` is the model's prose calibration.  ``policy`` identifies the configuration they came from,
    whatever the window (:func:`magiccontext.engine.head.budgets.policy_identity`).
    """

    history: int
    memory: int
    profile: int
    ratio: float = 1.0
    policy: str = ""


@dataclass(frozen=True, slots=True)
class Boundary:
    """The last message a pair covers.  With ``end_block`` it is covered only in part and stays."""

    mid: str
    ordinal: int
    end_block: int | None = None


@dataclass(frozen=True, slots=True)
class Markers:
    """From what state a pair was made (section 13).  None means never recorded; "" means unknown then."""

    materialized_ms: int = 0
    model_key: str = ""
    system_hash: str = ""
    tool_fingerprint: str = ""
    project: str | None = None
    memory_epoch: int = 0
    workspace_fingerprint: str | None = None
    profile_version: int = 0
    max_compartment_seq: int = -1
    max_memory_id: int = 0
    memory_mutation_id: int = 0
    structural_mutation_id: int = 0
    docs_hash: str = ""
    upgrade_state: str = UpgradeState.READY
    compartment_epoch: str | None = None
    memory_render_epoch: str | None = None
    mural_flag: bool | None = None
    policy: str | None = None
    allowances: str | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """m[0] and m[1] as served, with everything that is only true together with them.

    An empty text means that this half is missing: neither half is ever rendered empty.  ``boundary`` None
    means that the pair covers no compartment.  Id tuples ascend; ``visible_memory_ids`` are those of m[0],
    the added ones of m[1] and the forced ones.
    """

    m0: str
    m1: str
    markers: Markers = field(default_factory=Markers)
    mural: Mural | None = None
    boundary: Boundary | None = None
    m0_memory_ids: tuple[int, ...] = ()
    visible_memory_ids: tuple[int, ...] = ()

    @property
    def complete(self) -> bool:
        return bool(self.m0 and self.m1)
