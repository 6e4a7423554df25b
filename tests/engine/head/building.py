"""Short ways to write down what a head is made from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from magiccontext.engine.head.materialize import Signals
from magiccontext.engine.head.model import Budgets, Compartment, HeadSource, Memory, MutationRow, Pair
from magiccontext.engine.head.render import render_fold, render_refresh

NOW = 1_000_000_000
PROJECT = "git:own"
BUDGETS = Budgets(19_500, 4_000, 4_000, policy="m4000-hp0.15:percentage:65")
MODEL = "anthropic/claude"


def tokens(text: str) -> int:
    """The counter of the worked examples: ceil(len / 3.5)."""
    return math.ceil(len(text) / 3.5)


def count(texts: Sequence[str]) -> list[int]:
    return [tokens(text) for text in texts]


def compartment(sequence: int, **fields: Any) -> Compartment:
    """Sequence n covers messages 10n+1 to 10n+10, and its texts name it."""
    start, end = 10 * sequence + 1, 10 * sequence + 10
    defaults: dict[str, Any] = {
        "start_mid": f"m{start}",
        "end_mid": f"m{end}",
        "title": f"Work {sequence}",
        "p1": f"full {sequence}",
        "p2": f"less {sequence}",
        "p3": f"little {sequence}",
        "p4": f"hint {sequence}",
    }
    return Compartment(sequence, **({"start": start, "end": end} | defaults | fields))


def memory(number: int, content: str = "", category: str = "CONSTRAINTS", **fields: Any) -> Memory:
    return Memory(number, category, content or f"fact {number}", fields.pop("project", PROJECT), **fields)


def mutation(number: int, type: str, target: int, **fields: Any) -> MutationRow:
    return MutationRow(number, type, target, fields.pop("project", PROJECT), **fields)


def source(**fields: Any) -> HeadSource:
    return HeadSource(**({"project": PROJECT} | fields))


def signals(**fields: Any) -> Signals:
    return Signals(**({"now_ms": NOW, "model_key": MODEL, "system_hash": "s1"} | fields))


def fold(given: HeadSource, budgets: Budgets = BUDGETS, **fields: Any) -> Pair:
    """A fold at ``now_ms`` (default :data:`NOW`) of a pass that knows its model and system prompt."""
    before = fields.pop("before", None)
    at_ms = fields.pop("at_ms", None)
    return render_fold(given, budgets, count, signals(**fields), before=before, at_ms=at_ms)


def refresh(pair: Pair, given: HeadSource, budgets: Budgets = BUDGETS) -> Pair:
    return render_refresh(pair, given, budgets, count)
