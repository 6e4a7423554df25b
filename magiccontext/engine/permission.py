"""The one rebuild permission (reclaim-core section 5).  Everything that decides whether a prefix may change
lives in this file, and this file changes nothing.

A pass holds one permission, and every lane reads that same value.  It comes about in four steps, each a
table below:

    signals      SIGNALS      what would justify a rebuild, and how far to the front it may reach
    bypass       BYPASS       why a running historian does not matter: the prefix is lost anyway
    veto, hold   PERMISSION   what stops a pass although a signal is true
    level        SIGNALS      the highest level any true signal allows; without permission, DEFER

A primary session above its threshold has no permission of its own for queued drops.  They wait for the
summary that will remove more, and QUEUE says when waiting ends.

``decide`` is asked twice in a pass (section 5.6 step 6).  First with what is *due*: a fold or refresh may
be prepared only if the answer is a permission, because preparing persists.  Then with what came *out*: a
fold that left the served prefix intact is no signal, nor is a refresh that made the same bytes.

Two rules hold: a veto or a hold stops the whole pass, never a single lane; and a held pass consumes
nothing, so whoever raised a signal finds it still raised on the next one.

Percentages are of the usable soft window, tokens are provider tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from magiccontext.engine.schedule import EMERGENCY
from magiccontext.engine.view import Level

# Queued drops that free this share of the window end the waiting (section 5.4) ...
REBUILD_SHARE = 0.02
# ... and any queued drop does on the third execute pass in a row that would hold it.
HELD_BEFORE_REBUILD = 2


class SessionKind(StrEnum):
    PRIMARY = "primary"
    SUBAGENT = "subagent"


class FlushRequest(StrEnum):
    """A pending request to rebuild.  Only the person's own ``/ctx-flush`` is explicit (section 5.2)."""

    NONE = ""
    REQUEST = "request"
    EXPLICIT = "explicit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything the permission depends on, as plain values."""

    percentage: float
    threshold: float
    force_band: float
    kind: SessionKind = SessionKind.PRIMARY
    usable_tokens: int
    # Usage over the usable hard window, where that is known; else ``percentage`` speaks for it.
    emergency_percentage: float | None = None
    compaction_off: bool = False
    scheduler_execute: bool = False
    latch_set: bool = False  # the emergency drop already ran and is not armed
    episode_flag: bool = False  # the routine lanes already ran in this pressure episode
    # signals
    fold: bool = False  # m[0] materialized off the wire and the served prefix is lost
    fold_reason: str = "fold"
    first_render: bool = False
    idle: bool = False
    flush_request: FlushRequest = FlushRequest.NONE
    history_due: bool = False
    release_pending: bool = False  # what a past hold left behind
    pays_off: bool = False
    # m[1] was rendered anew on the permission of another signal (news riding along)
    m1_changed: bool = False
    # what may stop the pass
    hold: bool = False  # the signed-thinking hold applies (replay-lanes section 3.2)
    historian_running: bool = False
    # the queue exception
    historian_waiting: bool = False  # a finished run waits to publish
    historian_can_fire: bool = False
    blocked_only_by_prompt: bool = False  # the newest real user prompt is all that keeps it from firing
    floor_mark_pending: bool = False
    floor_mark_allowed: bool = True  # no mark was set for this prompt before
    removable_tokens: int = 0  # what the drain would remove now
    held_count: int = 0  # execute passes in a row that left removable drops queued

    @property
    def in_force_band(self) -> bool:
        return self.percentage >= self.force_band

    @property
    def in_emergency(self) -> bool:
        measured = self.percentage if self.emergency_percentage is None else self.emergency_percentage
        return measured >= EMERGENCY

    @property
    def large_queue(self) -> bool:
        """The size bound of section 5.4."""
        return self.removable_tokens > 0 and self.removable_tokens >= REBUILD_SHARE * self.usable_tokens

    @property
    def third_pass(self) -> bool:
        """The third-pass bound of section 5.4."""
        return self.removable_tokens > 0 and self.held_count >= HELD_BEFORE_REBUILD


