"""A host as the tests play one: it keeps its own conversation and checks every answer it gets.

It believes nothing: what was answered for a message once must be answered for it again, byte for byte,
unless the pass says that it rebuilt.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

import httpx

from magiccontext.engine.wire.spans import read_array, split_body

MODEL = "anthropic/claude-sonnet-4-5"


@dataclass
class Host:
    """One conversation.  ``seed`` makes its content; ``served`` is the last array it was answered."""

    client: httpx.Client
    base: str
    sid: str
    seed: int
    limit: int = 40_000
    messages: list[bytes] = field(default_factory=list)
    served: list[bytes] = field(default_factory=list)
    levels: list[str] = field(default_factory=list)
    queued: set[int] = field(default_factory=set)
    last_tag: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.steps = 0
        self.messages.append(_message("user", f"Please look after part {self.seed} of the project."))

    @property
    def url(self) -> str:
        return f"{self.base}/api/v1/sessions/custom/{self.sid}"

    def grow(self) -> None:
        """One step: an assistant message with a call, and its result."""
        self.steps += 1
        call = f"call_{self.seed}_{self.steps}"
        self.messages.append(
            _message(
                "assistant",
                [
                    {"type": "text", "text": f"Step {self.steps}."},
                    {
                        "type": "tool_use",
                        "id": call,
                        "name": "bash",
                        "input": {"command": "x" * self.random.choice((20, 2000))},
                    },
                ],
            )
        )
        output = f"result {self.steps} " * self.random.randint(20, 400)
        self.messages.append(
            _message("user", [{"type": "tool_result", "tool_use_id": call, "content": output}])
        )

    def body(self, **more: object) -> bytes:
        head = {
            "format": "anthropic",
            "model": MODEL,
            "context_limit": self.limit,
            "capabilities": {"tools": ["ctx_reduce", "ctx_expand"]},
            **more,
        }
        if self.served:
            size = sum(map(len, self.served)) // 4 + 2_000
            head["usage"] = {"input_tokens": size, "output_tokens": 50}
        return json.dumps(head)[:-1].encode() + b',"messages":[' + b",".join(self.messages) + b"]}"

    def send(self, *, key: str = "", **more: object) -> httpx.Response:
        headers = {"Idempotency-Key": key} if key else {}
        return self.client.post(f"{self.url}/transform", content=self.body(**more), headers=headers)

    def accept(self, answer: httpx.Response) -> dict[str, object]:
        """Check an answer against everything answered before, and keep it."""
        assert answer.status_code == 200, answer.text[:500]
        members = split_body(answer.content)
        served = read_array(members["messages"])
        decided = json.loads(members["pass"]) if "pass" in members else None
        level = decided["level"] if decided else "replay"
        if level in ("defer", "replay"):
            assert served[: len(self.served)] == self.served, f"{self.sid}: a {level} pass changed sent bytes"
        self.served = served
        self.levels.append(level)
        self._check_tags()
        return decided or {}

    def _check_tags(self) -> None:
        for raw in self.served:
            message = json.loads(raw)
            parts = message["content"]
            texts = (
                [parts]
                if isinstance(parts, str)
                else [p.get("text") or p.get("content") or "" for p in parts]
            )
            for text in texts:
                if isinstance(text, str) and text.startswith("§"):
                    self.last_tag = max(self.last_tag, int(text[1:].split("§")[0]))

    def step(self) -> None:
        self.grow()
        self.accept(self.send())

    def spent_tags(self, keep: int) -> list[int]:
        """Tags of the tool results that are still shown in full, but for the newest ``keep``."""
        found = []
        for raw in self.served:
            message = json.loads(raw)
            for part in message["content"] if isinstance(message["content"], list) else []:
                if part["type"] == "tool_result" and part["content"].startswith("§"):
                    found.append(int(part["content"][1:].split("§")[0]))
        return [number for number in found[:-keep] if number not in self.queued]

    def reduce(self, numbers: list[int]) -> httpx.Response:
        return self.client.post(f"{self.url}/tools/ctx_reduce", json={"drop": ",".join(map(str, numbers))})


def _message(role: str, content: object) -> bytes:
    return json.dumps({"role": role, "content": content}, separators=(",", ":"), ensure_ascii=False).encode()
