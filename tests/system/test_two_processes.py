"""Two server processes on one database (design section 5; reclaim-core section 12, case 60)."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx
import pytest

from tests.system.host import Host
from tests.system.servers import prepare, servers


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("home")
    return folder, prepare(folder)


def _client(key: str) -> httpx.Client:
    return httpx.Client(headers={"Authorization": f"Bearer {key}"}, timeout=60)


@pytest.mark.slow
def test_alternating_workers_decide_like_one(home: tuple[Path, str]) -> None:
    """Case 60: the same conversation through one worker and through two in turn, byte for byte."""
    folder, key = home
    with servers(folder, 2) as (one, two), _client(key) as client:
        alone = Host(client, one.url, "alone", 7)
        shared = Host(client, one.url, "shared", 7)
        for step in range(40):
            shared.base = (one, two)[step % 2].url
            for host in (alone, shared):
                host.step()
                spent = host.spent_tags(3)
                if len(spent) > 4:
                    assert host.reduce(spent).status_code == 200
                    host.queued.update(spent)
        assert alone.served == shared.served
        assert alone.levels == shared.levels
        assert set(alone.levels) > {"defer"}


@pytest.mark.slow
def test_racing_workers_never_give_two_answers_for_one_prefix(home: tuple[Path, str]) -> None:
    """Both workers get the same request at the same time: one wins, the other answers the same bytes."""
    folder, key = home
    with servers(folder, 2) as (one, two), _client(key) as client:
        host = Host(client, one.url, "raced", 3)
        host.accept(host.send())
        for _ in range(25):
            host.grow()
            body = host.body()
            answers: list[httpx.Response] = []

            def ask(url: str, body: bytes = body, answers: list[httpx.Response] = answers) -> None:
                with _client(key) as own:
                    answers.append(own.post(f"{url}/api/v1/sessions/custom/raced/transform", content=body))

            threads = [threading.Thread(target=ask, args=(server.url,)) for server in (one, two)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [answer.status_code for answer in answers] == [200, 200]
            first, second = (answer.json() for answer in answers)
            assert first["messages"] == second["messages"]
            busts = [a for a in (first, second) if a["pass"] and a["pass"]["level"] != "defer"]
            assert len(busts) <= 1, "one rebuild, however many asked"
            host.accept(answers[0] if first in busts or not busts else answers[1])


@pytest.mark.slow
def test_sixteen_sessions_at_once_lose_no_write_and_refuse_nothing(home: tuple[Path, str]) -> None:
    """Design section 10: 16 concurrent sessions, SQLite, one process."""
    folder, key = home
    with servers(folder, 1) as (server,):
        failures: list[str] = []

        def work(number: int) -> None:
            with _client(key) as client:
                host = Host(client, server.url, f"many{number}", number)
                try:
                    for _ in range(12):
                        host.step()
                except AssertionError as error:
                    failures.append(f"{number}: {error}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
