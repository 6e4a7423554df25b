from typing import Any

from magiccontext.config.lookup import resolve_execute_threshold
from magiccontext.engine.schedule import Moment, parse_ttl, scheduler

GOLDEN_KIND = "08"


def _threshold(given: dict[str, Any]) -> float:
    window = given.get("context_limit")
    if window is None and given["percentage"]:
        # Without a limit one is derived from usage (reclaim-core section 4.2).
        window = given["input_tokens"] / (given["percentage"] / 100)
    found = resolve_execute_threshold(
        given["threshold"], given.get("threshold_tokens"), window, given.get("model")
    )
    return found.percentage


def test_decision(case: dict[str, Any]) -> None:
    given = case["input"]
    moment = Moment(
        percentage=given["percentage"],
        threshold=_threshold(given),
        last_response_ms=given["last_response_ms"],
        now_ms=given["now_ms"],
        ttl_ms=parse_ttl(given["cache_ttl"]).ms,
    )
    assert scheduler(moment) == case["expected"]["decision"]
