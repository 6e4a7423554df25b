"""What the engine knows of one session, and what a pass wants written.

A :class:`SessionState` is a snapshot: everything a pass may look at.  ``run_pass`` never changes it; it
returns :class:`Changes`, and whoever committed those calls :meth:`SessionState.advanced` to get the next
snapshot.  The stored rows and the snapshot are two forms of one thing: loading the rows gives the snapshot
that ``advanced`` would have given, so a restart or a second process changes no decision
(design section 5; reclaim-core section 13 lists the records).

Durable scalars live in :class:`Vars`.  They are one value, replaced as a whole, so that no rule can keep
a private copy that a restart would forget.
"""

from __future__ import annotations

import hashlib
from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from magiccontext.engine.head.model import Pair
from magiccontext.engine.transcript import Parsed, Role
from magiccontext.engine.view import Edit, Form, Op


class TagType(StrEnum):
    MESSAGE = "message"
    FILE = "file"
    TOOL = "tool"


class TagStatus(StrEnum):
    ACTIVE = "active"
    DROPPED = "dropped"
    COMPACTED = "compacted"


class DropMode(StrEnum):
    """How a drop is carried out (reclaim-core section 3)."""

    NONE = ""
    FULL = "full"
    SKELETON_REAL = "skeleton_real"
    SKELETON_STRIPPED = "skeleton_stripped"

    @property
    def is_skeleton(self) -> bool:
        return self in (DropMode.SKELETON_REAL, DropMode.SKELETON_STRIPPED)


@dataclass(frozen=True, slots=True)
class Tag:
    """One tag (reclaim-core section 1).  Sizes are bytes, counts local tokens; all fixed at insert."""

    number: int
    type: TagType
    mid: str  # owner: the text's or file's message; of a tool the message of the call
    part: int  # index of the text, file or call part in ``mid``; -1 when the call is not in the transcript
    rank: int  # position among the message's parts of the same type
    call_id: str = ""
    result_mid: str = ""
    result_part: int = -1
    tool_name: str = ""
    status: TagStatus = TagStatus.ACTIVE
    drop_mode: DropMode = DropMode.NONE
    output_bytes: int = 0
    input_bytes: int = 0
    reasoning_bytes: int = 0
    token_count: int = 0
    input_token_count: int = 0
    reasoning_token_count: int = 0
    input_string_bytes: int = -1  # all string values of the arguments; -1 when they are not on the wire
    attachments: int = 0
    inert: bool = False  # whitespace framing: keeps its number, nothing to reclaim
    source: str | None = None  # text to serve instead of the host's own (injection strip)

    @property
    def tokens(self) -> int:
        """Local tokens of content and arguments together."""
        return self.token_count + self.input_token_count


@dataclass(frozen=True, slots=True)
class PendingDrop:
    """A queued ``ctx_reduce`` mark.  Applied in (queued_ms, number) order."""

    number: int
    queued_ms: int


@dataclass(frozen=True, slots=True)
class Link:
    """A tool call or a tool result in a message; ``owner`` is the message of the call."""

    is_call: bool
    call_id: str
    part: int
    owner: str


@dataclass(slots=True)
class Msg:
    """One message identity.  Treated as immutable; ``parsed`` is only a cache."""

    mid: str
    lineage: int
    ordinal: int  # 1-based, dense within a lineage
    role: Role
    digest: bytes  # SHA-256 of the undecorated bytes
    raw: bytes
    parent: str  # identity of the message before it when it was first seen; "" for the first
    revision: int = 0
    tokens: int = 0  # local tokens of everything in it, decided once per revision
    links: tuple[Link, ...] = ()
    form: Form | None = None  # last served form; None: never served
    raw_sent: bool = False  # the host had to send it without our edits: stays raw until a rebuild
    removed: bool = False
    created_ms: int = 0  # the host's own time of it, where the format has one
    parsed: Parsed | None = None

    @property
    def body(self) -> bytes | None:
        """The bytes it is served as; None when it is not sent at all."""
        return self.raw if self.form is None else self.form.body


