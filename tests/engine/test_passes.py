"""Whole passes: signals, usage, lifetimes, kinds of session (reclaim-core sections 4, 5 and 12; hosts 11)."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from magiccontext.config.lookup import resolve_execute_threshold
from magiccontext.engine.request import HistorianFacts, Settings
from magiccontext.engine.result import NotReady, Outcome
from magiccontext.engine.state import TagStatus
from tests.engine.conversation import MINUTE, Call, Session, count, parts, reloaded, words

RUNNING = HistorianFacts(running=True)


def loaded(**settings: object) -> Session:
    """One old result of 3,000 tokens outside the protection window, and four new ones inside."""
    session = Session(protected_tokens=4_000, **settings).ask("go")  # type: ignore[arg-type]
    session.step("old", words(3_000), Call("old", "custom", {"text": "x" * 1_100}))
    session.steps(4, 2_000, first=900).ask("on")
    session.send()
    return session


def test_it_works() -> None:
    session = loaded()
    first = session.send()
    session.step("more").ask("next")
    second = session.send(percent=40)
    assert (second.result.outcome, second.level, second.result.permitted.word) == (
        Outcome.SERVE, "defer", "defer"
    )  # fmt: skip
    assert second.served[: len(first.served)] == first.served
    assert round(second.result.percentage) == 40


def test_case_17_the_hosts_own_values_are_never_touched() -> None:
    """Section 12, 17: an edit works on a copy; neither the array nor the snapshot changes."""
    session = loaded()
    session.queue(session.tool("old").number)
    session.flush()
    raw, before = list(session.raw), copy.deepcopy(reloaded(session.state))
    result = session.run()
    assert result.level.word == "soft_plus"
    after = reloaded(session.state)
    assert session.raw == raw
    assert (after.vars, after.tags, after.pending) == (before.vars, before.tags, before.pending)
    assert {m.mid: (m.form, m.raw, m.links) for m in after.path} == {
        m.mid: (m.form, m.raw, m.links) for m in before.path
    }


def test_case_21_a_running_historian_stops_every_lane() -> None:
    """Section 12, 21: primary at 70 %, candidates for the age sweep, queued drops: nothing lands."""
    session = loaded()
    session.state.vars = replace(session.state.vars, tool_reclaim_watermark=session.state.vars.tag_counter)
    session.queue(session.tool("old").number)
    session.flush("request")
    sent = session.send(percent=70, historian=RUNNING)
    assert (sent.level, sent.lanes, sent.reasons) == ("defer", {}, ())
    assert session.state.vars.flush == "request" and session.state.pending


def test_case_23_an_explicit_flush_drains_beside_a_running_historian() -> None:
    """Section 12, 23."""
    session = loaded()
    session.queue(session.tool("old").number)
    session.flush("explicit")
    sent = session.send(percent=70, historian=RUNNING)
    assert (sent.level, sent.lanes) == ("soft_plus", {"queued_drops": 1})


@pytest.mark.parametrize("subagent", [False, True])
def test_case_28_a_tool_loop_is_no_reason_to_wait(subagent: bool) -> None:
    """Section 12, 28: above the threshold in the middle of a turn."""
    session = Session(subagent=subagent, protected_tokens=4_000).ask("go")
    session.step("old", words(3_000), Call("old", "custom", {"text": "x" * 1_100}))
    session.steps(4, 2_000, first=900)
    session.send()
    session.queue(session.tool("old").number)
    session.step("next")
    assert session.send(percent=70).lanes["queued_drops"] == 1


def test_case_29_an_aborted_attempt_leaves_the_idle_rebuild_due() -> None:
    """Section 12, 29: marks made between the attempts land on the retry, not on the next warm step."""
    session = loaded()
    session.send(used=20_000)
    session.idle()
    session.ask("back again")
    assert session.send().level == "defer"  # no work yet; no answer came
    session.queue(session.tool("old").number)
    retry = session.send()
    assert (retry.level, retry.reasons) == ("soft_plus", ("ttl_expiry",))
    session.queue(session.text_tag(0).number)
    assert session.send(used=17_000).level == "defer"  # answered: warm again


def test_case_30_only_an_answer_moves_the_clock() -> None:
    """Section 12, 30: not a request, not a reply without tokens."""
    session = loaded()
    session.send(used=20_000)
    answered = session.state.vars.last_response_ms
    session.now += MINUTE
    session.send()
    session.send(used=0)
    assert session.state.vars.last_response_ms == answered
    session.send(used=10)
    assert session.state.vars.last_response_ms == session.now


def test_case_31_a_late_report_of_an_older_response_is_ignored() -> None:
    """Section 12, 31."""
    session = loaded()
    session.now += MINUTE
    session.send(used=20_000)
    late = replace(session.usage(90_000), completed_ms=session.now - 1)
    assert session.send(usage=late).result.percentage == 20.0


def test_hosts_case_57_one_response_reported_twice_counts_once() -> None:
    """Hosts section 11: by message or pass."""
    session = loaded()
    session.send(usage=session.usage(20_000, message_id="msg_1"))
    measured = session.state.vars.usage_mid
    session.ask("more")
    session.send()
    session.send(usage=session.usage(20_000, message_id="msg_1"))
    assert session.state.vars.usage_mid == measured


def compacted(session: Session) -> None:
    session.raw = [*session.write.user("summary"), *session.raw[-1:]]


def rewound(session: Session) -> None:
    session.raw = [*session.raw[:-1], *session.write.user("instead")]


def other_model(session: Session) -> None:
    session.model = "anthropic/claude-haiku-4-5"


def other_limit(session: Session) -> None:
    session.context_limit = 90_000


@pytest.mark.parametrize("change", [compacted, rewound, other_model, other_limit])
def test_case_32_a_figure_of_another_array_is_no_emergency(change: object) -> None:
    """Section 12, 32: 96 % measured before a host compaction, a rewind, another model or limit."""
    session = loaded()
    session.send(used=96_000)
    change(session)  # type: ignore[operator]
    sent = session.send()
    assert (sent.result.percentage, sent.result.emergency) == (0, False)


def test_case_32_a_restart_changes_nothing() -> None:
    session = loaded()
    session.send(used=96_000)
    session.restart()
    assert session.send().result.percentage == 96.0


def test_a_rewind_that_is_undone_does_not_bring_the_figure_back() -> None:
    session = loaded()
    session.send(used=60_000)
    old = list(session.raw)
    rewound(session)
    session.send()
    session.raw = old
    assert session.send().result.percentage == 0


def test_a_report_that_comes_with_the_rewind_is_stale_too() -> None:
    session = loaded()
    rewound(session)
    assert session.send(used=96_000).result.percentage == 0
    assert session.state.vars.last_response_ms == session.now


def test_an_edit_behind_the_measured_array_leaves_its_figure() -> None:
    session = loaded()
    session.send(used=60_000)
    session.step("a").ask("next")
    session.send()
    session.raw[-1] = session.write.user("next, edited")[0]
    assert session.send().result.percentage == 60.0


def test_the_latch_falls_with_the_figure() -> None:
    session = loaded()
    session.state.vars = replace(session.state.vars, emergency_sample=90_000)
    session.send(used=90_000)
    rewound(session)
    session.send()
    assert session.state.vars.emergency_sample == 0


def test_case_40_a_subagent_may_rebuild_on_every_step() -> None:
    """Section 12, 40: a once-per-turn guard let them overflow."""
    session = Session(subagent=True, protected_tokens=4_000).ask("go").steps(6, 2_000)
    session.send()
    levels = []
    for index in range(4):
        session.steps(1, 2_000, first=50 + index)
        levels.append(session.send(percent=70).level)
    assert levels == ["defer", "soft_plus", "soft_plus", "soft_plus"]


@pytest.mark.parametrize(
    ("ttl", "minutes", "due"), [("soon", 4, False), ("soon", 6, True), ("never", 6_000, False)]
)
def test_case_54_a_lifetime_nobody_understands_is_five_minutes(ttl: str, minutes: int, due: bool) -> None:
    """Section 12, 54; with ``never`` only usage triggers an execute."""
    session = loaded(cache_ttl=ttl, ttl_is_policy=True)
    session.send(used=20_000)
    session.queue(session.tool("old").number)
    session.idle(minutes)
    assert (session.send().level == "soft_plus") is due
    if ttl == "never":
        assert session.send(percent=70).result.scheduler.value == "execute"


def test_a_built_in_lifetime_is_frozen_per_model() -> None:
    """Config section 10.2."""
    session = loaded(cache_ttl="5m")
    session.send(used=20_000)
    session.settings = replace(session.settings, cache_ttl="1h")
    session.queue(session.tool("old").number)
    session.idle(10)
    assert session.send().reasons == ("ttl_expiry",)
    assert dict(session.state.vars.frozen_ttl) == {session.model: "5m"}


def test_case_55_a_threshold_in_tokens_is_at_most_nine_tenths() -> None:
    """Section 12, 55: 950k on a 1M window acts as 90 %, and the force band lies above it."""

    def threshold(usable: float) -> float:
        return resolve_execute_threshold(65, {"default": 950_000}, usable, "a/b").percentage

    session = Session(context_limit=1_000_000, threshold=threshold).ask("go").ask("on")
    session.send()
    sent = session.send(percent=89.9)
    assert (sent.result.threshold, sent.result.scheduler.value) == (90.0, "defer")
    session.ask("more")
    assert session.send(percent=91).result.scheduler.value == "execute"
    assert session.state.vars.in_episode


def test_case_56_with_compaction_off_the_array_is_the_hosts() -> None:
    """Section 12, 56: no tags, no prefixes."""
    session = Session(compaction=False, context_limit=10_000).ask("go").steps(6, 2_000).ask("on")
    session.flush()
    sent = session.send(used=12_000)
    assert (sent.result.outcome, sent.served) == (Outcome.PASSTHROUGH, session.raw)
    assert session.state.tags == {} and session.state.vars.reduce_verdict is None


def test_compaction_off_and_on_again() -> None:
    """Section 1.4: tags are minted later; what went out raw stays so until a rebuild."""
    session = loaded()
    tagged = session.send().served
    session.settings = Settings(count, compaction=False)
    session.ask("while off")
    off = session.send()
    assert off.served == session.raw
    session.settings = Settings(count)
    session.ask("on again")
    on = session.send()
    assert on.level == "defer"
    assert on.served[:-1] == session.raw[:-1]
    assert on.served[-1] != session.raw[-1]
    session.flush()
    back = session.send()
    assert back.level == "soft_plus"
    assert back.served[: len(tagged)] == tagged
    assert [p[2] for p in parts(session.codec, back.served)][-2].endswith("while off")
    assert b"\xc2\xa7" in back.served[-2]


def test_case_60_two_processes_decide_as_one() -> None:
    """Section 12, 60: every pass from freshly loaded rows."""
    one, two = loaded(), loaded()
    for index, percent in enumerate((40, 66, 70, 88, 88, 97, 40, 72, 72, 72)):
        for session in (one, two):
            session.queue(*[n for n in (index + 1, index + 4) if n in session.state.tags])
            session.steps(2, 800, first=index * 10).ask(f"step {index}")
        two.restart()
        assert one.send(percent=percent).served == two.send(percent=percent).served
    assert one.state.vars == two.state.vars
    assert one.state.tags == two.state.tags


def test_hosts_case_01_one_rebuild_at_most_in_a_turn() -> None:
    """Hosts section 11: a pass per tool step."""
    session = loaded()
    session.queue(session.tool("old").number)
    session.flush()
    levels = []
    for index in range(6):
        session.step(f"s{index}", words(200))
        levels.append(session.send(percent=50).level)
    assert levels == ["soft_plus"] + ["defer"] * 5


def test_hosts_case_19_a_switched_model_is_measured_by_its_own_window() -> None:
    """Hosts section 11: the request by the new window, the recorded usage by the old row's."""
    session = loaded()
    session.model, session.context_limit = "anthropic/claude-haiku-4-5", 200_000
    report = replace(session.usage(60_000), model="anthropic/claude-sonnet-4-5")
    sent = session.send(usage=report)
    assert sent.result.window.usable_soft == 200_000
    assert session.state.vars.usage_model == ""
    assert session.state.vars.model == "anthropic/claude-haiku-4-5"
    assert session.state.vars.proven_safe_input == 0


