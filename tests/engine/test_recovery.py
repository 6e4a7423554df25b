"""After an overflow: limits learned, the latch, the last look at a request (reclaim-core section 8)."""

from __future__ import annotations

import pytest

from magiccontext.engine.overflow import Provenance, parse_overflow
from magiccontext.engine.recovery import (
    NO_HEAD_NOTICE,
    NOT_RECOVERED,
    OVER,
    PROTECTED,
    UNMANAGED,
    Ending,
    FinalCheck,
    final_check,
    learn_overflow,
)
from magiccontext.engine.request import HistorianFacts, Settings
from magiccontext.engine.result import Outcome
from tests.engine.conversation import Session, count, words


def talked(**settings: object) -> Session:
    session = Session(context_limit=200_000, **settings).ask("go").steps(4, 2_000).ask("on")  # type: ignore[arg-type]
    session.send()
    return session


def overflow(session: Session, text: str, *, primary: bool = True, compaction: bool = True) -> None:
    found = parse_overflow(text)
    assert found.is_overflow
    session.state.vars = learn_overflow(
        session.state.vars, found, session.model, primary=primary, compaction=compaction
    )


TOO_LONG = "prompt is too long: 9000 tokens > 150000 maximum"


def test_it_works() -> None:
    session = talked()
    overflow(
        session,
        "This model's maximum context length is 150000 tokens. However, your messages resulted in 151000",
    )
    vars = session.state.vars
    assert (vars.detected_limit, vars.detected_model, vars.detected_provenance) == (
        150_000,
        session.model,
        "combined",
    )
    assert (vars.recovery_armed, vars.recovery_origin) == (True, "provider_overflow")
    assert (vars.usage_input_tokens, vars.proven_safe_input) == (151_000, 0)
    assert session.send(historian=HistorianFacts(can_fire=True)).result.window.context == 150_000


def test_case_33_a_smaller_window_of_the_same_model_arms_nothing() -> None:
    """Section 12, 33: arming only if the last input was measured on another model."""
    session = talked()
    session.send(used=150_000)
    session.context_limit = 100_000
    session.send()
    assert not session.state.vars.recovery_armed


def test_a_smaller_model_than_the_last_request_fits_arms_the_recovery() -> None:
    """Section 8.2, proactive."""
    session = talked()
    session.send(used=150_000)
    session.model, session.context_limit = "anthropic/claude-haiku-4-5", 120_000
    result = session.run(historian=HistorianFacts(can_fire=True))
    assert result.emergency and result.percentage == 95.0
    assert result.changes.vars.recovery_origin == "proactive_model_shrink"
    session.context_limit = 160_000
    assert not session.run().emergency


@pytest.mark.parametrize(
    ("text", "limit", "provenance"),
    [
        (
            "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens "
            "(108000 in the messages, 32000 in the completion).",
            131_072,
            Provenance.COMBINED,
        ),
        ("prompt is too long: 208310 tokens > 200000 maximum", 200_000, Provenance.PROMPT_ONLY),
    ],
)
def test_case_46_of_several_numbers_the_limit_is_read(text: str, limit: int, provenance: Provenance) -> None:
    """Section 12, 46: never 0 or the size of the prompt."""
    found = parse_overflow(text)
    assert (found.limit, found.provenance) == (limit, provenance)


def test_case_47_a_larger_accepted_request_clears_the_detected_limit() -> None:
    """Section 12, 47: detected 200k, later 230k accepted."""
    session = talked()
    session.context_limit = 1_000_000
    overflow(session, "prompt is too long: 208310 tokens > 200000 maximum")
    session.send(historian=HistorianFacts(can_fire=True))
    assert session.state.vars.detected_limit == 200_000
    session.send(used=230_000)
    assert (session.state.vars.detected_limit, session.state.vars.detected_model) == (0, "")


def test_a_detected_limit_is_of_its_own_model() -> None:
    session = talked()
    overflow(session, TOO_LONG)
    session.model = "anthropic/claude-haiku-4-5"
    session.send(used=20_000, usage=None)
    assert session.send().result.window.context == 200_000


