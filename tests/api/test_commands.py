"""Commands of a person (dashboard-cli sections 5.1 and 6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sessions_app import models
from tests.api.conftest import START, Host
from tests.transform.conftest import Caller, exchange


def test_flush_lands_what_is_queued(host: Host) -> None:
    messages = exchange(8, size=20_000)
    host.serve(messages)
    host.reduce("1-2")
    answer = host.command("flush")
    assert answer.status_code == 200
    assert answer.json() == {
        "text": "Flushed: 2 dropped. Changes take effect on next message.",
        "data": {"available": True, "drops": 2},
    }
    # The command itself changes no status (reclaim-core 5.2).
    assert models.Tag.objects.filter(status="dropped").count() == 0
    body = host.serve(messages, at=1)
    assert "explicit_flush" in body["pass"]["reasons"]
    assert models.Tag.objects.filter(status="dropped").count() >= 2
    assert host.session.vars().flush == ""


def test_flush_with_nothing_queued_still_stands(host: Host) -> None:
    host.serve(exchange(2))
    assert host.command("flush").json()["text"] == "No pending operations to flush."
    assert host.session.vars().flush == "explicit"


def test_flush_with_compaction_off(host: Host, configured: Callable[..., None]) -> None:
    configured(compaction={"enabled": False})
    host.serve(exchange(1))
    version = host.session.version
    assert host.command("flush").json()["text"] == (
        "Unavailable: magic-context is in compaction-off mode (compaction.enabled=false)."
    )
    assert host.session.version == version


def test_status_says_how_things_are(host: Host) -> None:
    messages = exchange(8, size=20_000)
    host.serve(messages)
    host.event("response", usage={"input_tokens": 50_000, "output_tokens": 1}, completed_at=START.format(1))
    host.serve(messages, at=2)
    host.reduce("1")
    body = host.command("status", at=START.format(31)).json()
    data = body["data"]
    assert data["tags"]["active"] == data["tags"]["total"] == 9
    assert (data["pending"], data["usage"]["input_tokens"]) == (1, 50_000)
    assert data["cache_ttl"] == {
        "configured": "5m",
        "ms": 300_000,
        "last_response": "2026-11-30T12:00:01+00:00",
        "remaining_ms": 270_000,
        "auto_execute": "at TTL or ≥65%",
    }
    text = body["text"]
    assert text.startswith(f"Context: {data['usage']['percent']:.1f}% of ")
    for row in ("  Active: 9 (~", "  Execute threshold: 65%", "  Drops: 1", "  Remaining: 270 s"):
        assert row in text


def test_status_after_the_lifetime(host: Host) -> None:
    host.serve(exchange(1))
    host.event("response", usage={"input_tokens": 50}, completed_at=START.format(1))
    body = host.command("status", at="2026-11-30T13:00:00Z").json()
    assert body["data"]["cache_ttl"]["remaining_ms"] == 0
    assert "Auto-execute: yes (expired)" in body["text"]


def test_status_of_a_cache_that_never_expires(host: Host, configured: Callable[..., None]) -> None:
    configured(cache_ttl="never", execute_threshold_percentage=70)
    host.serve(exchange(1))
    body = host.command("status").json()
    assert body["data"]["cache_ttl"]["ms"] == -1
    assert "Auto-execute: at ≥70%" in body["text"] and "Remaining" not in body["text"]


def test_status_with_compaction_off(host: Host, configured: Callable[..., None]) -> None:
    configured(compaction={"enabled": False})
    host.serve(exchange(1))
    assert host.command("status").json()["text"] == "Context: unknown · native compaction"


def test_diagnostics_show_the_last_pass(host: Host) -> None:
    served = host.serve(exchange(1))
    text = host.command("status", diagnostics=True).json()["text"]
    assert f"Last pass: {served['pass']['id']}, hard (first_render)" in text


def test_an_unknown_command_names_the_known_ones(host: Host) -> None:
    host.serve(exchange(1))
    answer = host.command("explode")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "flush, status" in answer.json()["detail"]


def test_a_session_that_is_not_there(host: Host, another: Callable[..., Caller]) -> None:
    host.serve(exchange(1))
    assert another("bob").post("commands/flush", {}).json()["code"] == "unknown_session"
    assert host.session.vars().flush == ""


def test_a_repeated_flush_is_one(host: Host) -> None:
    host.serve(exchange(4, size=20_000))
    host.reduce("1")
    first = host.caller.post("commands/flush", b"", IDEMPOTENCY_KEY="k")
    version = host.session.version
    assert host.caller.post("commands/flush", b"", IDEMPOTENCY_KEY="k").content == first.content
    assert host.session.version == version


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"confirm": 7}'])
def test_a_body_that_does_not_fit(host: Host, body: bytes) -> None:
    host.serve(exchange(1))
    assert host.caller.post("commands/status", body).status_code == 422
