"""`manage.py bench`: the figures of design section 10, measured against a real server on loopback."""

from __future__ import annotations

import json
import os
import platform
import secrets
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.table import Table

from magiccontext.bench.client import BenchError
from magiccontext.bench.delta import delta_sync
from magiccontext.bench.folds import Size, hard_fold, rendering
from magiccontext.bench.load import concurrent_sessions, memory_after
from magiccontext.bench.measure import CASES, Case, full_array
from magiccontext.bench.rows import Row
from magiccontext.replay.server import Running, StartError, running_server

FULL_FOLD = Size()


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured: sizes in messages, and how often."""

    calls: int
    sessions: int
    cases: tuple[Case, ...] = CASES
    delta: tuple[int, ...] = (200, 17_000)
    fold: Size = FULL_FOLD
    load: int = 200
    passes: int = 10


QUICK = Plan(
    calls=5,
    sessions=1,
    cases=CASES[:2],
    delta=(200, 1_000),
    fold=Size(messages=400, compartments=30, memories=20),
    passes=3,
)
"""Every row at a size that takes seconds: whether the bench itself works, not how fast the server is."""


@contextmanager
def fresh_server() -> Iterator[tuple[Running, str, dict[str, str]]]:
    """A server with an empty home: itself, its address, and headers that let one in."""
    with tempfile.TemporaryDirectory(prefix="magic-context-bench-") as home:
        extra = {
            "MAGIC_CONTEXT_HOME": f"{home}/data",
            "XDG_CONFIG_HOME": f"{home}/config",
            "DATABASE_URL": "",
            "REDIS_URL": "",
            "MAGIC_CONTEXT_BENCH": "1",
        }
        with running_server(extra=extra) as server:
            headers = {"Authorization": f"Bearer {server.key('bench')}"}
            yield server, server.url.rstrip("/"), headers


def measured(plan: Plan) -> Iterator[Row]:
    """All rows, in the order of the table.  Memory is that of a server that did nothing else."""
    run = secrets.token_hex(4)
    with fresh_server() as (_, base, headers), _client(headers) as client:
        for case in plan.cases:
            yield from full_array(client, base, case, plan.calls, run)
        yield from delta_sync(client, base, plan.delta, plan.calls, run)
        yield from hard_fold(client, base, plan.fold, plan.calls, run)
        yield from rendering(plan.fold, plan.calls)
        yield from concurrent_sessions(base, headers, plan.load, plan.passes, run)
    with fresh_server() as (server, base, headers), _client(headers) as client:
        yield from memory_after(client, base, server.process.pid, plan.sessions, run)


def _client(headers: dict[str, str]) -> httpx.Client:
    return httpx.Client(headers=headers, timeout=120, trust_env=False)


def machine() -> dict[str, Any]:
    """What the figures hold for, without saying whose machine it is."""
    return {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


class Command(BaseCommand):
    """Starts a server of its own with an empty home, measures, prints a table."""

    help = "Measure against the bounds of the design; full arrays beside an echo view."
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        """How much to measure."""
        parser.add_argument("--calls", type=int, help="measured calls a row (default 30)")
        parser.add_argument(
            "--sessions", type=int, help="sessions of 250k tokens for the memory row (default 5; full: 200)"
        )
        parser.add_argument("--quick", action="store_true", help="small sizes, for CI")
        parser.add_argument("--json", metavar="OUT", help="also write the rows as JSON")
        parser.add_argument("--strict", action="store_true", help="exit with 1 when a bound is not held")

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises CommandError when the server does not start or answers something else than is measured."""
        plan = _plan(options)
        rows: list[Row] = []
        console = Console(width=None if Console().is_terminal else 160)
        try:
            for row in measured(plan):
                rows.append(row)
                self.stderr.write(f"{row.name}: {row.p50:.1f} {row.unit}")
        except (StartError, BenchError, httpx.HTTPError) as error:
            raise CommandError(str(error)) from error
        console.print(table_of(rows))
        if options["json"]:
            shown = {"machine": machine(), "rows": [row.as_dict() for row in rows]}
            Path(options["json"]).write_text(json.dumps(shown, indent=1))
        missed = [row.name for row in rows if not row.held]
        if missed and options["strict"]:
            raise CommandError("bounds not held: " + "; ".join(missed))


def _plan(options: dict[str, Any]) -> Plan:
    plan = QUICK if options["quick"] else Plan(calls=30, sessions=5)
    calls = plan.calls if options["calls"] is None else options["calls"]
    sessions = plan.sessions if options["sessions"] is None else options["sessions"]
    if calls < 1 or sessions < 1:
        raise CommandError("--calls and --sessions: at least 1")
    return Plan(calls, sessions, plan.cases, plan.delta, plan.fold, plan.load, plan.passes)


def table_of(rows: list[Row]) -> Table:
    """Every row; those that miss a bound in red."""
    here = machine()
    table = Table(title=f"{here['cores']} cores, {here['architecture']}, Python {here['python']}")
    for name in ("what", "n", "p50", "p95", "max", "unit", "bound", "ratio", "bound", "to"):
        table.add_column(name, justify="left" if name in ("what", "unit", "to") else "right")
    for row in rows:
        table.add_row(
            row.name,
            str(row.calls),
            f"{row.p50:.1f}",
            f"{row.p95:.1f}",
            f"{row.most:.1f}",
            row.unit,
            "" if row.bound is None else f"{row.bound:.0f}",
            "" if row.ratio is None else f"{row.ratio:.2f}",
            "" if row.ratio_bound is None else f"{row.ratio_bound:g}",
            row.to,
            style=None if row.held else "red",
        )
    return table
