from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from magiccontext.engine.permission import (
    BYPASS,
    PERMISSION,
    QUEUE,
    ROUTINE,
    SIGNALS,
    Facts,
    FlushRequest,
    Held,
    QueueAction,
    SessionKind,
    consumable,
    decide,
    next_held_count,
    queue_exception,
    routine_lanes,
)
from magiccontext.engine.schedule import force_band
from magiccontext.engine.session_kinds import LANES, Lane, When, lane_runs
from magiccontext.engine.view import Level

PRIMARY, SUBAGENT = SessionKind.PRIMARY, SessionKind.SUBAGENT
USABLE = 100_000


def facts(percentage: float = 50, threshold: float = 65, **more: Any) -> Facts:
    more.setdefault("scheduler_execute", percentage >= threshold)
    more.setdefault("usable_tokens", USABLE)
    return Facts(percentage=percentage, threshold=threshold, force_band=force_band(threshold), **more)


# Section 5.2: (signal, facts that make it true and nothing else, level, reason, primary, subagent).
SIGNAL_ROWS = [
    ("fold", {"fold": True, "fold_reason": "model_change"}, Level.HARD, "model_change", True, False),
    ("first_render", {"first_render": True}, Level.HARD, "first_render", True, False),
    ("idle", {"idle": True}, Level.SOFT_PLUS, "ttl_expiry", True, False),
    ("force", {"percentage": 85}, Level.SOFT_PLUS, "force_band", True, True),
    ("flush", {"flush_request": FlushRequest.REQUEST}, Level.SOFT_PLUS, "flush_request", True, True),
    ("flush", {"flush_request": FlushRequest.EXPLICIT}, Level.SOFT_PLUS, "explicit_flush", True, True),
    ("history", {"history_due": True}, Level.SOFT, "m1_delta", True, False),
    ("release", {"release_pending": True}, Level.SOFT_PLUS, "hold_release", True, True),
    ("execute", {"percentage": 70, "removable_tokens": 2_000}, Level.SOFT_PLUS, "queued_drops", True, False),
    ("execute", {"percentage": 70}, Level.SOFT_PLUS, "subagent_execute", False, True),
    ("pays_off", {"pays_off": True}, Level.SOFT_PLUS, "pays_off", True, True),
]


@pytest.mark.parametrize(("signal", "given", "level", "reason", "primary", "subagent"), SIGNAL_ROWS)
def test_signal(
    signal: str, given: dict[str, Any], level: Level, reason: str, primary: bool, subagent: bool
) -> None:
    for kind, applies in ((PRIMARY, primary), (SUBAGENT, subagent)):
        verdict = decide(facts(kind=kind, **given))
        named = list(zip(verdict.signals, verdict.reasons, strict=True))
        assert ((signal, reason) in named) is applies
        if applies:
            assert verdict.permission is level


def test_every_signal_is_laid_down() -> None:
    assert [signal.name for signal in SIGNALS] == list(dict.fromkeys(row[0] for row in SIGNAL_ROWS))


def test_nothing_true_is_a_defer_pass() -> None:
    for kind in SessionKind:
        verdict = decide(facts(kind=kind))
        assert (verdict.permission, verdict.signals, verdict.ruling) == (Level.DEFER, (), "no signal")


# The force row: (percentage, latch set, removable, held before, true).
FORCE = [
    (84.9, False, 0, 0, False),
    (85, False, 0, 0, True),
    (88, True, 0, 0, False),
    (88, True, 1_999, 1, False),
    (88, True, 2_000, 0, True),
    (88, True, 1, 2, True),
    (88, True, 0, 2, False),
    (95, True, 0, 0, True),
]


@pytest.mark.parametrize(("percentage", "latch", "removable", "held", "true"), FORCE)
def test_force(percentage: float, latch: bool, removable: int, held: int, true: bool) -> None:
    given = facts(
        percentage,
        latch_set=latch,
        removable_tokens=removable,
        held_count=held,
        historian_can_fire=True,
    )
    assert ("force" in decide(given).signals) is true


def test_emergency_is_measured_against_the_hard_window_where_known() -> None:
    assert not decide(facts(96, latch_set=True, emergency_percentage=94)).permitted
    assert decide(facts(96, latch_set=True, emergency_percentage=95)).permitted


# Section 5.3, all combinations of its table: (bust, running, bypass, hold) → (permitted, ruling).
def expected_ruling(bust: bool, running: bool, bypass: bool, hold: bool) -> str:
    if not bust:
        return "no signal"
    if hold:
        return "hold"
    return "veto" if running and not bypass else "permission"


