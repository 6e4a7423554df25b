"""`manage.py replay FILE…`: play recorded sessions through the server and compare (design section 11)."""

import json
import signal
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import httpx
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from magiccontext.replay import extract
from magiccontext.replay.compartments import CompartmentsError, Publication, load
from magiccontext.replay.readers import READERS, read_file
from magiccontext.replay.run import (
    DEFAULT_LIMIT,
    MANAGED,
    POLICY_NAMES,
    RunOptions,
    SessionResult,
    api_client,
    replay,
    steps,
)
from magiccontext.replay.server import StartError, private_server
from magiccontext.replay.table import progress_bar, show
from magiccontext.replay.transcript import Transcript, TranscriptError
from magiccontext.tokenizer import count_many


def leave_on_signal(signum: int, frame: object) -> NoReturn:
    """End like Ctrl-C would, so that the started server is stopped."""
    raise SystemExit(1)


def play_all(
    transcripts: dict[str, Transcript],
    options: RunOptions,
    client: httpx.Client | None,
    publications: Mapping[str, Sequence[Publication]] = MappingProxyType({}),
) -> list[SessionResult]:
    """Play each transcript with a progress bar on stderr, and print its table on stdout when it is done."""
    results = []
    console = Console(width=None if Console().is_terminal else 200)
    with progress_bar(Console(stderr=True)) as progress:
        task = progress.add_task("replay", total=steps(list(transcripts.values()), options))
        for name, transcript in transcripts.items():

            def on_call(policy: str, name: str = name) -> None:
                progress.update(task, advance=1, description=f"{name[:32]} {policy}")

            prepared = publications.get(name, ())
            results.append(replay(name, transcript, options, count_many, client, on_call, prepared))
    for result in results:
        show(result, console)
    return results


class Command(BaseCommand):
    """Exit code 1 when any answer of the server was wrong, refused or not explained."""

    help = "Play recorded sessions through the server, check every answer, compare with other policies."
    requires_system_checks = []
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Files and what to vary."""
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="recorded sessions")
        parser.add_argument("--format", choices=sorted(READERS), help="of the files (default: detected)")
        parser.add_argument("--limit", type=int, default=DEFAULT_LIMIT, help="window in tokens")
        parser.add_argument("--output-limit", type=int, help="output limit reported to the server")
        parser.add_argument("--model", help="provider/model for every call (default: as recorded)")
        parser.add_argument("--policy", action="append", choices=POLICY_NAMES, help="repeatable; default all")
        parser.add_argument(
            "--reduce", type=int, metavar="K", help="an agent marks tool results older than K calls"
        )
        parser.add_argument("--sync", action="store_true", help="send only what is new (delta sync)")
        parser.add_argument(
            "--compartments",
            metavar="auto|FILE",
            help="publish prepared summaries while playing: a JSON file of them, or 'auto' for extracts of "
            "the recording itself (first lines; no historian, only to see what summaries do)",
        )
        parser.add_argument("--json", type=Path, metavar="OUT", help="write everything, call by call")
        parser.add_argument("--url", help="a running server (default: one of its own for this run)")
        parser.add_argument(
            "--key", help="an API key with the scope replay, for --url; --compartments needs admin too"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises CommandError for unreadable files, a server that does not start, and failed runs."""
        signal.signal(signal.SIGTERM, leave_on_signal)
        run = _run_options(options)
        transcripts = {}
        for path in options["files"]:
            try:
                transcripts[_name(path, transcripts)] = read_file(path, options["format"])
            except (OSError, TranscriptError) as error:
                raise CommandError(f"{path}: {error}") from error
        publications = _publications(options["compartments"], transcripts)
        with ExitStack() as stack:
            client: httpx.Client | None = None
            if MANAGED in run.policies:
                url, key = options["url"], options["key"]
                if bool(url) != bool(key):
                    raise CommandError("--url and --key belong together")
                try:
                    if not url:
                        server = stack.enter_context(private_server())
                        url, key = server.url, server.key("replay")
                except StartError as error:
                    raise CommandError(str(error)) from error
                client = stack.enter_context(api_client(url, key))
            try:
                results = play_all(transcripts, run, client, publications)
            except KeyboardInterrupt:
                raise CommandError("interrupted", returncode=130) from None
        if options["json"]:
            options["json"].write_text(json.dumps([result.as_json() for result in results], indent=1))
        problems = sum(len(result.problems) for result in results)
        if problems:
            raise CommandError(f"the run failed: {problems} problems")


def _run_options(options: dict[str, Any]) -> RunOptions:
    if options["limit"] < 1024:
        raise CommandError("--limit: a window has at least 1024 tokens")
    if options["reduce"] is not None and options["reduce"] < 1:
        raise CommandError("--reduce: at least 1")
    return RunOptions(
        limit=options["limit"],
        model=options["model"],
        policies=tuple(dict.fromkeys(options["policy"] or POLICY_NAMES)),
        reduce=options["reduce"],
        sync=options["sync"],
        output_limit=options["output_limit"],
    )


def _publications(wanted: str | None, transcripts: Mapping[str, Transcript]) -> dict[str, list[Publication]]:
    if wanted is None:
        return {}
    if wanted == "auto":
        return {name: extract.prepare(transcript) for name, transcript in transcripts.items()}
    if len(transcripts) != 1:
        raise CommandError("--compartments: a file of compartments belongs to one recording")
    ((name, transcript),) = transcripts.items()
    try:
        return {name: load(Path(wanted), transcript)}
    except (OSError, CompartmentsError) as error:
        raise CommandError(f"{wanted}: {error}") from error


def _name(path: Path, taken: dict[str, Transcript]) -> str:
    return path.stem if path.stem not in taken else str(path)