def test_hosts_case_40_what_the_host_sent_raw_waits_for_a_rebuild() -> None:
    """Hosts section 11; design section 5."""
    session = loaded()
    session.step("m1", "one").add(session.write.assistant("answer")).ask("next")
    sent = session.send(raw_from=12)
    raw = session.raw
    assert sent.served[12:14] == raw[12:14]
    assert sent.served[14] != raw[14] and sent.served[15] != raw[15]  # came after the raw request
    assert session.send().served == sent.served
    session.flush()
    sent = session.send()
    assert (sent.level, sent.result.first_changed) == ("soft_plus", 13)
    assert session.tool("m1").status is TagStatus.ACTIVE


def test_half_a_dropped_call_is_never_sent_although_the_host_says_so() -> None:
    """Hosts section 2.3: the host claims to have sent raw the result of a call it had without."""
    session = loaded()
    session.queue(session.tool("old").number)
    session.flush()
    session.send()
    sent = session.send(raw_from=2)
    assert sent.bodies["m2"] is None and sent.bodies["m3"] is None


@pytest.mark.parametrize("limit", [0, 5, -1, None, 10**9])
def test_hosts_case_50_an_absurd_window_is_the_default_and_marked(limit: int | None) -> None:
    """Hosts section 11."""
    session = Session().ask("go")
    window = session.send(context_limit=limit).result.window
    assert (window.context, window.estimated) == (128_000, True)


