"""`manage.py bench`: the figures of design section 10, measured against a real server on loopback."""

from __future__ import annotations

import json
import platform
import secrets
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import httpx
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.table import Table

from magiccontext.bench.measure import CASES, Row, full_array, resident_mebibytes
from magiccontext.replay.server import running_server


class Command(BaseCommand):
    """Starts a server of its own with an empty home, measures, prints a table."""

    help = "Measure round trips against the bounds of the design; every figure beside an echo view."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--calls", type=int, default=30, help="measured calls a row (default 30)")
        parser.add_argument("--json", metavar="OUT", help="also write the rows as JSON")
        parser.add_argument("--strict", action="store_true", help="exit with 1 when a bound is not held")

    def handle(self, *args: Any, **options: Any) -> None:
        rows: list[Row] = []
        memory: float | None = None
        with tempfile.TemporaryDirectory() as home:
            extra = {"MAGIC_CONTEXT_HOME": home, "MAGIC_CONTEXT_BENCH": "1"}
            with running_server(extra=extra) as server:
                key = server.key("bench")
                with httpx.Client(headers={"Authorization": f"Bearer {key}"}, timeout=120) as client:
                    for case in CASES:
                        rows += full_array(
                            client, server.url.rstrip("/"), case, options["calls"], secrets.token_hex(4)
                        )
                memory = resident_mebibytes(server.process.pid)
        self._print(rows, memory)
        if options["json"]:
            Path(options["json"]).write_text(
                json.dumps({"rows": [row.as_dict() for row in rows], "memory_mib": memory}, indent=1)
            )
        missed = [row.name for row in rows if not row.held]
        if missed and options["strict"]:
            raise CommandError("bounds not held: " + "; ".join(missed))

    def _print(self, rows: list[Row], memory: float | None) -> None:
        table = Table(
            title=f"{platform.machine()}, Python {platform.python_version()}, milliseconds a round trip"
        )
        for name in ("what", "calls", "p50", "p95", "max", "bound", "x echo", "bound"):
            table.add_column(name, justify="left" if name == "what" else "right")
        for row in rows:
            table.add_row(
                row.name,
                str(row.calls),
                f"{row.p50:.1f}",
                f"{row.p95:.1f}",
                f"{row.most:.1f}",
                "" if row.bound is None else f"{row.bound:.0f}",
                "" if row.ratio is None else f"{row.ratio:.2f}",
                "" if row.ratio_bound is None else f"{row.ratio_bound:.0f}",
                style=None if row.held else "red",
            )
        console = Console()
        console.print(table)
        if memory is not None:
            console.print(f"Memory of the server afterwards: {memory:.0f} MiB")