@pytest.mark.parametrize(
    ("bust", "running", "bypass", "hold"),
    [row for row in product((False, True), repeat=4) if row[0] or not row[2]],
)
def test_permission_table(bust: bool, running: bool, bypass: bool, hold: bool) -> None:
    request = FlushRequest.EXPLICIT if bypass else FlushRequest.REQUEST if bust else FlushRequest.NONE
    given = facts(flush_request=request, historian_running=running, hold=hold)
    verdict = decide(given)
    assert verdict.ruling == expected_ruling(bust, running, bypass, hold)
    assert verdict.permitted is (verdict.ruling == "permission")
    assert verdict.held is (verdict.ruling in ("hold", "veto"))
    assert (verdict.bypass, verdict.veto, verdict.hold) == (bypass, running and not bypass, hold)
    off = decide(replace(given, compaction_off=True))
    assert (off.permission, off.ruling) == (Level.DEFER, "compaction off")


def test_permission_rows_leave_no_case_out() -> None:
    for asked in product((False, True), repeat=4):
        matching = [
            row for row in PERMISSION if all(w in (None, g) for w, g in zip(row[1:5], asked, strict=True))
        ]
        assert len(matching) == 1


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("force band", {"percentage": 85}),
        ("fold", {"fold": True}),
        ("explicit flush", {"flush_request": FlushRequest.EXPLICIT}),
        ("first render", {"first_render": True}),
        ("idle", {"idle": True}),
    ],
)
def test_bypass(name: str, given: dict[str, Any]) -> None:
    assert name in {test.name for test in BYPASS}
    verdict = decide(facts(historian_running=True, **given))
    assert verdict.bypass and not verdict.veto and verdict.permitted


@pytest.mark.parametrize(
    "given",
    [
        {"flush_request": FlushRequest.REQUEST},
        {"history_due": True},
        {"release_pending": True},
        {"pays_off": True},
    ],
)
def test_other_signals_do_not_bypass(given: dict[str, Any]) -> None:
    verdict = decide(facts(historian_running=True, **given))
    assert verdict.veto and verdict.held and not verdict.bypass


def test_the_level_is_the_highest_any_signal_allows() -> None:
    every = facts(
        fold=True,
        idle=True,
        history_due=True,
        flush_request=FlushRequest.REQUEST,
    )
    assert decide(every).permission is Level.HARD
    assert decide(replace(every, fold=False)).permission is Level.SOFT


def test_news_that_rides_lifts_a_permission_but_never_makes_one() -> None:
    assert decide(facts(idle=True, m1_changed=True)).permission is Level.SOFT
    assert decide(facts(m1_changed=True)).permission is Level.DEFER


def test_the_bypass_follows_the_derived_force_band() -> None:
    given = facts(86, threshold=90, flush_request=FlushRequest.REQUEST, historian_running=True)
    assert decide(given).veto
    assert not decide(replace(given, percentage=92)).veto


# Section 5.4: (row, facts, action, counter).
QUEUE_ROWS = [
    ("historian running", {"historian_running": True, "removable_tokens": 50_000}, "hold", "count"),
    ("run waiting to publish", {"historian_waiting": True, "removable_tokens": 50_000}, "hold", "count"),
    (
        "historian may fire",
        {"historian_can_fire": True, "removable_tokens": 50_000},
        "fire_historian_hold",
        "count",
    ),
    ("historian may fire", {"historian_can_fire": True}, "fire_historian_hold", "reset"),
    (
        "floor mark pending",
        {"floor_mark_pending": True, "removable_tokens": 1},
        "fire_historian_hold",
        "count",
    ),
    (
        "blocked only by the newest prompt",
        {"blocked_only_by_prompt": True, "removable_tokens": 50_000},
        "set_floor_mark",
        "count",
    ),
    ("nothing removable", {"blocked_only_by_prompt": True, "held_count": 5}, "hold", "reset"),
    ("nothing removable", {"held_count": 5}, "hold", "reset"),
    (
        "2 % of the window",
        {"blocked_only_by_prompt": True, "floor_mark_allowed": False, "removable_tokens": 2_000},
        "rebuild",
        "reset",
    ),
    ("2 % of the window", {"removable_tokens": 2_000}, "rebuild", "reset"),
    ("third held pass", {"removable_tokens": 1_999, "held_count": 2}, "rebuild", "reset"),
    ("first or second held pass", {"removable_tokens": 1_999, "held_count": 1}, "hold", "count"),
    ("first or second held pass", {"removable_tokens": 1}, "hold", "count"),
]


@pytest.mark.parametrize(("row", "given", "action", "counter"), QUEUE_ROWS)
def test_queue_exception(row: str, given: dict[str, Any], action: str, counter: str) -> None:
    outcome = queue_exception(facts(70, **given))
    assert outcome == (row, QueueAction(action), Held(counter))
    assert decide(facts(70, **given)).permitted is (action == "rebuild")


