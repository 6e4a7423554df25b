"""A key, and a caller that speaks to the transform address as a host does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from magiccontext.engine.wire.spans import read_array, split_body
from sessions_app.models import HostKey
from sessions_app.services.cache import states


@dataclass
class Caller:
    """Posts transforms for one session id with one key."""

    key: str
    sid: str = "s1"
    harness: str = "custom"

    def post(self, path: str, data: bytes | dict[str, Any], **headers: str) -> Any:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        return Client().post(
            f"/api/v1/sessions/{self.harness}/{self.sid}/{path}",
            data=body,
            content_type="application/json",
            HTTP_AUTHORIZATION=f"Bearer {self.key}",
            HTTP_HOST="127.0.0.1",
            **{f"HTTP_{name.upper()}": value for name, value in headers.items()},
        )

    def transform(
        self, messages: list[Any] | bytes, *, headers: dict[str, str] | None = None, **members: Any
    ) -> Any:
        raw = messages if isinstance(messages, bytes) else json.dumps(messages).encode()
        head = {
            "format": "anthropic",
            "model": "anthropic/claude-sonnet-4-5",
            "context_limit": 200_000,
            **members,
        }
        return self.post(
            "transform", json.dumps(head)[:-1].encode() + b',"messages":' + raw + b"}", **(headers or {})
        )

    def head(self, answer: Any) -> list[Any]:
        """m[0] and m[1] of an answer, decoded."""
        return [json.loads(raw) for raw in self.whole(answer) if _is_head(raw)]

    def messages(self, answer: Any) -> list[Any]:
        """The conversation in an answer, without the head, decoded."""
        return [json.loads(raw) for raw in self.slices(answer)]

    def slices(self, answer: Any) -> list[bytes]:
        """The conversation in an answer, without the head, as bytes."""
        return [raw for raw in self.whole(answer) if not _is_head(raw)]

    def whole(self, answer: Any) -> list[bytes]:
        assert answer.status_code == 200, answer.content[:500]
        return read_array(split_body(answer.content)["messages"])


def _is_head(raw: bytes) -> bool:
    return b"<session-history>" in raw or b"<session-history-since>" in raw


def make_key(name: str, *scopes: str, harnesses: list[str] | None = None) -> str:
    user, _ = get_user_model().objects.get_or_create(username=name)
    _, key = HostKey.objects.create_key(
        name=name, owner=user, scopes=list(scopes) or ["host"], harnesses=harnesses or []
    )
    return str(key)


@pytest.fixture(autouse=True)
def _no_cached_state() -> None:
    states.clear()


@pytest.fixture
def caller(db: None) -> Caller:
    return Caller(make_key("ada", "host", "replay"))


@pytest.fixture
def another(db: None) -> Callable[..., Caller]:
    """A caller with another owner's key."""

    def make(name: str = "bob", *scopes: str, **more: Any) -> Caller:
        return Caller(make_key(name, *scopes, **more))

    return make


def call(index: int, name: str = "bash", **arguments: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": f"c{index}", "name": name, "input": arguments or {"n": index}}
        ],
    }


def result(index: int, output: Any = "done") -> dict[str, Any]:
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": f"c{index}", "content": output}],
    }


def prompt(text: str = "please") -> dict[str, Any]:
    return {"role": "user", "content": text}


def exchange(count: int, size: int = 400) -> list[dict[str, Any]]:
    """A prompt and ``count`` steps with results of ``size`` characters."""
    messages = [prompt()]
    for index in range(count):
        messages += [call(index), result(index, f"line {index} " * (size // 7))]
    return messages
