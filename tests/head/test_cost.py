"""What a pass asks the database for (design section 10: most passes only replay)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app import models
from sessions_app.services import transform as service
from tests.head.conftest import HIGH, Desk, restart, served
from tests.transform.test_storage_busy import locked

KNOWLEDGE = ("memory_app_memory", "memory_app_usermemory", "memory_app_workspace", "sessions_app_compartment")


def asked(work: Callable[[], object]) -> list[str]:
    with CaptureQueriesContext(connection) as seen:
        work()
    return [query["sql"] for query in seen.captured_queries]


def about(queries: list[str], *tables: str) -> list[str]:
    return [sql for sql in queries if any(f'"{table}' in sql for table in tables)]


@pytest.fixture
def settled(desk: Desk) -> Iterator[Desk]:
    """A session with a head, whose snapshot and source are in memory, and whose key was noted as seen."""
    desk.remember("tabs")
    desk.publish(1, 4)
    desk.step(HIGH)
    desk.step()
    desk.step()
    yield desk


@pytest.mark.django_db
def test_a_defer_pass_reads_no_knowledge(settled: Desk) -> None:
    queries = asked(settled.step)
    assert about(queries, *KNOWLEDGE, "sessions_app_headstate", "sessions_app_directive") == []
    # The key with its owner, the session, the revision, and under the lock the version.
    reads = [sql for sql in queries if sql.startswith("SELECT")]
    assert len(reads) <= 4, "\n".join(reads)
    assert len(queries) <= 13, "\n".join(queries)


@pytest.mark.django_db
def test_a_longer_history_makes_a_defer_pass_no_dearer(settled: Desk) -> None:
    few = len(asked(settled.step))
    for number in range(20):
        settled.remember(f"fact {number}")
    settled.publish(5, 6)
    settled.step(HIGH)
    settled.step()
    assert len(asked(settled.step)) == few


@pytest.mark.django_db
def test_the_source_is_read_again_when_knowledge_or_history_moved(settled: Desk) -> None:
    desk = settled
    for change in (lambda: desk.remember("ports"), lambda: desk.publish(5, 6), restart):
        change()
        assert about(asked(desk.step), "memory_app_memory", "sessions_app_compartment")
        assert about(asked(desk.step), *KNOWLEDGE) == []


@pytest.mark.django_db
def test_a_host_that_takes_markers_pays_one_look_for_them(settled: Desk) -> None:
    before = len(asked(settled.step))
    settled.members["capabilities"] = {"compaction_marker": True}
    settled.step()
    assert len(asked(settled.step)) == before + 1


@pytest.mark.django_db(transaction=True)
def test_the_last_good_request_has_the_head_it_had(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """reclaim-core 9.3: with the writer away, the last view is served, its head and its cut included."""
    monkeypatch.setattr(service, "WRITER_WAITS", (0.0, 0.0))
    desk.publish(1, 4)
    taken = desk.step(HIGH)
    desk.step()
    desk.publish(5, 6)
    for again in (False, True):
        if again:
            restart()
        with locked(monkeypatch):
            desk.say({"role": "assistant", "content": "more"}, {"role": "user", "content": "and more"})
            replay = served(desk.send().json())
        assert replay.json["outcome"] == "replay"
        assert replay.head == taken.head
        assert replay.begins_like(taken)
        assert "T5" not in json.dumps(replay.bytes)
    after = desk.step(HIGH)
    assert "T5" in after.m1
    assert models.HeadState.objects.count() == 1