def test_every_queue_row_is_laid_down() -> None:
    assert [row.rule for row in QUEUE] == list(dict.fromkeys(row[0] for row in QUEUE_ROWS))


def test_the_queue_is_asked_only_on_an_execute_pass_without_another_signal() -> None:
    assert decide(facts(70, removable_tokens=5_000)).queue is not None
    assert decide(facts(50, removable_tokens=5_000)).queue is None
    assert decide(facts(70, removable_tokens=5_000, history_due=True)).queue is None
    assert decide(facts(70, removable_tokens=5_000, kind=SUBAGENT)).queue is None
    assert decide(facts(70, removable_tokens=5_000, compaction_off=True)).queue is None


@pytest.mark.parametrize(
    ("given", "landed", "count"),
    [
        ({"percentage": 70, "removable_tokens": 1}, False, 2),
        ({"percentage": 70, "removable_tokens": 1}, True, 0),
        ({"percentage": 70, "removable_tokens": 0}, False, 0),
        ({"percentage": 50, "removable_tokens": 1}, False, 0),
    ],
)
def test_held_counter(given: dict[str, Any], landed: bool, count: int) -> None:
    assert next_held_count(facts(held_count=1, **given), landed=landed) == count


# Section 5.5: (row, facts; all with permission, unpaid, paid).
FLUSH = {"flush_request": FlushRequest.EXPLICIT}
ROUTINE_ROWS = [
    ("subagent", {"kind": SUBAGENT, "percentage": 50, **FLUSH}, True, True),
    ("emergency", {"percentage": 95, "latch_set": True, "episode_flag": True}, True, True),
    ("force band, latch clear", {"percentage": 88, "episode_flag": True}, True, True),
    ("force band, latch set", {"percentage": 88, "latch_set": True, **FLUSH}, False, True),
    ("episode not used", {"percentage": 65, **FLUSH}, True, True),
    ("episode used", {"percentage": 65, "episode_flag": True, **FLUSH}, False, True),
    ("below the threshold", {"percentage": 64, **FLUSH}, False, True),
]


@pytest.mark.parametrize(("row", "given", "unpaid", "paid"), ROUTINE_ROWS)
def test_routine_lanes(row: str, given: dict[str, Any], unpaid: bool, paid: bool) -> None:
    asked = facts(**given)
    assert next(r.name for r in ROUTINE if r.holds(asked)) == row
    assert routine_lanes(asked, False, False) is unpaid
    assert routine_lanes(asked, True, False) is paid
    assert routine_lanes(asked, False, True), "an emergency drop that changed bytes takes them along"


def test_every_routine_row_is_laid_down() -> None:
    assert [row.name for row in ROUTINE] == [row[0] for row in ROUTINE_ROWS]


def test_routine_lanes_need_the_permission() -> None:
    assert not routine_lanes(facts(70), True, True)
    assert not routine_lanes(facts(96, hold=True), True, True)


def test_lanes_by_session_kind() -> None:
    # Section 5.5, column by column where they differ.
    assert set(LANES) == set(Lane)
    only_primary = {lane for lane in Lane if lane_runs(lane, SUBAGENT) is When.NO}
    assert only_primary == {Lane.HISTORY, Lane.KNOWLEDGE, Lane.PRIMARY_HINTS}
    assert lane_runs(Lane.ROUTINE, PRIMARY) is lane_runs(Lane.REASONING, PRIMARY) is When.EPISODE
    assert lane_runs(Lane.ROUTINE, SUBAGENT) is lane_runs(Lane.REASONING, SUBAGENT) is When.EVERY_REBUILD
    for kind in SessionKind:
        assert lane_runs(Lane.AGE_SWEEP, kind) is lane_runs(Lane.QUEUED_DROPS, kind) is When.EVERY_REBUILD
        assert lane_runs(Lane.EMERGENCY, kind) is When.FORCE_BAND
        with_compaction_off = {
            lane for lane in Lane if lane_runs(lane, kind, compaction_off=True) is not When.NO
        }
        assert with_compaction_off == {Lane.KNOWLEDGE}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"fold": True},
        {"percentage": 70, "removable_tokens": 5_000},
        {"percentage": 70},
        {"history_due": True, "historian_running": True},
        {"percentage": 96, "hold": True},
        {"idle": True, "compaction_off": True},
    ],
)
def test_the_proof_marks_one_deciding_line_and_names_its_section(given: dict[str, Any]) -> None:
    verdict = decide(facts(**given))
    assert sum(clause.deciding for clause in verdict.clauses) == 1
    assert all(clause.section for clause in verdict.clauses)
    assert verdict.clauses[-1][:2] == ("permission", verdict.permission.word)
    names = [clause.name for clause in verdict.clauses]
    assert len(names) == len(set(names))