@dataclass(frozen=True, slots=True)
class Vars:
    """Every durable scalar of a session.  Times are milliseconds since the epoch, UTC."""

    version: int = 0
    view_version: int = 0
    lineage: int = 1
    message_counter: int = 0
    # tags
    tag_counter: int = 0
    tool_reclaim_watermark: int = 0
    highest_dropped_tag: int = 0
    reduce_verdict: bool | None = None  # ctx_reduce callable; None while undecided
    # usage of the newest completed response (reclaim-core section 4.1)
    usage_input_tokens: int = 0
    usage_limit: int = 0
    usage_model: str = ""
    usage_pass_id: int = 0
    usage_message_id: str = ""
    usage_mid: str = ""  # last message of the array it was measured on
    usage_wire_tokens: int = 0  # local estimate of that array as served
    last_response_ms: int = 0
    proven_safe_input: int = 0
    # the last committed pass: what the next usage report was measured on
    last_limit: int = 0
    last_pass_id: int = 0
    last_pass_mid: str = ""
    last_pass_wire_tokens: int = 0
    last_pass_ms: int = 0
    wire_tokens: int = 0  # local estimate of everything served now
    head_tokens: int = 0  # the head's part of it
    head_additive: bool = False  # the stored pair is that of a session without compaction
    degraded_cuts: int = 0  # rebuilds in a row whose boundary was missing in the array ...
    degraded_at: tuple[int, int] = (-1, 0)  # ... with this newest compartment and structural change
    raw_bytes: int = 0
    served_bytes: int = 0
    # policy adopted on permitted passes only (reclaim-core section 13, "session policy")
    model: str = ""
    protected_tokens: int = 0
    protected_tools: tuple[tuple[str, int], ...] = ()
    ratios: tuple[float, float, float] = (1.0, 1.0, 1.0)  # system, tools, prose
    frozen_ttl: tuple[tuple[str, str], ...] = ()  # (model key, built-in value), config section 10.2
    can_remove: bool = True  # frozen host capability (replay-lanes section 1.2)
    # pass state
    episode: bool = False  # routine lanes ran in this pressure episode
    in_episode: bool = False  # usage is at or above the execute threshold
    held_execute: int = 0
    flush: str = ""  # "", "request" or "explicit"
    emergency_sample: int = 0  # latch: 0 = armed
    # overflow (reclaim-core section 8)
    detected_limit: int = 0
    detected_model: str = ""
    detected_provenance: str = ""
    recovery_armed: bool = False
    recovery_origin: str = ""
    recovery_no_head: int = 0
    unmanaged_over: bool = False
    # faults
    last_error: str = ""


class Why(StrEnum):
    """Why a message gets a form."""

    FIRST = "first"  # never served before: no bust
    CHANGED = "changed"  # a rebuild changed what was sent: this is the bust
    REBASED = "rebased"  # the host says it sent something else than we answered
    RETURNED = "returned"  # not in the last array: what was decided meanwhile shows now, as if first sent


@dataclass(frozen=True, slots=True)
class FormChange:
    """A form that becomes valid with the new view version."""

    mid: str
    form: Form
    why: Why
    raw_sent: bool = False


HEAD_MIDS = ("head#0", "head#1")
"""Identities of m[0] and m[1]; no host's id holds a '#'."""

CUT = Form((Edit(Op.REMOVE_MESSAGE, text="cut"),), None)
"""The form of a message that the head stands for."""


@dataclass(slots=True)
class Arrival:
    """What a request's array means for the stored history (design section 4; hosts section 2.5).

    ``mids`` names the messages of the request in order.  With ``path`` None the array is the old path
    followed by ``new``; otherwise ``path`` and ``line`` replace the old ones.  ``moved`` holds known
    messages that a new lineage lists again under a new ordinal.
    """

    mids: list[str] = field(default_factory=list)
    new: list[Msg] = field(default_factory=list)
    revised: list[Msg] = field(default_factory=list)  # same identity, other content: a new revision
    moved: list[Msg] = field(default_factory=list)
    path: list[Msg] | None = None
    line: list[Msg] | None = None
    new_lineage: tuple[int, int, int] | None = None  # (number, parent, last shared ordinal)
    first_change: int | None = None  # index in the old path at which the host itself changed the array


