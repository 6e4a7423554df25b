"""The option that says where the reference's golden vectors lie, and the fixture that reads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GoldenCases = list[dict[str, Any]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden-dir",
        default=None,
        metavar="PATH",
        help="folder with the golden vectors (default: ../shared/golden where it exists)",
    )


def golden_dir(config: pytest.Config) -> Path | None:
    """The folder of the vectors, or None when there is none.  A folder asked for by name must exist."""
    given = config.getoption("--golden-dir")
    if given is None:
        beside = config.rootpath.parent / "shared" / "golden"
        return beside if beside.is_dir() else None
    folder = Path(given)
    if not folder.is_dir():
        raise pytest.UsageError(f"--golden-dir: {folder} is no folder")
    return folder


def golden_cases(config: pytest.Config, kind: str) -> GoldenCases:
    """Every case of one kind (``04``, ``08b``), over all files whose name begins with it."""
    folder = golden_dir(config)
    files = sorted(folder.glob(f"{kind}-*.json")) if folder else []
    return [case for file in files for case in json.loads(file.read_text("utf-8"))["cases"]]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], GoldenCases]:
    """Reads the cases of a kind; skips the test, visibly, where there are none."""

    def read(kind: str) -> GoldenCases:
        cases = golden_cases(request.config, kind)
        if not cases:
            pytest.skip(f"no golden vectors of kind {kind}; see --golden-dir")
        return cases

    return read
