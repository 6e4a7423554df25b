"""The head: a HARD fold over a long history with many memories, and rendering it alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from magiccontext.bench.client import MODEL, body, created, level, only_level, post
from magiccontext.bench.rows import Row, timed, timings
from magiccontext.bench.workload import messages, prose
from magiccontext.engine.head.materialize import Signals
from magiccontext.engine.head.model import Budgets, Compartment, HeadSource, Memory
from magiccontext.engine.head.render import render_fold
from magiccontext.tokenizer import count_many

OTHER_MODEL = "anthropic/claude-opus-4-5"
CATEGORIES = ("PROJECT_RULES", "ARCHITECTURE", "CONSTRAINTS", "CONFIG_VALUES", "NAMING")
PROJECT = "bench:project"
FOLD_RATIO = 10.0
RENDER_BOUND_MS = 60.0
SPAN = 12
"""Messages in a compartment: an even number, so that each ends with a result."""
MEASURED_FOLDS = 7


@dataclass(frozen=True, slots=True)
class Size:
    messages: int = 4_000
    compartments: int = 300
    memories: int = 500


def compartment(index: int) -> dict[str, object]:
    """Compartment ``index`` from 0: its range, and four tiers of about the nominal size (322 tokens, …)."""
    return {
        "start": 1 if index == 0 else 2 + index * SPAN,
        "end": 1 + (index + 1) * SPAN,
        "title": f"Step {index}",
        "p1": prose(index, 1_100),
        "p2": prose(index + 1, 380),
        "p3": prose(index + 2, 120),
        "p4": prose(index + 3, 70),
        "importance": 1 + index * 37 % 100,
    }


def memory(index: int) -> dict[str, object]:
    return {
        "category": CATEGORIES[index % len(CATEGORIES)],
        "content": f"Fact {index}: {prose(index, 120)}",
        "importance": 1 + index * 53 % 100,
    }


def hard_fold(client: httpx.Client, base: str, size: Size, calls: int, run: str) -> Iterator[Row]:
    """Defer passes of a session with a full head, then folds of it: the model changes back and forth.

    A memory important enough to be chosen is added before every fold, so that m[0] differs.
    """
    folds = min(calls, MEASURED_FOLDS)
    start = size.messages - size.messages % 2 + 1
    session = list(messages(start + 2 * (calls + folds + 4)))
    sid = f"bench-fold-{run}"
    url = f"{base}/api/v1/sessions/custom/{sid}/transform"
    named = b'"project":{"identity":"%s-%s"},' % (PROJECT.encode(), run.encode())
    sent = start

    def send(model: str = MODEL) -> tuple[float, str]:
        nonlocal sent
        content = body(session[:sent], model=model, members=named)
        begun = time.perf_counter()
        answer = post(client, url, content)
        taken = (time.perf_counter() - begun) * 1000
        sent += 2
        return taken, level(answer)

    send()
    owner = f"{base}/api/v1/projects/?identity={PROJECT}-{run}"
    project = json.loads(client.get(owner).content)["results"][0]["id"]
    drafts = [compartment(index) for index in range(size.compartments)]
    created(client, f"{base}/api/v1/compartments/", {"session": f"custom/{sid}", "compartments": drafts})

    def remember(index: int, **more: int) -> None:
        created(client, f"{base}/api/v1/memories/", {"project": project, **memory(index), **more})

    for index in range(size.memories):
        remember(index)
    first, taken_up = send(OTHER_MODEL)
    for _ in range(2):
        send(OTHER_MODEL)
    defers, calm = zip(*(send(OTHER_MODEL) for _ in range(calls)), strict=True)
    only_level(set(calm), "defer")
    folded, levels = [], {taken_up}
    for index in range(folds):
        remember(size.memories + index, importance=100)
        taken, reached = send(MODEL if index % 2 == 0 else OTHER_MODEL)
        folded.append(taken)
        levels.add(reached)
    only_level(levels, "hard")
    label = f"{size.messages:,} messages, {size.compartments} compartments, {size.memories} memories"
    calm_row = timings(f"defer pass, full array, {label}", defers)
    yield calm_row
    yield timings(f"HARD fold, {label}", folded, against=calm_row, ratio_bound=FOLD_RATIO, to="defer pass")
    yield timings(
        f"HARD fold that first cuts {size.compartments * SPAN:,} messages",
        [first],
        against=calm_row,
        to="defer pass",
    )


def rendering(size: Size, calls: int) -> Iterator[Row]:
    """Rendering m[0] and m[1] in this process, with the budgets of a 200k and of a 1M window."""
    source = HeadSource(
        project=PROJECT,
        compartments=tuple(
            Compartment(index, end_mid=f"m{index}", first_day="2026-01-02", last_day="2026-01-03", **row)  # type: ignore[arg-type]
            for index, row in enumerate(map(compartment, range(size.compartments)))
        ),
        memories=tuple(
            Memory(index + 1, project=PROJECT, **memory(index))  # type: ignore[arg-type]
            for index in range(size.memories)
        ),
    )
    signals = Signals(now_ms=1_767_225_600_000, model_key=MODEL)
    for name, budget in (("200k", 19_500), ("1M", 97_500)):
        budgets = Budgets(history=budget, memory=4_000, profile=4_000)
        taken = [
            timed(lambda: render_fold(source, budgets, count_many, signals))  # noqa: B023
            for _ in range(max(calls, 3))
        ]
        yield timings(
            f"rendering {size.compartments} compartments, {size.memories} memories, {name} window, no HTTP",
            taken,
            bound=RENDER_BOUND_MS,
        )