def consumable(facts: Facts, *, awaited: bool) -> bool:
    """Whether a published history may be rendered on this pass (section 5.2).

    ``awaited``: the pass itself waited for that publication.
    """
    return awaited or facts.scheduler_execute or facts.in_force_band


class Clause(NamedTuple):
    """One line of the proof that a permission is right."""

    name: str
    value: bool | str
    section: str  # where the rule is written
    deciding: bool = False


class QueueAction(StrEnum):
    HOLD = "hold"
    FIRE_HISTORIAN = "fire_historian_hold"
    SET_FLOOR_MARK = "set_floor_mark"
    REBUILD = "rebuild"


class Held(StrEnum):
    """What becomes of the held counter."""

    COUNT = "count"
    RESET = "reset"


class QueueOutcome(NamedTuple):
    rule: str
    action: QueueAction
    counter: Held


class QueueRow(NamedTuple):
    rule: str
    holds: Callable[[Facts], bool]
    action: QueueAction


# Section 5.4, first row that holds.  A historian which the trigger started counts as running.
QUEUE: tuple[QueueRow, ...] = (
    QueueRow("historian running", lambda f: f.historian_running, QueueAction.HOLD),
    QueueRow("run waiting to publish", lambda f: f.historian_waiting, QueueAction.HOLD),
    QueueRow("historian may fire", lambda f: f.historian_can_fire, QueueAction.FIRE_HISTORIAN),
    # The historian runs past the prompt on this pass; the mark is consumed there (historian section 3).
    QueueRow("floor mark pending", lambda f: f.floor_mark_pending, QueueAction.FIRE_HISTORIAN),
    QueueRow(
        "blocked only by the newest prompt",
        lambda f: f.blocked_only_by_prompt and f.floor_mark_allowed and f.removable_tokens > 0,
        QueueAction.SET_FLOOR_MARK,
    ),
    QueueRow("nothing removable", lambda f: f.removable_tokens <= 0, QueueAction.HOLD),
    QueueRow("2 % of the window", lambda f: f.large_queue, QueueAction.REBUILD),
    QueueRow("third held pass", lambda f: f.third_pass, QueueAction.REBUILD),
    QueueRow("first or second held pass", lambda f: True, QueueAction.HOLD),
)


def queue_exception(facts: Facts) -> QueueOutcome:
    """What an execute pass of a primary session does about its queued drops (section 5.4).

    Meaningful only when the scheduler says execute and no other signal is true.  The counter assumes that
    the outcome comes to pass; :func:`next_held_count` knows whether it did.
    """
    row = next(row for row in QUEUE if row.holds(facts))
    lands = row.action is QueueAction.REBUILD or facts.removable_tokens <= 0
    return QueueOutcome(row.rule, row.action, Held.RESET if lands else Held.COUNT)


def next_held_count(facts: Facts, *, landed: bool) -> int:
    """The held counter after a pass; ``landed`` says that queued drops were applied on it."""
    if landed or facts.removable_tokens <= 0 or not facts.scheduler_execute:
        return 0
    return facts.held_count + 1


def _execute(facts: Facts) -> bool:
    """The ``execute`` row: its own permission for a subagent, the queue exception for a primary."""
    if not facts.scheduler_execute:
        return False
    if facts.kind is SessionKind.SUBAGENT:
        return True
    return not _others(facts) and queue_exception(facts).action is QueueAction.REBUILD


class Signal(NamedTuple):
    name: str
    holds: Callable[[Facts], bool]
    kinds: frozenset[SessionKind]
    level: Level
    reason: Callable[[Facts], str]


BOTH = frozenset(SessionKind)
PRIMARY = frozenset({SessionKind.PRIMARY})

_FLUSH_REASONS = {FlushRequest.REQUEST: "flush_request", FlushRequest.EXPLICIT: "explicit_flush"}
_EXECUTE_REASONS = {SessionKind.PRIMARY: "queued_drops", SessionKind.SUBAGENT: "subagent_execute"}

