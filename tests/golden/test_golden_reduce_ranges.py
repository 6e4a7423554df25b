from typing import Any

from magiccontext.engine.reduce import ReduceError, parse_drop

GOLDEN_KIND = "04"


def test_range_string(case: dict[str, Any]) -> None:
    expected = case["expected"]
    try:
        numbers = parse_drop({"drop": case["input"]["text"]})
    except ReduceError as error:
        assert not expected["ok"]
        assert error.kind == expected["kind"]
        assert error.text.startswith("Error:")
        return
    assert expected["ok"]
    if "numbers" in expected:
        assert list(numbers) == expected["numbers"]
    else:
        assert (len(numbers), numbers[0], numbers[-1]) == (
            expected["count"],
            expected["first"],
            expected["last"],
        )
