from typing import Any

from magiccontext.engine.overflow import parse_overflow

GOLDEN_KIND = "13"


def test_overflow(case: dict[str, Any]) -> None:
    seen = parse_overflow(case["input"]["error"])
    expected = case["expected"]
    assert seen.is_overflow == expected["is_overflow"]
    assert seen.limit == expected["reported_limit"]
    assert seen.provenance == expected["provenance"]
