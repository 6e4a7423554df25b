"""A host, an administrator and a clock at one session, so that a test reads like what happened."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory_app.models import Memory, Project
from sessions_app import models
from sessions_app.services.cache import states
from sessions_app.services.heading import sources
from tests.api.conftest import Host, configured, host
from tests.api.test_memories_admin import Admin
from tests.transform.conftest import _no_cached_state, another, caller, make_key, prompt

__all__ = ["_no_cached_state", "another", "caller", "configured", "host", "make_key"]

IDENTITY = "git:" + "a" * 40
START = datetime(2026, 11, 30, 12, tzinfo=UTC)
PLACEHOLDER = "(no new content since last materialization)"

LOW = 20_000
HIGH = 150_000
"""Prompt tokens below and above the execute threshold of a window of 200,000."""


@dataclass
class Served:
    """One answer, as its parts."""

    json: dict[str, Any]
    m0: str
    m1: str
    tail: list[Any]
    """The conversation without the head."""

    @property
    def level(self) -> str:
        return str(self.json["pass"]["level"])

    @property
    def permitted(self) -> str:
        return str(self.json["pass"]["permitted"])

    @property
    def reasons(self) -> list[str]:
        return list(self.json["pass"]["reasons"])

    @property
    def head(self) -> tuple[str, str]:
        return self.m0, self.m1

    @property
    def bytes(self) -> list[Any]:
        """Everything that was sent, for comparing."""
        return list(self.json["messages"])

    def begins_like(self, before: Served) -> bool:
        """Whether nothing changed that was sent before."""
        return self.bytes[: len(before.bytes)] == before.bytes


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


def served(answer: dict[str, Any]) -> Served:
    heads = ["", ""]
    tail = []
    for message in answer["messages"]:
        text = json.dumps(message)
        if "<session-history-since>" in text:
            heads[1] = text_of(message)
        elif "<session-history>" in text:
            heads[0] = text_of(message)
        else:
            tail.append(message)
    return Served(answer, heads[0], heads[1], tail)


@dataclass
class Desk:
    """``array`` is the host's whole conversation.  A response takes five seconds, and the next request comes
    five seconds later."""

    host: Host
    admin: Admin
    array: list[Any] = field(default_factory=list)
    now: datetime = START
    members: dict[str, Any] = field(default_factory=lambda: {"project": {"identity": IDENTITY}})

    @property
    def session(self) -> models.Session:
        return self.host.session

    @property
    def state(self) -> models.HeadState:
        return models.HeadState.objects.get(session=self.session)

    @property
    def project(self) -> Project:
        return Project.objects.get(identity=IDENTITY, owner=self.admin.owner)

    def wait(self, **span: float) -> None:
        self.now += timedelta(**span)

    @property
    def at(self) -> str:
        return self.now.isoformat().replace("+00:00", "Z")

    def say(self, *messages: Any) -> None:
        self.array += messages or [prompt(f"step {len(self.array)}")]

    def send(self, **members: Any) -> Any:
        """The raw answer to the array as it is."""
        self.wait(seconds=5)
        return self.host.caller.transform(self.array, **{"at": self.at, **self.members, **members})

    def serve(self, used: int | None = None, **members: Any) -> Served:
        """A pass; ``used`` tokens are what the newest response was measured at."""
        if used is not None:
            self.wait(seconds=5)
            members["usage"] = {"input_tokens": used, "completed_at": self.at}
        answer = self.send(**members)
        assert answer.status_code == 200, answer.content[:800]
        return served(answer.json())

    def step(self, used: int = LOW, **members: Any) -> Served:
        """The agent took a step: two more messages, a response behind them, and a pass."""
        number = len(self.array)
        self.say({"role": "assistant", "content": f"answer {number}"}, prompt(f"step {number + 1}"))
        return self.serve(used, **members)

    def publish(self, start: int, end: int, p1: str = "did it", **more: Any) -> dict[str, Any]:
        row = {"start": start, "end": end, "title": f"T{start}", "p1": p1, **more}
        facts = {"facts": row.pop("facts")} if "facts" in row else {}
        answer = self.admin.post(
            "compartments/", {"session": str(self.session), "compartments": [row], **facts}
        )
        assert answer.status_code == 201, answer.content
        first: dict[str, Any] = answer.json()["compartments"][0]
        return first

    def remember(self, content: str, category: str = "CONSTRAINTS", **fields: Any) -> int:
        """A memory; what the API does not set is set on its row."""
        number = self.admin.memory(self.project, content, category)
        if fields:
            Memory.objects.filter(pk=number).update(**fields)
        return number

    def flush(self) -> str:
        answer = self.host.command("flush")
        assert answer.status_code == 200, answer.content
        return str(answer.json()["text"])

    def event(self, type: str, **members: Any) -> dict[str, Any]:
        """One event at this moment."""
        self.wait(seconds=1)
        item = {"type": type, "event_id": f"e{self.now.timestamp()}", **members}
        answer = self.host.caller.post("events", {"events": [item], "at": self.at})
        assert answer.status_code == 202, answer.content
        result: dict[str, Any] = answer.json()["results"][0]
        return result


def restart() -> None:
    """The process ends and another begins: every cache is gone, the rows stay."""
    states.clear()
    sources.clear()


@pytest.fixture
def desk(host: Host) -> Desk:
    """Ten messages, prompts at odd and answers at even ordinals, served once, and a response."""
    desk = Desk(host, Admin())
    for number in range(1, 10):
        role = "user" if number % 2 else "assistant"
        desk.say({"role": role, "content": f"message {number}"})
    desk.serve()
    desk.step()
    return desk
