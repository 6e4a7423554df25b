"""The managed policy: every call of a transcript through the server, every answer checked.

The client behaves as a host: it sends the messages it holds, takes what comes back as what goes to the model,
and reports usage with its next request. That usage is what the answer would have cost (the returned messages
through the cache model, plus the constant front), never what the recording says. Messages are hashed here.

Where compartments were prepared, they are published before the call they are meant for, as a historian would
that runs beside the session.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import msgspec

from magiccontext.replay.agent import ReducingAgent, drop_argument
from magiccontext.replay.compartments import Publication
from magiccontext.replay.cost import Charge, Slice, output_tokens
from magiccontext.replay.head import Head, escaped, read_head
from magiccontext.replay.history import History, check_tail, live_from
from magiccontext.replay.ledger import Ledger
from magiccontext.replay.policies import Request, Session
from magiccontext.replay.problems import Problem
from magiccontext.replay.transcript import Call
from magiccontext.replay.verify import (
    EXECUTE_THRESHOLD,
    Evidence,
    Sent,
    check_conversation,
    check_fresh_results,
    check_front,
)
from magiccontext.replay.wire import Answer, ApiClient, Refusal, ServerGoneError, rfc3339

HISTORY_SHARE = 0.15
"""History budget as a share of the execute threshold (history-render section 4)."""

TOOLS: tuple[dict[str, Any], ...] = (
    {
        "name": "ctx_reduce",
        "description": "Give back context that is no longer needed, by tag number.",
        "input_schema": {"type": "object", "properties": {"drop": {"type": "string"}}, "required": ["drop"]},
    },
    {
        "name": "ctx_expand",
        "description": "Read again what left the context.",
        "input_schema": {"type": "object", "properties": {"tag": {"type": "integer"}}},
    },
)


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """`reduce`: age in calls after which the agent marks a tool result, None for never. `sync`: send only
    what is new. `output_limit`: reported to the server and taken off the window, None to report none.
    `run` tells sessions of one transcript apart. `threshold`: the server's execute threshold in percent.
    `publications`: prepared compartments by the call before which they are published.
    """

    lifetime_ms: Callable[[str], float]
    run: str
    reduce: int | None = None
    sync: bool = False
    output_limit: int | None = None
    threshold: float = EXECUTE_THRESHOLD
    publications: Sequence[Publication] = ()


@dataclass(slots=True)
class Played:
    """What a run found: its problems, and how the passes went (level -> count).

    `published`: compartments; `first_summary`: the call whose answer was the first to show one of them.
    """

    session_id: str
    problems: list[Problem] = field(default_factory=list)
    levels: dict[str, int] = field(default_factory=dict)
    full_syncs: int = 0
    tool_calls: int = 0
    published: int = 0
    first_summary: int | None = None


@dataclass(frozen=True, slots=True)
class _Last:
    """The last call that was answered."""

    answer: Answer
    sent: Sent
    call: Call
    model: str
    charge: Charge
    counted_output: int
    messages: int


def play(
    session: Session,
    client: httpx.Client,
    ledger: Ledger,
    options: PlayOptions,
    on_call: Callable[[], None] = lambda: None,
) -> Played:
    """Play every call of the session; rows go to `ledger`, what was wrong to the result."""
    player = _Player(session, client, ledger, options)
    for call in session.transcript.calls:
        try:
            player.play(call)
        except ServerGoneError as gone:
            player.result.problems.append(Problem("server_gone", call.index, str(gone)))
            break
        on_call()
    return player.result


class _Player:
    """State of one run: the last answer, the agent, what the evidence needs from earlier calls."""

    def __init__(self, session: Session, client: httpx.Client, ledger: Ledger, options: PlayOptions) -> None:
        transcript = session.transcript
        self.session = session
        self.ledger = ledger
        self.options = options
        self.result = Played(f"replay-{transcript.digest}-{options.run}")
        self.api = ApiClient(client, self.result.session_id)
        self.agent = ReducingAgent(options.reduce) if options.reduce is not None else None
        self.last: _Last | None = None
        self.held = False
        self.history = History()
        self.live = 0
        self.due = {publication.at_call: publication for publication in options.publications}
        self.tools = [msgspec.Raw(tool) for tool in transcript.tools]
        self.tools += [msgspec.Raw(msgspec.json.encode(tool)) for tool in TOOLS]
        book = session.book
        self.tool_tokens = sum(book.text_tokens(msgspec.json.encode(tool).decode()) for tool in TOOLS)
        self.system_tokens = book.text_tokens(transcript.system.decode()) if transcript.system else 0

    def play(self, call: Call) -> None:
        self._publish(call)
        answer = self._ask(call)
        if isinstance(answer, Refusal):
            self.ledger.refusals += 1
            detail = f"{answer.status} {answer.code}: {answer.detail}"
            self.result.problems.append(Problem("refused", call.index, detail))
        elif answer is not None:
            self._take(call, answer)
            self._reduce(call)

    def _publish(self, call: Call) -> None:
        publication = self.due.get(call.index)
        if publication is None:
            return
        rows = publication.compartments
        key = f"{self.result.session_id}-publish-{call.index}"
        refused = self.api.publish(key, [row.as_json() for row in rows])
        if refused is not None:
            detail = f"{refused.status} {refused.code}: {refused.detail}"
            self.result.problems.append(Problem("publish_failed", call.index, detail))
            return
        self.history.publish(rows)
        self.result.published += len(rows)

    def _ask(self, call: Call) -> Answer | Refusal | None:
        body = self._body(call)
        key = f"{self.result.session_id}-{call.index}"
        last = self.last
        try:
            if self.options.sync and last is not None and last.answer.chain:
                base = {"count": last.messages, "chain": last.answer.chain}
                news = {**body, "sync": {"base": base}, "messages": body["messages"][last.messages :]}
                answer = self.api.transform(f"{key}-news", news)
                if not (isinstance(answer, Refusal) and answer.code == "need_full_sync"):
                    return answer
                self.result.full_syncs += 1
            return self.api.transform(key, body)
        except (ValueError, RecursionError) as error:
            self.result.problems.append(Problem("bad_answer", call.index, str(error)))
            return None

    def _body(self, call: Call) -> dict[str, Any]:
        transcript = self.session.transcript
        body: dict[str, Any] = {
            "format": "anthropic",
            "model": self.session.model_of(call),
            "context_limit": self.session.limit,
            "subagent": transcript.subagent,
            "tools": self.tools,
            "messages": [msgspec.Raw(raw) for raw in transcript.messages[: call.messages]],
            "usage": None,
            "last_sent": None,
            "capabilities": {"tools": ["ctx_reduce", "ctx_expand"], "remove_messages": True},
            "at": rfc3339(call.time_ms),
        }
        if transcript.system is not None:
            body["system"] = msgspec.Raw(transcript.system)
        if self.options.output_limit is not None:
            body["output_limit"] = self.options.output_limit
        if self.last is not None:
            last = self.last
            body["usage"] = {
                "input_tokens": 0,
                "cache_read_input_tokens": last.charge.read_tokens,
                "cache_creation_input_tokens": last.charge.write_tokens,
                "output_tokens": last.counted_output,
                "completed_at": rfc3339(last.call.done_ms),
                "message_id": f"response-{last.call.index}",
                "pass_id": last.answer.report.get("id"),
            }
            body["last_sent"] = {"view_version": last.answer.view_version, "raw_from": last.answer.raw_from}
        return body

    def _take(self, call: Call, answer: Answer) -> None:
        """Check an answer and bill it. One that cannot be read is a problem and is not sent."""
        book, problems = self.session.book, self.result.problems
        try:
            digests = book.learn(answer.messages)
        except (ValueError, RecursionError) as error:
            problems.append(Problem("bad_answer", call.index, str(error)))
            return
        evidence = self._evidence(call)
        facts = [book.facts(digest) for digest in digests]
        raw = [book.facts(part.digest) for part in self.session.slices[: call.messages]]
        # A user may quote a head; the transcript's own first message is never one.
        head = read_head(facts) if facts and facts[0] is not raw[0] else None
        sent = Sent(digests, answer.system, head)
        problems += check_front(
            call.index, self.last.sent if self.last else None, sent, answer.report, evidence
        )
        problems += check_conversation(call.index, facts)
        problems += self.history.show(call.index, head)
        tail = facts[2:] if head is not None else facts
        if answer.report.get("level") != "defer":
            self.live = live_from(raw)
        problems += check_tail(call.index, raw, tail, self.history.covered(head), self.live)
        problems += check_fresh_results(call.index, raw, facts)
        problems += _faults(call.index, answer)
        self._remember(call, answer, evidence)
        counted, billed = output_tokens(self.session.transcript, call, book)
        level = str(answer.report.get("level"))
        model = self.session.model_of(call)
        row = self.ledger.add(
            Request(
                call,
                model,
                [self._front(answer.system), *(Slice(digest, book.tokens(digest)) for digest in digests)],
                billed,
                level=level,
                reasons=tuple(str(reason) for reason in answer.report.get("reasons") or ()),
            )
        )
        # Of the messages only digests are kept: an answer may have megabytes.
        self.last = _Last(replace(answer, messages=()), sent, call, model, row.charge, counted, call.messages)
        self.result.levels[level] = self.result.levels.get(level, 0) + 1
        if self.agent is not None:
            self.agent.see(call.index, [tag for message in facts for tag in message.tags])

    def _evidence(self, call: Call) -> Evidence:
        last = self.last
        if last is None:
            return Evidence(subagent=self.session.transcript.subagent, threshold=self.options.threshold)
        model = self.session.model_of(call)
        changed = model != last.model
        limit = self.session.limit
        usable = limit - min(self.options.output_limit or 0, limit // 4)
        return Evidence(
            idle=call.time_ms - last.call.done_ms > self.options.lifetime_ms(model),
            model_changed=changed,
            percentage=0.0 if changed else 100 * last.charge.prompt_tokens / usable,
            threshold=self.options.threshold,
            queued=len(self.agent.outstanding) if self.agent is not None else 0,
            subagent=self.session.transcript.subagent,
            held=self.held,
            rendered=last.sent.head is not None,
            unserved=self.history.unserved,
            overweight=self._overweight(last.sent.head, usable),
        )

    def _overweight(self, head: Head | None, usable: int) -> bool:
        """The pressure backstop on the m[1] that is due (history-render section 5).

        The server renders dates and counts in calibrated tokens; a tenth is allowed for the first, a third
        for the second.
        """
        if head is None:
            return False
        count = self.session.book.text_tokens
        news = [
            f"## {row.start}-{row.end} · {escaped(row.title)}\n{escaped(row.p1)}"
            for row in self.history.news(head)
        ]
        m0, m1 = count(head.m0), count("\n\n".join(news))
        budget = usable * self.options.threshold / 100 * HISTORY_SHARE
        return m1 > 0.2 * budget * 2 / 3 or (m0 >= 500 and m1 > 0.15 * m0 * 0.9)

    def _remember(self, call: Call, answer: Answer, evidence: Evidence) -> None:
        if answer.report.get("level") != "defer":
            self.held = False
        elif evidence.any_cause:
            self.held = True
        if self.history.served and self.result.first_summary is None:
            self.result.first_summary = call.index

    def _front(self, system: bytes | None) -> Slice:
        """Tools and system as the model gets them: the recorded front, our tools, what the answer added."""
        added = max(0, self.session.book.text_tokens(system.decode()) - self.system_tokens) if system else 0
        digest = hashlib.sha256(b"front" + (system or b"")).digest()
        return Slice(digest, self.session.front.tokens + self.tool_tokens + added)

    def _reduce(self, call: Call) -> None:
        if self.agent is None or self.last is None or self.last.call is not call:
            return
        tags = self.agent.spent(call.index)
        if not tags:
            return
        key = f"{self.result.session_id}-reduce-{call.index}"
        refused = self.api.ctx_reduce(key, drop_argument(tags), rfc3339(call.done_ms))
        self.agent.mark(tags, accepted=refused is None)
        self.result.tool_calls += 1
        if refused is not None:
            detail = (
                refused if isinstance(refused, str) else f"{refused.status} {refused.code}: {refused.detail}"
            )
            self.result.problems.append(Problem("ctx_reduce_failed", call.index, detail))


def _faults(call: int, answer: Answer) -> list[Problem]:
    """What the server itself admits: a fault of its engine, an array replayed instead of computed."""
    problems = []
    if answer.report.get("fault"):
        problems.append(Problem("engine_fault", call, str(answer.report["fault"])))
    if answer.raw_from is not None:
        problems.append(
            Problem("last_good_replay", call, f"messages from {answer.raw_from} were returned raw")
        )
    for notice in answer.notices:
        if notice.get("level") == "error":
            code = str(notice.get("code") or "error_notice")
            problems.append(Problem(code, call, str(notice.get("text", ""))))
    return problems
