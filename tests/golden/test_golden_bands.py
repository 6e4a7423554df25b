from typing import Any

from magiccontext.engine.schedule import EMERGENCY, force_band

GOLDEN_KIND = "08c"


def test_bands(case: dict[str, Any]) -> None:
    band = force_band(float(case["input"]["execute_threshold"]))
    assert {"force_band": band, "emergency": EMERGENCY} == case["expected"]
