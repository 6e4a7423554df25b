"""Plays transcripts under the chosen policies and collects what came out."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from magiccontext.replay.compartments import Publication
from magiccontext.replay.ledger import Ledger, Totals
from magiccontext.replay.lifetime import lifetime_ms
from magiccontext.replay.managed import Played, PlayOptions, play
from magiccontext.replay.policies import POLICIES, Session
from magiccontext.replay.problems import Problem
from magiccontext.replay.tokens import Counter, MessageBook
from magiccontext.replay.transcript import Transcript

MANAGED = "managed"
POLICY_NAMES = (*POLICIES, MANAGED)
DEFAULT_LIMIT = 200_000


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run varies. `limit`: the window in tokens; `model` replaces every recorded one."""

    limit: int = DEFAULT_LIMIT
    model: str | None = None
    policies: tuple[str, ...] = POLICY_NAMES
    reduce: int | None = None
    sync: bool = False
    output_limit: int | None = None


@dataclass(frozen=True, slots=True)
class SessionResult:
    """One transcript under all policies. `unmanaged_cost` is always known, shown or not."""

    name: str
    transcript: Transcript
    limit: int
    front_tokens: int
    ledgers: dict[str, Ledger]
    unmanaged_cost: float
    played: Played | None

    @property
    def problems(self) -> list[Problem]:
        """What makes the run fail; the other policies cannot fail, they are only measured."""
        return self.played.problems if self.played is not None else []

    @property
    def largest_with_summaries(self) -> int | None:
        """Largest prompt of the managed policy from the first answer on that showed a compartment."""
        if self.played is None or self.played.first_summary is None:
            return None
        rows = self.ledgers[MANAGED].rows
        return max(row.charge.prompt_tokens for row in rows if row.call >= self.played.first_summary)

    def totals(self) -> dict[str, Totals]:
        return {policy: ledger.totals() for policy, ledger in self.ledgers.items()}

    def as_json(self) -> dict[str, Any]:
        policies = {}
        for policy, ledger in self.ledgers.items():
            totals = ledger.totals()
            policies[policy] = {
                "totals": totals.as_json(),
                "cost_against_unmanaged": round(totals.cost / self.unmanaged_cost, 6),
                "calls": [row.as_json() for row in ledger.rows],
            }
        played = self.played
        return {
            "name": self.name,
            "format": self.transcript.source_format,
            "recorded_session": self.transcript.session_id,
            "session": played.session_id if played else None,
            "messages": len(self.transcript.messages),
            "limit": self.limit,
            "front_tokens": self.front_tokens,
            "notes": list(self.transcript.notes),
            "policies": policies,
            "levels": played.levels if played else {},
            "tool_calls": played.tool_calls if played else 0,
            "full_syncs": played.full_syncs if played else 0,
            "published": played.published if played else 0,
            "first_summary": played.first_summary if played else None,
            "largest_with_summaries": self.largest_with_summaries,
            "problems": [
                {"code": problem.code, "call": problem.call, "detail": problem.detail}
                for problem in self.problems
            ],
        }


def replay(
    name: str,
    transcript: Transcript,
    options: RunOptions,
    counter: Counter,
    client: httpx.Client | None,
    on_call: Callable[[str], None] = lambda policy: None,
    publications: Sequence[Publication] = (),
) -> SessionResult:
    """Play one transcript; `client` is needed for the managed policy. `on_call` is told each call played.

    `publications` are what a historian would have published; only the managed policy has a use for them.
    """
    session = Session.measured(transcript, MessageBook(counter), options.limit, options.model)
    ledgers: dict[str, Ledger] = {}
    played: Played | None = None
    for policy in options.policies:
        ledger = ledgers[policy] = Ledger(options.limit, lifetime_ms)
        if policy == MANAGED:
            if client is None:
                raise ValueError("the managed policy needs a server")
            play_options = PlayOptions(
                lifetime_ms,
                secrets.token_hex(3),
                options.reduce,
                options.sync,
                options.output_limit,
                publications=publications,
            )
            played = play(session, client, ledger, play_options, lambda: on_call(MANAGED))
        else:
            _measure(session, policy, ledger, on_call)
    if "unmanaged" in ledgers:
        unmanaged = ledgers["unmanaged"]
    else:
        unmanaged = Ledger(options.limit, lifetime_ms)
        _measure(session, "unmanaged", unmanaged, lambda policy: None)
    return SessionResult(
        name, transcript, options.limit, session.front.tokens, ledgers, unmanaged.totals().cost, played
    )


def _measure(session: Session, policy: str, ledger: Ledger, on_call: Callable[[str], None]) -> None:
    for request in POLICIES[policy](session):
        ledger.add(request)
        if not request.hidden:
            on_call(policy)


def steps(transcripts: Sequence[Transcript], options: RunOptions) -> int:
    """How many calls a run will play, for the progress bar."""
    return sum(len(transcript.calls) for transcript in transcripts) * len(options.policies)


def api_client(url: str, key: str) -> httpx.Client:
    """One kept-alive connection to a server; a proxy of the environment is not asked."""
    return httpx.Client(
        base_url=url,
        headers={"Authorization": f"Bearer {key}"},
        timeout=httpx.Timeout(120.0),
        limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
        trust_env=False,
    )
