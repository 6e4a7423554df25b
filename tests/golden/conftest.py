"""Runs every golden case as a test of its own.

A module names its kind in ``GOLDEN_KIND`` and takes the case as the argument ``case``.  Where the spec says
otherwise than the older reference, the module lists the case's input and the reason in ``EXCEPTIONS``;
such a case must then really deviate, so that the list cannot outlive its reason.
"""

from __future__ import annotations

import json
from typing import Any

import pytest


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    kind = getattr(metafunc.module, "GOLDEN_KIND", None)
    if kind is None or "case" not in metafunc.fixturenames:
        return
    # The plugin object, because a conftest cannot be imported by name next to another one.
    root = metafunc.config.pluginmanager.getplugin(str(metafunc.config.rootpath / "conftest.py"))
    cases = root.golden_cases(metafunc.config, kind)
    if not cases:
        missing = pytest.mark.skip(reason=f"no golden vectors of kind {kind}; see --golden-dir")
        metafunc.parametrize("case", [pytest.param(None, marks=missing)])
        return
    exceptions = {_key(given): reason for given, reason in getattr(metafunc.module, "EXCEPTIONS", ())}
    metafunc.parametrize(
        "case",
        [
            pytest.param(
                case,
                id=str(number),
                marks=[pytest.mark.xfail(reason=reason, strict=True)]
                if (reason := exceptions.get(_key(case["input"])))
                else [],
            )
            for number, case in enumerate(cases)
        ],
    )
