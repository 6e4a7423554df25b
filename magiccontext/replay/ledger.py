"""One row a request, and what they sum up to for the table of a policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from magiccontext.replay.cost import Charge, PrefixCache
from magiccontext.replay.policies import Request


@dataclass(frozen=True, slots=True)
class Row:
    """One request as it was billed. `messages` is how many slices went out, without the constant front."""

    call: int
    time_ms: int
    model: str
    messages: int
    hidden: bool
    charge: Charge
    level: str
    reasons: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        charge = self.charge
        return {
            "call": self.call,
            "time_ms": self.time_ms,
            "model": self.model,
            "messages": self.messages,
            "hidden": self.hidden,
            "prompt_tokens": charge.prompt_tokens,
            "read_tokens": charge.read_tokens,
            "write_tokens": charge.write_tokens,
            "output_tokens": charge.output_tokens,
            "outcome": charge.outcome,
            "changed_at": charge.changed_at,
            "cost": round(charge.cost, 3),
            "level": self.level,
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True, slots=True)
class Totals:
    """The figures of the table. `busts` counts changed fronts by `level: reason`, `free_busts` those of them
    at which the provider's cache was lost anyway; hits are calls that read everything sent before."""

    calls: int = 0
    hidden_calls: int = 0
    prompt_tokens: int = 0
    largest_prompt: int = 0
    over_limit: int = 0
    refusals: int = 0
    hits: int = 0
    lost: int = 0
    busts: dict[str, int] = field(default_factory=dict)
    free_busts: int = 0
    hit_share: float = 0.0
    cost: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Ledger:
    """Bills the requests of one policy in one session."""

    def __init__(self, limit: int, lifetime_ms: Callable[[str], float]) -> None:
        self.limit = limit
        self.refusals = 0
        self.rows: list[Row] = []
        self._cache = PrefixCache(lifetime_ms)

    def add(self, request: Request) -> Row:
        call = request.call
        charge = self._cache.charge(
            request.model, call.time_ms, call.done_ms, request.slices, request.output_tokens
        )
        row = Row(
            call.index,
            call.time_ms,
            request.model,
            len(request.slices) - 1,
            request.hidden,
            charge,
            request.level,
            request.reasons,
        )
        self.rows.append(row)
        return row

    def totals(self) -> Totals:
        charges = [row.charge for row in self.rows]
        prompt = sum(charge.prompt_tokens for charge in charges)
        changed = [row for row in self.rows if row.charge.changed_at is not None]
        busts: Counter[str] = Counter()
        for row in changed:
            reason = "+".join(row.reasons) or "no reason"
            busts[f"{row.level}: {reason}" if row.level else reason] += 1
        return Totals(
            calls=sum(not row.hidden for row in self.rows),
            hidden_calls=sum(row.hidden for row in self.rows),
            prompt_tokens=prompt,
            largest_prompt=max((charge.prompt_tokens for charge in charges), default=0),
            over_limit=sum(charge.prompt_tokens > self.limit for charge in charges),
            refusals=self.refusals,
            hits=sum(charge.outcome == "hit" for charge in charges),
            lost=sum(charge.lost is not None for charge in charges),
            busts=dict(busts),
            free_busts=sum(row.charge.lost is not None for row in changed),
            hit_share=sum(charge.read_tokens for charge in charges) / prompt if prompt else 0.0,
            cost=sum(charge.cost for charge in charges),
        )