def test_case_48_an_overflow_of_a_subagent_teaches_the_limit_only() -> None:
    """Section 12, 48."""
    session = Session(subagent=True, context_limit=200_000).ask("go").ask("on")
    session.send()
    overflow(session, TOO_LONG, primary=False)
    assert session.state.vars.detected_limit == 150_000
    assert not session.state.vars.recovery_armed
    assert not session.send().result.emergency


def test_an_overflow_with_compaction_off_teaches_the_limit_only() -> None:
    session = talked()
    overflow(session, TOO_LONG, compaction=False)
    assert session.state.vars.detected_limit == 150_000
    assert not session.state.vars.recovery_armed


def test_case_49_nothing_to_summarise_twice_stops_the_forcing_and_tells_the_person() -> None:
    """Section 12, 49."""
    session = Session(context_limit=200_000).ask(words(7_500))
    session.send()
    overflow(session, "prompt is too long: 9000 tokens > 8500 maximum")
    codes: list[str] = []
    percentages = []
    for _ in range(3):
        # What the provider refused is no figure of this array's; only the estimate speaks.
        result = session.run()
        percentages.append(result.percentage)
        codes += [notice.code for notice in result.notices]
        session.commit(result)
    assert codes == [NO_HEAD_NOTICE]
    assert percentages[:2] == [95.0, 95.0] and percentages[2] < 95.0
    assert (session.state.vars.recovery_armed, session.state.vars.recovery_no_head) == (True, 2)


def test_the_latch_goes_when_the_request_fits_well() -> None:
    """Section 8.4: below 0.8 of the proven limit."""
    session = talked()
    overflow(session, TOO_LONG)
    sent = session.send()
    assert (sent.result.outcome, session.state.vars.recovery_armed) == (Outcome.SERVE, False)


def test_nothing_is_refused_while_compaction_is_off() -> None:
    """Section 5.5: also when the latch was armed before."""
    session = talked()
    overflow(session, "prompt is too long: 9000 tokens > 8500 maximum")
    session.settings = Settings(count, compaction=False)
    session.ask(words(400_000))
    assert session.send().result.outcome is Outcome.PASSTHROUGH


CHECK = FinalCheck(
    lower=100,
    trusted=100,
    usable_hard=1_000,
    protected_tokens=0,
    percentage=10.0,
    armed=False,
    origin="",
    proven_limit=0,
    folded=False,
    unmanaged=False,
)


@pytest.mark.parametrize(
    ("facts", "ending"),
    [
        ({}, Ending()),
        ({"lower": 1_001, "protected_tokens": 1_001, "unmanaged": True}, PROTECTED),
        ({"lower": 1_001, "unmanaged": True}, UNMANAGED),
        ({"lower": 1_001}, OVER),
        ({"lower": 1_000, "trusted": 5_000, "percentage": 94.9}, Ending()),  # an estimate is no proof
        ({"armed": True, "proven_limit": 500, "trusted": 399}, Ending(disarm=True)),
        ({"armed": True, "proven_limit": 500, "trusted": 400, "percentage": 94.9}, Ending()),
        (
            {"armed": True, "origin": "provider_overflow", "percentage": 95.0, "trusted": 990},
            NOT_RECOVERED,
        ),
        (
            {"armed": True, "origin": "provider_overflow", "percentage": 95.0, "folded": True},
            Ending(),
        ),
        ({"armed": True, "origin": "proactive_model_shrink", "percentage": 95.0}, Ending()),
        ({"percentage": 99.0}, Ending()),
    ],
)
def test_the_final_check_in_its_order(facts: dict[str, object], ending: Ending) -> None:
    """Section 8.4."""
    values = {name: getattr(CHECK, name) for name in CHECK.__slots__} | facts
    assert final_check(FinalCheck(**values)) == ending  # type: ignore[arg-type]
