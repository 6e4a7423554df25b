"""The bench measures what its rows say, and the rows hold their bounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from magiccontext.bench import folds
from magiccontext.bench.rows import Row, single, timings
from magiccontext.bench.workload import messages
from magiccontext.management.commands.bench import FULL_FOLD, machine, table_of
from magiccontext.replay.compartments import legal_ends
from magiccontext.replay.facts import facts_of


def test_a_row_of_timings_takes_its_median_and_its_ratio() -> None:
    base = timings("base", [2.0, 1.0, 3.0])
    assert (base.p50, base.p95, base.most, base.calls) == (2.0, 3.0, 3.0, 3)
    assert base.ratio is None
    row = timings("row", [8.0], against=base, ratio_bound=4.0, to="base")
    assert row.ratio == 4.0
    assert row.held


@pytest.mark.parametrize(
    ("row", "held"),
    [
        (single("x", 5.0, "MiB", 5.0), True),
        (single("x", 5.1, "MiB", 5.0), False),
        (single("x", 5.1, "MiB"), True),
        (Row("x", 1, 1.0, 1.0, 1.0, ratio=1.6, ratio_bound=1.5), False),
        (Row("x", 1, 1.0, 1.0, 1.0, ratio=1.6), True),
    ],
)
def test_a_bound_is_held_up_to_its_value(row: Row, held: bool) -> None:
    assert row.held is held
    assert row.as_dict()["held"] is held


def test_the_compartments_of_the_bench_fit_its_conversation() -> None:
    facts = [facts_of(raw) for raw in messages(FULL_FOLD.messages)]
    ends = set(legal_ends(facts, 1, len(facts)))
    last = 0
    for index in range(FULL_FOLD.compartments):
        row = folds.compartment(index)
        assert row["start"] == last + 1
        last = int(str(row["end"]))
        assert last in ends
    assert FULL_FOLD.messages - 500 < last < FULL_FOLD.messages


def test_the_machine_is_described_without_its_name() -> None:
    assert set(machine()) == {"cores", "architecture", "system", "python"}
    assert table_of([single("memory", 1.0, "MiB", 0.5)]).row_count == 1


def test_nothing_is_measured_no_times() -> None:
    with pytest.raises(CommandError, match="at least 1"):
        call_command("bench", "--quick", "--calls", "0")


@pytest.mark.slow
def test_a_quick_bench_measures_every_row(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    call_command("bench", "--quick", "--calls", "2", "--json", str(out))
    written = json.loads(out.read_text())
    names = [row["name"] for row in written["rows"]]
    assert written["machine"] == machine()
    for start in ("defer pass", "echo", "first pass", "delta sync", "HARD fold", "rendering", "refusals"):
        assert any(name.startswith(start) for name in names), start
    refused = next(row for row in written["rows"] if row["unit"] == "refusals")
    assert refused["p50"] == 0
