"""The bench's side of the API: raw bodies, and only what a measurement needs of the answers."""

from __future__ import annotations

import json
from typing import Any

import httpx

MODEL = "anthropic/claude-sonnet-4-5"
WINDOW = 10_000_000
"""Tokens; so large that nothing but the array decides."""

JSON_TYPE = {"Content-Type": "application/json"}


class BenchError(RuntimeError):
    """An answer was not what is measured."""


def body(messages: list[bytes], *, model: str = MODEL, members: bytes = b"") -> bytes:
    """A transform request; ``members`` are further members of it, each with a comma behind."""
    return (
        b'{%s"format":"anthropic","model":"%s","context_limit":%d,"capabilities":{"tools":["ctx_reduce"]},'
        b'"messages":[%s]}' % (members, model.encode(), WINDOW, b",".join(messages))
    )


def post(client: httpx.Client, url: str, content: bytes) -> httpx.Response:
    """The answer to a request that must succeed.  Raises BenchError."""
    answer = client.post(url, content=content, headers=JSON_TYPE)
    if answer.status_code >= 300:
        raise BenchError(f"{url} answered {answer.status_code}: {answer.text[:300]}")
    return answer


def level(answer: httpx.Response) -> str:
    return str(json.loads(answer.content)["pass"]["level"])


def created(client: httpx.Client, url: str, value: Any) -> Any:
    """What the admin API made of ``value``."""
    return json.loads(post(client, url, json.dumps(value).encode()).content)


def only_level(seen: set[str], wanted: str) -> None:
    """Raises BenchError when passes were not all of the level that is measured."""
    if seen != {wanted}:
        raise BenchError(f"expected {wanted} passes only, got {sorted(seen)}")
