"""Building blocks of the replay tests: tiny transcripts and a server that keeps the contract, or lies.

The server is small and honest by default: it tags tool results, queues `ctx_reduce`, and lands what is queued
when usage or an idle gap allows it. A test makes it lie by changing an answer on its way out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import httpx

from magiccontext.replay.assemble import Assembly
from magiccontext.replay.transcript import Transcript, Usage

START_MS = 1_767_225_600_000
Json = dict[str, Any]
Lie = Callable[[int, Json], None]


def count_characters(texts: Sequence[str]) -> list[int]:
    """A token counter for sums by hand: one token a character."""
    return [len(text) for text in texts]


def conversation(
    calls: int,
    *,
    result_size: int = 100,
    gaps_s: dict[int, int] | None = None,
    models: dict[int, str] | None = None,
    subagent: bool = False,
    prompt_every: int = 4,
) -> Transcript:
    """`calls` calls, 10 seconds apart: each reads one file; the person speaks before every fourth
    and after every longer pause.

    `gaps_s`: longer pauses before a call, in seconds. `models`: the model from a call on.
    """
    assembly = Assembly(merge_user=False)
    clock, model = START_MS, "anthropic/claude-sonnet-4-5"
    for number in range(calls):
        clock += 1000 * (gaps_s or {}).get(number, 10)
        model = (models or {}).get(number, model)
        if number % prompt_every == 0 or number in (gaps_s or {}):
            assembly.said(f"Question {number}: what is in the files?", clock)
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {"n": number}}
        assembly.answered(
            [{"type": "text", "text": f"Reading {number}."}, block], clock + 1000, model, Usage(1, 2, 3, 4)
        )
        output = f"<{number}>" + "x" * result_size
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": output}
        assembly.returned(f"toolu_{number}", result, clock + 2000)
    return assembly.build(source_format="test", session_id="s", subagent=subagent)


class FakeServer:
    """The calls of one session, over an in-process transport: transform, `ctx_reduce`, publications.

    It has a head, folds it when the cache is lost, and takes publications into m[1] above the threshold.
    """

    def __init__(self, lie: Lie | None = None) -> None:
        self.tool_error = ""
        self.publish_error = ""
        self.lie = lie or (lambda call, answer: None)
        self.calls = 0
        self.bodies: list[Json] = []
        self.drops: list[str] = []
        self.raw: list[Json] = []
        self.tail: list[tuple[int, Json]] = []
        self.known = 0
        self.published: list[Json] = []
        self.baseline: list[Json] = []
        self.news: list[Json] = []
        self.model = ""
        self.queued: list[int] = []
        self.tags: dict[str, int] = {}

    def client(self) -> httpx.Client:
        return httpx.Client(base_url="http://fake", transport=httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if request.url.path == "/api/v1/compartments/":
            if self.publish_error:
                return httpx.Response(422, json={"code": "invalid_params", "detail": self.publish_error})
            self.published.extend(body["compartments"])
            return httpx.Response(201, json={"compartments": [], "facts": []})
        if request.url.path.endswith("/tools/ctx_reduce"):
            self.drops.append(body["drop"])
            if self.tool_error:
                return httpx.Response(200, json={"content": self.tool_error, "is_error": True})
            for item in body["drop"].split(","):
                first, _, last = item.partition("-")
                self.queued.extend(range(int(first), int(last or first) + 1))
            return httpx.Response(200, json={"content": "Queued", "is_error": False, "data": {}})
        self.bodies.append(body)
        answer = self._pass(body)
        self.lie(self.calls, answer)
        self.calls += 1
        if "status" in answer:
            return httpx.Response(answer["status"], json=answer)
        self._stand_by(answer["messages"], 0 if body["subagent"] else 2)
        return httpx.Response(200, json=answer)

    def _stand_by(self, sent: list[Json], head: int) -> None:
        """What was said once is repeated in later answers, lie or not."""
        ordinals = {id(message): ordinal for ordinal, message in self.tail}
        self.tail, ordinal = [], 0
        for message in sent[head:]:
            ordinal = ordinals.get(id(message), ordinal + 1)
            self.tail.append((ordinal, message))

    def _pass(self, body: Json) -> Json:
        base = body.get("sync", {}).get("base", {}).get("count", 0)
        self.raw = self.raw[:base] + body["messages"]
        self.tail += [
            (ordinal, self._tagged(message))
            for ordinal, message in enumerate(self.raw, 1)
            if ordinal > self.known
        ]
        self.known = len(self.raw)
        level, reasons = self._rebuild(body)
        head = [] if body["subagent"] else head_messages(self.baseline, self.news)
        return {
            "messages": [*head, *(message for _, message in self.tail)],
            "system": body.get("system"),
            "pass": {"id": self.calls + 1, "level": level, "permitted": level, "reasons": reasons},
            "view_version": self.calls + 1,
            "raw_from": None,
            "chain": f"sha256:{len(self.raw)}",
            "notices": [],
        }

    def _rebuild(self, body: Json) -> tuple[str, list[str]]:
        """What this pass may change, changed; the level and reasons it has for that."""
        usage = body.get("usage")
        model, self.model = self.model, body["model"]
        if not usage:
            return ("defer", []) if body["subagent"] else ("hard", ["first_render"])
        prompt = sum(usage[k] for k in usage if k.endswith("input_tokens"))
        idle = _ms(body["at"]) - _ms(usage["completed_at"]) > 300_000
        changed = model != body["model"]
        full = not changed and prompt / body["context_limit"] >= 0.65
        before = (list(self.baseline), list(self.news))
        reasons = []
        if changed or idle:
            self.baseline, self.news = list(self.published), []
            reasons = ["model_change"] if changed else ["ttl_idle", "ttl_expiry"]
        elif full:
            self.news = self.published[len(self.baseline) :]
            reasons = ["m1_delta"] if self.news != before[1] else []
        level = "hard" if self.baseline != before[0] else "soft" if self.news != before[1] else "defer"
        if level == "defer" and not self.queued:
            return "defer", []
        if self.queued and (full or idle):
            self.tail = [(ordinal, self._dropped(message)) for ordinal, message in self.tail]
            self.queued = []
            level = "soft_plus" if level == "defer" else level
            reasons = reasons or ["queued_drops"]
        cut = max((row["end"] for row in (*self.baseline, *self.news)), default=0)
        self.tail = [(ordinal, message) for ordinal, message in self.tail if ordinal > cut]
        return level, reasons if level != "defer" else []

    def _tagged(self, message: Json) -> Json:
        copy = json.loads(json.dumps(message))
        for block in copy["content"] if isinstance(copy["content"], list) else []:
            if block["type"] == "tool_result":
                tag = self.tags.setdefault(block["tool_use_id"], len(self.tags) + 1)
                block["content"] = f"§{tag}§ {block['content']}"
        return copy

    def _dropped(self, message: Json) -> Json:
        copy = json.loads(json.dumps(message))
        for block in copy["content"] if isinstance(copy["content"], list) else []:
            tag = self.tags.get(block.get("tool_use_id", ""))
            if block["type"] == "tool_result" and tag in self.queued:
                block["content"] = f"[dropped §{tag}§]"
        return copy


def head_messages(baseline: Sequence[Json], news: Sequence[Json]) -> list[Json]:
    """m[0] and m[1] with these compartments at tier 1 (history-render sections 1 and 2)."""

    def rows(compartments: Sequence[Json]) -> str:
        return "\n\n".join(f"## {c['start']}-{c['end']} · {c['title']}\n{c['p1']}" for c in compartments)

    m0 = f"\n{rows(baseline)}\n" if baseline else ""
    m1 = f"\n<new-compartments>\n{rows(news)}\n</new-compartments>\n" if news else "(nothing new)"
    return [
        {"role": "user", "content": f"<session-history>{m0}</session-history>"},
        {"role": "user", "content": f"<session-history-since>{m1}</session-history-since>"},
    ]


def _ms(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() * 1000
