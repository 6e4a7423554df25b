"""kill -9 in the middle of passes (design section 5; reclaim-core section 12, cases 3, 8, 60).

A client keeps passing and marking while the server is killed at a moment of chance and started again.
Afterwards: what was served once is served with the same bytes, no tag number meant two things, no
acknowledged mark is lost.
"""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.system.host import Host
from tests.system.servers import Server, prepare

KILLS = 50


@pytest.mark.slow
def test_fifty_kills_change_no_sent_byte_and_lose_no_mark(tmp_path: Path) -> None:
    key = prepare(tmp_path)
    server = Server(tmp_path)
    server.start()
    chance = random.Random(20261130)
    client = httpx.Client(headers={"Authorization": f"Bearer {key}"}, timeout=30)
    hosts = [Host(client, server.url, f"s{n}", n) for n in range(3)]
    interrupted = 0
    try:
        for _ in range(KILLS):
            for host in hosts:
                host.base = server.url
            delay = chance.uniform(0.0, 0.25)
            killer = threading.Thread(target=_kill_after, args=(server, delay))
            killer.start()
            interrupted += _work_until_killed(hosts, chance)
            killer.join()
            server.start()
            for host in hosts:
                host.base = server.url
                # The same request again: whatever was committed without an answer must not show.
                host.accept(host.send())
        assert interrupted >= KILLS // 2, "the kills must hit requests under way"
        assert {"defer"} < {level for host in hosts for level in host.levels}, "rebuilds must have happened"
    finally:
        server.stop()
        client.close()
    _check_rows(tmp_path / "db.sqlite3", hosts)


def _kill_after(server: Server, delay: float) -> None:
    time.sleep(delay)
    server.kill()


def _work_until_killed(hosts: list[Host], chance: random.Random) -> int:
    """Pass and mark until the connection breaks; 1 when a request was under way then."""
    while True:
        host = chance.choice(hosts)
        try:
            host.step()
            spent = host.spent_tags(3)
            if len(spent) > 3:
                answer = host.reduce(spent)
                assert answer.status_code == 200, answer.text
                assert not answer.json()["is_error"], answer.json()
                host.queued.update(spent)
        except httpx.TransportError:
            return 1


def _check_rows(database: Path, hosts: list[Host]) -> None:
    rows = sqlite3.connect(database)
    for host in hosts:
        (session,) = rows.execute("select id from sessions_app_session where sid = ?", (host.sid,)).fetchone()
        numbers = [
            n for (n,) in rows.execute("select number from sessions_app_tag where session_id = ?", (session,))
        ]
        assert len(numbers) == len(set(numbers))
        assert max(numbers) >= host.last_tag
        dropped = {
            n
            for (n,) in rows.execute(
                "select number from sessions_app_tag where session_id = ? and status = 'dropped'", (session,)
            )
        }
        waiting = {
            n
            for (n,) in rows.execute(
                "select number from sessions_app_pendingdrop where session_id = ?", (session,)
            )
        }
        assert host.queued <= dropped | waiting, "an acknowledged mark was lost"
        versions = [
            (mid, since)
            for mid, since in rows.execute(
                "select mid, since_version from sessions_app_servedform where session_id = ?", (session,)
            )
        ]
        assert len(versions) == len(set(versions))
    assert rows.execute("pragma integrity_check").fetchone() == ("ok",)
    rows.close()