def test_case_18_a_refresh_with_the_same_bytes_and_a_lone_memory_are_defer_passes() -> None:
    execute = facts(70)
    assert consumable(execute, awaited=False)
    assert decide(replace(execute, history_due=True)).permitted, "due: it may be prepared"
    assert not decide(execute).permitted, "same bytes came out"
    assert not decide(replace(execute, m1_changed=True)).permitted, "a memory rides, it does not originate"


@pytest.mark.parametrize(
    ("percentage", "awaited", "may"),
    [(50, False, False), (50, True, True), (65, False, True), (85, False, True)],
)
def test_when_a_publication_is_consumable(percentage: float, awaited: bool, may: bool) -> None:
    assert consumable(facts(percentage), awaited=awaited) is may


def test_case_19_a_fold_that_left_the_prefix_intact_opens_nothing() -> None:
    assert decide(facts(fold=True)).permission is Level.HARD
    assert decide(facts(fold=False)).permission is Level.DEFER


def test_case_21_historian_running_vetoes_every_lane_and_the_refresh() -> None:
    verdict = decide(
        facts(70, historian_running=True, history_due=True, removable_tokens=50_000, release_pending=True)
    )
    assert (verdict.permission, verdict.veto) == (Level.DEFER, True)
    assert not routine_lanes(facts(70, historian_running=True, history_due=True), True, True)


def test_case_22_historian_running_and_a_model_switch_is_a_hard_fold() -> None:
    assert decide(facts(70, historian_running=True, fold=True)).permission is Level.HARD


def test_case_23_historian_running_and_an_explicit_flush_drains_without_touching_m0() -> None:
    verdict = decide(facts(70, historian_running=True, **FLUSH))
    assert verdict.permission is Level.SOFT_PLUS


def test_case_24_one_percent_queued_is_rebuilt_on_the_third_step() -> None:
    count, permitted = 0, []
    for _ in range(3):
        step = facts(70, removable_tokens=1_000, held_count=count)
        verdict = decide(step)
        permitted.append(verdict.permitted)
        count = next_held_count(step, landed=verdict.permitted)
    assert permitted == [False, False, True]
    assert count == 0


def test_case_25_protected_work_never_rebuilds() -> None:
    # Protected targets count 0 in removable_tokens.
    count = 0
    for _ in range(10):
        step = facts(70, removable_tokens=0, held_count=count)
        assert not decide(step).permitted
        count = next_held_count(step, landed=False)


def test_case_26_three_percent_waits_for_a_summary_that_can_come() -> None:
    verdict = decide(facts(70, removable_tokens=3_000, historian_can_fire=True))
    assert not verdict.permitted
    assert verdict.queue is not None and verdict.queue.action is QueueAction.FIRE_HISTORIAN


def test_case_27_blocked_only_by_the_newest_prompt_sets_the_floor_mark_once() -> None:
    first = facts(70, removable_tokens=3_000, blocked_only_by_prompt=True)
    assert queue_exception(first).action is QueueAction.SET_FLOOR_MARK
    pending = replace(first, floor_mark_pending=True, floor_mark_allowed=False)
    assert queue_exception(pending).action is QueueAction.FIRE_HISTORIAN
    declined = replace(first, floor_mark_allowed=False)
    assert queue_exception(declined).action is QueueAction.REBUILD


def test_case_29_idle_stays_a_rebuild_until_the_provider_answers() -> None:
    # The first attempt's fold was consumed; idle alone still permits.
    retry = facts(idle=True, fold=False, removable_tokens=5_000, scheduler_execute=True)
    assert decide(retry).permission is Level.SOFT_PLUS


def test_case_35_latched_in_the_band_rebuilds_only_for_queued_work() -> None:
    latched = facts(88, latch_set=True)
    assert not decide(latched).permitted
    assert decide(replace(latched, removable_tokens=3_000)).permitted


def test_case_40_a_subagent_may_rebuild_on_every_execute_step() -> None:
    for _ in range(5):
        step = facts(70, kind=SUBAGENT, episode_flag=True, historian_running=True)
        assert decide(step).permitted
        assert routine_lanes(step, False, False)


def test_case_41_routine_lanes_once_per_episode_unless_paid() -> None:
    rebuild = facts(70, removable_tokens=2_000, episode_flag=True)
    assert decide(rebuild).permitted
    assert not routine_lanes(rebuild, False, False)
    assert routine_lanes(replace(rebuild, fold=True), True, False)


def test_case_61_a_hold_stops_everything_and_leaves_a_release() -> None:
    held = facts(70, hold=True, fold=True, release_pending=True, **FLUSH)
    assert decide(held).held
    assert not decide(replace(held, fold=False, flush_request=FlushRequest.NONE)).permitted
    released = facts(70, release_pending=True)
    assert decide(released).reasons == ("hold_release",)
