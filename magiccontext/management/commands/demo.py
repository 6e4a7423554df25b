"""`manage.py demo`: a server, a long session played through it, the table, and a page to look at."""

import secrets
import signal
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from magiccontext.management.commands.replay import leave_on_signal, play_all
from magiccontext.management.commands.serve import DEFAULT_PORT
from magiccontext.replay.readers import read_file
from magiccontext.replay.run import DEFAULT_LIMIT, RunOptions, api_client
from magiccontext.replay.sample import sample_session
from magiccontext.replay.server import ROOT, Running, StartError, running_server
from magiccontext.replay.transcript import Transcript, TranscriptError

REDUCE = 6
LOGIN_LINE = "  password  "


class Command(BaseCommand):
    """Keeps serving until Ctrl-C; `--exit` ends after the table, with 1 when the run failed."""

    help = "Start the server, play a sample session (or your own) through it, and keep serving."
    requires_system_checks = []
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        """`--session`, `--port`, `--limit`, `--exit`."""
        parser.add_argument("--session", type=Path, help="a recorded session of your own, any known format")
        parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="port; 0 takes a free one")
        parser.add_argument("--limit", type=int, default=DEFAULT_LIMIT, help="window in tokens")
        parser.add_argument("--exit", action="store_true", help="end after the table")

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises CommandError for an unreadable session, a server that does not start, a failed run."""
        signal.signal(signal.SIGTERM, leave_on_signal)
        name, transcript = self._transcript(options["session"])
        try:
            with running_server(options["port"]) as server:
                self.stdout.write(f"Server: {server.url}/   session: {name}, {len(transcript.calls)} calls")
                with api_client(server.url, server.key(f"demo {secrets.token_hex(4)}")) as client:
                    run = RunOptions(limit=options["limit"], reduce=REDUCE)
                    (result,) = play_all({name: transcript}, run, client)
                self._greet(server)
                if not options["exit"]:
                    self._serve(server)
        except StartError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            raise CommandError("interrupted", returncode=130) from None
        if result.problems:
            raise CommandError(f"the run failed: {len(result.problems)} problems")

    def _transcript(self, path: Path | None) -> tuple[str, Transcript]:
        try:
            return ("sample", sample_session(ROOT)) if path is None else (path.stem, read_file(path))
        except (OSError, TranscriptError) as error:
            raise CommandError(f"{path or 'sample session'}: {error}") from error

    def _greet(self, server: Running) -> None:
        for line in server.said:
            self.stdout.write(line)
        if not any(line.startswith(LOGIN_LINE) for line in server.said):
            self.stdout.write(
                "  login: as shown at the first start (`manage.py changepassword admin` sets a new password)"
            )
        self.stdout.flush()

    def _serve(self, server: Running) -> None:
        try:
            while server.process.poll() is None:
                time.sleep(0.5)
        except KeyboardInterrupt:
            self.stdout.write("Stopping.")
        else:
            raise CommandError("the server ended by itself")