# Section 5.2, in its order.  A subagent has no heads, and idle reaches it through ``execute``.
SIGNALS: tuple[Signal, ...] = (
    Signal("fold", lambda f: f.fold, PRIMARY, Level.HARD, lambda f: f.fold_reason),
    Signal("first_render", lambda f: f.first_render, PRIMARY, Level.HARD, lambda f: "first_render"),
    Signal("idle", lambda f: f.idle, PRIMARY, Level.SOFT_PLUS, lambda f: "ttl_expiry"),
    Signal(
        "force",
        lambda f: f.in_force_band and (f.in_emergency or not f.latch_set or f.large_queue or f.third_pass),
        BOTH,
        Level.SOFT_PLUS,
        lambda f: "force_band",
    ),
    Signal(
        "flush",
        lambda f: f.flush_request is not FlushRequest.NONE,
        BOTH,
        Level.SOFT_PLUS,
        lambda f: _FLUSH_REASONS[f.flush_request],
    ),
    Signal("history", lambda f: f.history_due, PRIMARY, Level.SOFT, lambda f: "m1_delta"),
    Signal(
        "release",
        lambda f: f.release_pending and not f.hold,
        BOTH,
        Level.SOFT_PLUS,
        lambda f: "hold_release",
    ),
    Signal("execute", _execute, BOTH, Level.SOFT_PLUS, lambda f: _EXECUTE_REASONS[f.kind]),
    Signal("pays_off", lambda f: f.pays_off, BOTH, Level.SOFT_PLUS, lambda f: "pays_off"),
)


def _true(signal: Signal, facts: Facts) -> bool:
    return facts.kind in signal.kinds and signal.holds(facts)


def _others(facts: Facts) -> bool:
    """Whether any signal but ``execute`` is true."""
    return any(_true(signal, facts) for signal in SIGNALS if signal.name != "execute")


class Test(NamedTuple):
    name: str
    holds: Callable[[Facts], bool]


# Section 5.3: the prefix is already lost, or must be.
BYPASS: tuple[Test, ...] = (
    Test("force band", lambda f: f.in_force_band),
    Test("fold", lambda f: f.fold),
    Test("explicit flush", lambda f: f.flush_request is FlushRequest.EXPLICIT),
    Test("first render", lambda f: f.first_render),
    Test("idle", lambda f: f.idle),
)


class Ruling(NamedTuple):
    """One row of :data:`PERMISSION`; None stands for either."""

    name: str
    off: bool | None
    bust: bool | None
    hold: bool | None
    veto: bool | None
    permitted: bool


# Section 5.3, first row that matches.  A hold is stronger than a veto.
PERMISSION: tuple[Ruling, ...] = (
    #      name              off    bust   hold   veto   permitted
    Ruling("compaction off", True, None, None, None, False),
    Ruling("no signal", False, False, None, None, False),
    Ruling("hold", False, True, True, None, False),
    Ruling("veto", False, True, False, True, False),
    Ruling("permission", False, True, False, False, True),
)


