from typing import Any

from magiccontext.engine.schedule import DEFAULT_TTL_MS, parse_ttl

GOLDEN_KIND = "08b"


def test_lifetime(case: dict[str, Any]) -> None:
    lifetime = parse_ttl(case["input"]["ttl"])
    expected = case["expected"]
    if expected.get("error"):
        assert lifetime == (DEFAULT_TTL_MS, False)
    else:
        assert lifetime == (float(expected["ms"]), True)
