from typing import Any

from magiccontext.engine.lanes.emergency import Candidate, Pressure, select
from magiccontext.engine.lanes.protection import round_half_up

GOLDEN_KIND = "07"

BYTES_TO_TOKENS = 0.25


def _tokens(tag: dict[str, Any]) -> int:
    size = tag["byteSize"] + tag["inputByteSize"] + tag["reasoningByteSize"]
    return round_half_up(size * BYTES_TO_TOKENS)


def test_selection(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    # The reference kept the sample and whether it had dropped apart; here a sample without a drop cannot
    # be stored, so it is an armed latch.  `protected_tags` is deprecated and 0 throughout.
    assert given["protected_tags"] == 0
    latch = given["prior_input_sample"] if given["has_prior_drop"] else 0
    plan = select(
        [
            Candidate(tag["tagNumber"], tag["toolName"], _tokens(tag), active=tag["status"] == "active")
            for tag in given["tags"]
            if tag["type"] == "tool"
        ],
        Pressure(
            current=float(given["current_total_input_tokens"]),
            ceiling=float(given["ceiling_tokens"]),
            tail=sum(_tokens(tag) for tag in given["floor_tags"] if tag["status"] == "active"),
            latch=latch,
        ),
    )
    assert plan.outcome == expected["outcome"]
    assert list(plan.numbers) == expected["tag_numbers_in_order"]
    assert plan.reclaim == expected["reclaim_tokens"]