def _ruling(off: bool, bust: bool, hold: bool, veto: bool) -> Ruling:
    asked = (off, bust, hold, veto)
    return next(
        row
        for row in PERMISSION
        if all(wanted in (None, given) for wanted, given in zip(row[1:5], asked, strict=True))
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The permission of a pass, and its proof.

    ``permission`` is the highest level the pass may derive.  ``signals`` and ``reasons`` go in pairs and
    name what is true even when a veto or hold stops it.  ``queue`` is set on an execute pass of a primary
    session without another signal.
    """

    permission: Level
    signals: tuple[str, ...]
    reasons: tuple[str, ...]
    bypass: bool
    veto: bool
    hold: bool
    ruling: str
    queue: QueueOutcome | None
    clauses: tuple[Clause, ...]

    @property
    def permitted(self) -> bool:
        return self.permission is not Level.DEFER

    @property
    def held(self) -> bool:
        """A signal was true and something stopped the pass: requests stay pending."""
        return self.ruling in ("hold", "veto")


def decide(facts: Facts) -> Verdict:
    """The permission of a pass (sections 5.2 and 5.3)."""
    found = [signal for signal in SIGNALS if _true(signal, facts)]
    primary = facts.kind is SessionKind.PRIMARY
    bypasses = [test.name for test in BYPASS if test.holds(facts)]
    veto = primary and facts.historian_running and not bypasses
    ruling = _ruling(facts.compaction_off, bool(found), facts.hold, veto)
    level = Level.DEFER
    if ruling.permitted:
        level = max(signal.level for signal in found)
        if facts.m1_changed:
            level = max(level, Level.SOFT)
    asks_queue = primary and facts.scheduler_execute and not facts.compaction_off and not _others(facts)
    queue = queue_exception(facts) if asks_queue else None
    return Verdict(
        permission=level,
        signals=tuple(signal.name for signal in found),
        reasons=tuple(signal.reason(facts) for signal in found),
        bypass=bool(bypasses),
        veto=veto,
        hold=facts.hold,
        ruling=ruling.name,
        queue=queue,
        clauses=_proof(facts, found, bypasses, veto, ruling, queue, level),
    )


def _proof(
    facts: Facts,
    found: list[Signal],
    bypasses: list[str],
    veto: bool,
    ruling: Ruling,
    queue: QueueOutcome | None,
    level: Level,
) -> tuple[Clause, ...]:
    highest = max(found, key=lambda signal: signal.level).name if found and ruling.permitted else ""
    clauses = [
        Clause("compaction off", facts.compaction_off, "reclaim-core 5.3", ruling.name == "compaction off"),
        Clause("scheduler execute", facts.scheduler_execute, "reclaim-core 4.4"),
    ]
    clauses += [
        Clause(f"signal {s.name}", s in found, "reclaim-core 5.2", s.name == highest)
        for s in SIGNALS
        if facts.kind in s.kinds
    ]
    if queue is not None:
        clauses.append(Clause("queue exception", f"{queue.rule}: {queue.action}", "reclaim-core 5.4"))
    clauses += [
        Clause("bust", bool(found), "reclaim-core 5.3", ruling.name == "no signal"),
        Clause("historian running", facts.historian_running, "historian 12"),
        Clause("bypass", ", ".join(bypasses) or False, "reclaim-core 5.3"),
        Clause("veto", veto, "reclaim-core 5.3", ruling.name == "veto"),
        Clause("hold", facts.hold, "replay-lanes 3.2", ruling.name == "hold"),
        Clause("permission", level.word, "reclaim-core 5.3"),
    ]
    return tuple(clauses)


class RoutineRow(NamedTuple):
    name: str
    holds: Callable[[Facts], bool]
    runs: bool | None  # None: only when the rebuild is already paid for


# Section 5.5, first row that holds.
ROUTINE: tuple[RoutineRow, ...] = (
    RoutineRow("subagent", lambda f: f.kind is SessionKind.SUBAGENT, True),
    RoutineRow("emergency", lambda f: f.in_emergency, True),
    RoutineRow("force band, latch clear", lambda f: f.in_force_band and not f.latch_set, True),
    RoutineRow("force band, latch set", lambda f: f.in_force_band, None),
    RoutineRow("episode not used", lambda f: f.percentage >= f.threshold and not f.episode_flag, True),
    RoutineRow("episode used", lambda f: f.percentage >= f.threshold, None),
    RoutineRow("below the threshold", lambda f: True, None),
)


def routine_lanes(facts: Facts, paid: bool, emergency_changed: bool) -> bool:
    """Whether dedup, supersession, injection strip and reasoning clearing run (section 5.5).

    ``paid``: queued drops newly applied on this pass, a fold that loses the prefix, idle expiry, rebuilt
    history or changed m[1], or a flush-class request.  ``emergency_changed``: the emergency drop changed
    bytes on this pass.  Without permission nothing runs.
    """
    if not decide(facts).permitted:
        return False
    if emergency_changed:
        return True
    runs = next(row.runs for row in ROUTINE if row.holds(facts))
    return paid if runs is None else runs