@pytest.mark.parametrize("messages", [[], [b'{"role":"user","content":[]}']])
def test_an_array_that_is_not_complete_yet(messages: list[bytes]) -> None:
    """Section 9.1, ``incomplete_user_message``."""
    session = Session()
    session.raw = messages
    with pytest.raises(NotReady) as error:
        session.send()
    assert error.value.code == "incomplete_user_message"


def test_a_hosts_estimate_is_a_floor() -> None:
    """Section 4.1: estimate over 85 % of the limit."""
    session = loaded()
    assert session.send(used=20_000, estimate_tokens=59_500).result.percentage == pytest.approx(70)
    assert session.send(used=80_000, estimate_tokens=100).result.percentage == 80


def test_policy_that_decides_bytes_waits_for_a_permission() -> None:
    """Section 2.1, 10.2: the protection floor of a session is re-adopted on a rebuild."""
    session = loaded()
    session.settings = replace(session.settings, protected_tokens=50_000, protected_tools={"custom": 2})
    session.send()
    assert session.state.vars.protected_tokens == 4_000
    session.flush()
    session.send()
    assert session.state.vars.protected_tokens == 50_000
    assert dict(session.state.vars.protected_tools)["custom"] == 2


def test_a_request_repeated_at_once_is_a_defer_without_a_byte() -> None:
    """cases.md 1: no further rebuild without a new reason."""
    session = loaded()
    session.queue(session.tool("old").number)
    session.flush()
    first = session.send()
    again = session.send()
    assert (again.level, again.served) == ("defer", first.served)
    assert again.result.changes.forms == []


def test_nothing_that_only_tidies_is_a_reason() -> None:
    session = loaded()
    session.state.vars = replace(session.state.vars, tool_reclaim_watermark=session.state.vars.tag_counter)
    assert session.send(percent=70).level == "defer"


def test_the_proof_names_what_decided() -> None:
    session = loaded()
    session.queue(session.tool("old").number)
    session.flush()
    clauses = {clause.name: clause for clause in session.send().result.clauses}
    assert clauses["permission"].value == "soft_plus"
    assert clauses["signal flush"].value is True and clauses["signal flush"].deciding