@dataclass(slots=True)
class Changes:
    """Everything a pass wants to be true once it is committed; written in one transaction."""

    vars: Vars
    arrival: Arrival
    new_tags: list[Tag] = field(default_factory=list)
    changed_tags: list[Tag] = field(default_factory=list)
    ops_removed: list[int] = field(default_factory=list)
    forms: list[FormChange] = field(default_factory=list)
    head: Pair | None = None  # the pair to store; None: unchanged
    folded: bool = False  # m[0] was rendered: what it was made from must still hold at the commit
    published_taken: bool = False


class SessionState:
    """A snapshot of one session.  Build it from stored rows, or empty for a new one.

    ``path`` is the array of the last pass, ``line`` every message of the current lineage in ordinal
    order (they differ only while the host leaves messages out), ``messages`` every identity ever seen.
    """

    __slots__ = (
        "by_call",
        "by_content",
        "by_mid",
        "chains",
        "digests",
        "head",
        "head_bodies",
        "history",
        "line",
        "messages",
        "path",
        "pending",
        "position",
        "published",
        "tags",
        "trie",
        "unpaired",
        "vars",
    )

    def __init__(
        self,
        vars: Vars | None = None,
        messages: Iterable[Msg] = (),
        path: Iterable[str] = (),
        line: Iterable[str] | None = None,
        tags: Iterable[Tag] = (),
        pending: Iterable[PendingDrop] = (),
        head: Pair | None = None,
        head_bodies: tuple[bytes, ...] = (),
        published: bool = False,
        history: tuple[int, int] = (-1, 0),
    ) -> None:
        self.vars = vars or Vars()
        self.head = head
        self.head_bodies = head_bodies
        self.published = published
        self.history = history  # (newest compartment sequence, newest structural change) in the store
        self.messages: dict[str, Msg] = {m.mid: m for m in messages}
        self.path: list[Msg] = [self.messages[mid] for mid in path]
        self.line: list[Msg] = self.path if line is None else [self.messages[mid] for mid in line]
        self.chains: list[bytes] = []
        self.digests: list[bytes] = [m.digest for m in self.path]
        self.position: dict[str, int] = {m.mid: i for i, m in enumerate(self.path)}
        self.trie: dict[tuple[str, bytes], str] = {}
        for message in self.messages.values():
            self.trie.setdefault((message.parent, message.digest), message.mid)
        self.tags: dict[int, Tag] = {}
        self.by_content: dict[str, int] = {}
        self.by_call: dict[tuple[str, str], int] = {}
        self.by_mid: dict[str, list[int]] = {}
        for tag in tags:
            self._index(tag)
        self.pending: dict[int, PendingDrop] = {op.number: op for op in pending}
        self.unpaired: dict[str, list[Link]] = unpaired_calls(self.path)

    def _index(self, tag: Tag) -> None:
        old = self.tags.get(tag.number)
        were_in = set() if old is None else {old.mid, old.result_mid}
        are_in = {tag.mid, tag.result_mid}
        for mid in are_in - were_in - {""}:
            insort(self.by_mid.setdefault(mid, []), tag.number)
        for mid in were_in - are_in - {""}:
            self.by_mid[mid].remove(tag.number)
        if old is not None and old.part != tag.part and old.type is not TagType.TOOL:
            key = content_id(old.type, old.mid, old.part)
            if self.by_content.get(key) == tag.number:
                del self.by_content[key]
        self.tags[tag.number] = tag
        if tag.type is TagType.TOOL:
            self.by_call[(tag.call_id, tag.mid)] = tag.number
        else:
            self.by_content[content_id(tag.type, tag.mid, tag.part)] = tag.number

    def advanced(self, changes: Changes) -> SessionState:
        """The snapshot after ``changes`` were committed.  Consumes this one: cost is O(what changed)."""
        self.vars = changes.vars
        arrival = changes.arrival
        replaced: dict[str, Msg] = {m.mid: m for m in (*arrival.new, *arrival.revised, *arrival.moved)}
        self._advance_head(changes)
        for change in changes.forms:
            if change.mid in HEAD_MIDS:
                continue
            message = replaced.get(change.mid) or self.messages[change.mid]
            replaced[change.mid] = replace(message, form=change.form, raw_sent=change.raw_sent)
        self.messages.update(replaced)
        for message in replaced.values():
            self.trie.setdefault((message.parent, message.digest), message.mid)
        if arrival.path is None:
            self._extend(replaced, arrival)
        else:
            self.path = [self.messages[m.mid] for m in arrival.path]
            self.line = self.path if arrival.line is None else [self.messages[m.mid] for m in arrival.line]
            self.chains = []
            self.digests = [m.digest for m in self.path]
            self.position = {m.mid: i for i, m in enumerate(self.path)}
            self.unpaired = unpaired_calls(self.path)
        for tag in (*changes.new_tags, *changes.changed_tags):
            self._index(tag)
        for number in changes.ops_removed:
            self.pending.pop(number, None)
        return self

    def _advance_head(self, changes: Changes) -> None:
        self.head = changes.head or self.head
        self.published = self.published and not changes.published_taken
        bodies = dict(zip(HEAD_MIDS, self.head_bodies, strict=False))
        for change in changes.forms:
            if change.mid in HEAD_MIDS and change.form.body is None:
                bodies.pop(change.mid, None)
            elif change.mid in HEAD_MIDS and change.form.body is not None:
                bodies[change.mid] = change.form.body
        self.head_bodies = tuple(bodies[mid] for mid in HEAD_MIDS if mid in bodies)

    def _extend(self, replaced: dict[str, Msg], arrival: Arrival) -> None:
        """The ordinary case: the old path, with some messages in new form, and ``arrival.new`` behind it."""
        fresh = {m.mid for m in arrival.new}
        for mid, message in replaced.items():
            if mid not in fresh and mid in self.position:
                self.path[self.position[mid]] = message
                if self.digests[self.position[mid]] != message.digest:
                    self.digests[self.position[mid]] = message.digest
                    self.chains = []
                if self.line is not self.path:
                    self.line = [message if m.mid == mid else m for m in self.line]
        for new in arrival.new:
            message = self.messages[new.mid]
            self.position[message.mid] = len(self.path)
            self.digests.append(message.digest)
            if self.line is not self.path:
                self.line.append(message)
            self.path.append(message)
            pair(self.unpaired, message.links)

    def chain_at(self, count: int) -> bytes:
        """Sync chain value after the first ``count`` messages of the path (hosts section 10.2)."""
        for index in range(len(self.chains), count):
            self.chains.append(fold_chain(self.chains[-1] if index else CHAIN_START, self.digests[index]))
        return self.chains[count - 1] if count else CHAIN_START

    def tags_of(self, mid: str) -> list[Tag]:
        """Tags whose content, call or result lies in message ``mid``, in ascending number."""
        return [self.tags[number] for number in self.by_mid.get(mid, ())]


CHAIN_START = b"\x00" * 32


def fold_chain(previous: bytes, digest: bytes) -> bytes:
    """Next value of the sync chain (hosts section 10.2): 32 bytes."""
    return hashlib.sha256(previous + digest).digest()


def pair(unpaired: dict[str, list[Link]], links: Iterable[Link]) -> None:
    """Move ``unpaired`` past the calls and results of one message (reclaim-core section 1.2, FIFO)."""
    for link in links:
        if link.is_call:
            unpaired.setdefault(link.call_id, []).append(link)
        elif queue := unpaired.get(link.call_id):
            queue[:] = [call for call in queue if call.owner != link.owner]
            if not queue:
                del unpaired[link.call_id]


def unpaired_calls(path: Iterable[Msg]) -> dict[str, list[Link]]:
    """Calls of ``path`` that have no result yet, oldest first, by call id."""
    unpaired: dict[str, list[Link]] = {}
    for message in path:
        pair(unpaired, message.links)
    return unpaired


def content_id(type: TagType, mid: str, part: int) -> str:
    """Identity of a text or file tag: ``mid:pN`` or ``mid:fileN`` (reclaim-core section 1.1)."""
    return f"{mid}:{'p' if type is TagType.MESSAGE else 'file'}{part}"
