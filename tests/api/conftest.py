"""A host as the tests of tools, events and commands see it: it serves passes and speaks to the other
addresses of its session."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from magiccontext.config import files
from sessions_app import models
from tests.transform.conftest import Caller, _no_cached_state, another, caller, make_key

__all__ = ["_no_cached_state", "another", "caller", "make_key"]

START = "2026-11-30T12:00:{:02d}Z"


class Host:
    """Posts to one session.  ``at`` is given in seconds of the same minute."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    @property
    def session(self) -> models.Session:
        return models.Session.objects.get(sid=self.caller.sid, owner__username="ada")

    def serve(self, messages: list[Any], at: int = 0, **members: Any) -> Any:
        answer = self.caller.transform(messages, at=START.format(at), **members)
        assert answer.status_code == 200, answer.content[:500]
        return answer.json()

    def tool(self, name: str, /, **arguments: Any) -> Any:
        return self.caller.post(f"tools/{name}", arguments)

    def reduce(self, drop: Any, **more: Any) -> dict[str, Any]:
        answer = self.tool("ctx_reduce", drop=drop, **more)
        assert answer.status_code == 200, answer.content
        body: dict[str, Any] = answer.json()
        return body

    def expand(self, **arguments: Any) -> dict[str, Any]:
        answer = self.tool("ctx_expand", **arguments)
        assert answer.status_code == 200, answer.content
        body: dict[str, Any] = answer.json()
        return body

    def events(self, *events: dict[str, Any], **headers: str) -> Any:
        return self.caller.post("events", json.dumps(list(events)).encode(), **headers)

    def event(self, type: str, event_id: str = "e1", **members: Any) -> dict[str, Any]:
        """Send one event and give its result."""
        answer = self.events({"type": type, "event_id": event_id, **members})
        assert answer.status_code == 202, answer.content
        result: dict[str, Any] = answer.json()["results"][0]
        return result

    def command(self, name: str, /, **arguments: Any) -> Any:
        return self.caller.post(f"commands/{name}", arguments)


@pytest.fixture
def host(caller: Caller) -> Host:
    return Host(caller)


def get(key: str, path: str, **query: Any) -> Any:
    return Client().get(f"/api/v1/{path}", query, headers={"Authorization": f"Bearer {key}"})


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives the person a configuration of their own."""

    def write(**members: Any) -> None:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        path = files.find_file(files.user_config_base({"XDG_CONFIG_HOME": str(tmp_path)}, tmp_path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(members))

    return write


@contextmanager
def locked() -> Iterator[None]:
    """Somebody else writes to the database all the while."""
    if connection.vendor != "sqlite":
        pytest.skip("a second writer is simulated on SQLite only")
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()
