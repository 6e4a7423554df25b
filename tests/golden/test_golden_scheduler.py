from typing import Any

from magiccontext.engine.schedule import Moment, effective_threshold, parse_ttl, scheduler

GOLDEN_KIND = "08"

TOKEN_SHARE_OF_WINDOW = 0.9


def _entry(table: dict[str, float], model: str | None) -> float | None:
    """The walk of config section 10.1, as far as the vectors need it."""
    key = model or ""
    while key:
        if key in table:
            return table[key]
        key = key.rpartition("-")[0]
    return table.get("default")


def _threshold(given: dict[str, Any]) -> float:
    model = given.get("model")
    tokens = _entry(given.get("threshold_tokens", {}), model)
    window = given.get("context_limit")
    if window is None and given["percentage"]:
        window = given["input_tokens"] / (given["percentage"] / 100)
    if tokens and window:
        return effective_threshold(min(tokens, TOKEN_SHARE_OF_WINDOW * window) / window * 100)
    configured = given["threshold"]
    if isinstance(configured, dict):
        configured = _entry(configured, model)
    return effective_threshold(configured)


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
