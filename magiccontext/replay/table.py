"""What a person sees of a run: a progress bar, one table a session, what went wrong."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from magiccontext.replay.ledger import Totals
from magiccontext.replay.run import SessionResult

PROBLEMS_SHOWN = 20
COLUMNS = (
    "policy",
    "calls",
    "prompt tokens",
    "largest",
    "over limit",
    "refused",
    "hits",
    "own busts",
    "hit share",
    "cost",
    "against unmanaged",
)


def progress_bar(console: Console) -> Progress:
    """A bar with the time left; on a console that is no terminal nothing moves."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


def show(result: SessionResult, console: Console) -> None:
    """Print the table of one session, its notes and its problems."""
    transcript = result.transcript
    table = Table(
        title=Text(
            f"{result.name}: {transcript.source_format}, {len(transcript.messages)} messages, "
            f"{transcript.model}, window {result.limit:,}"
        ),
        title_justify="left",
    )
    for number, column in enumerate(COLUMNS):
        table.add_column(
            column, justify="left" if column in ("policy", "own busts") else "right", no_wrap=number == 0
        )
    for policy, totals in result.totals().items():
        table.add_row(*_cells(policy, totals, result.unmanaged_cost))
    console.print(table)
    for note in transcript.notes:
        console.print(Text(f"  note: {note}"))
    largest = result.largest_with_summaries
    if result.played is not None and largest is not None:
        console.print(
            Text(
                f"  {result.played.published} compartments published, first shown at call "
                f"{result.played.first_summary}; largest prompt from there on {largest:,} "
                f"({largest / result.limit:.1%} of the window)"
            )
        )
    _show_problems(result, console)


def _cells(policy: str, totals: Totals, unmanaged: float) -> list[str]:
    calls = f"{totals.calls:,}" + (f" +{totals.hidden_calls}" if totals.hidden_calls else "")
    return [
        policy,
        calls,
        f"{totals.prompt_tokens:,}",
        f"{totals.largest_prompt:,}",
        f"{totals.over_limit:,}",
        f"{totals.refusals:,}",
        f"{totals.hits:,}",
        busts(totals),
        f"{totals.hit_share:.2%}",
        f"{totals.cost:,.0f}",
        f"{totals.cost / unmanaged:.1%}",
    ]


def busts(totals: Totals) -> str:
    """How often a policy changed what was already sent, by level and reason."""
    total = sum(totals.busts.values())
    if not total:
        return "0"
    free = f", {totals.free_busts} free" if totals.free_busts else ""
    ordered = sorted(totals.busts.items(), key=lambda item: (-item[1], item[0]))
    return f"{total}{free} ({'; '.join(f'{count} {reason}' for reason, count in ordered)})"


def _show_problems(result: SessionResult, console: Console) -> None:
    problems = result.problems
    if result.played is None:
        return
    if not problems:
        console.print(Text("  every answer checked: no fault, no refusal, every bust explained", "green"))
        return
    counts = Counter(problem.code for problem in problems)
    listed = ", ".join(f"{count} {code}" for code, count in counts.most_common())
    console.print(Text(f"  {len(problems)} problems: {listed}", "red"))
    for problem in problems[:PROBLEMS_SHOWN]:
        console.print(Text(f"    call {problem.call}: {problem.code}: {problem.detail}", "red"))
    if len(problems) > PROBLEMS_SHOWN:
        console.print(Text(f"    and {len(problems) - PROBLEMS_SHOWN} more (--json has all)", "red"))
