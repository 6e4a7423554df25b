"""The real server, started for one run and played through its public API."""

from pathlib import Path

import httpx
import pytest

from magiccontext.replay.run import RunOptions, api_client, replay
from magiccontext.replay.server import StartError, private_server, running_server
from tests.replay.replay_fake import conversation, count_characters


def test_it_starts_plays_a_session_and_leaves_nothing_behind() -> None:
    with private_server() as server:
        home = Path(server.environment["MAGIC_CONTEXT_HOME"])
        assert home.is_dir()
        assert any("password" in line for line in server.said)
        with api_client(server.url, server.key("replay")) as client:
            run = RunOptions(policies=("managed",))
            result = replay("s", conversation(8), run, count_characters, client)
    assert result.problems == []
    assert result.totals()["managed"].calls == 8
    assert server.process.returncode == 0
    assert not home.exists()
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"{server.url}/readyz", trust_env=False)


def test_a_server_that_cannot_start_says_so(tmp_path: Path) -> None:
    occupied = tmp_path / "home"
    occupied.write_text("a file where a folder should be")
    with (
        pytest.raises(StartError, match="ended at once"),
        running_server(extra={"MAGIC_CONTEXT_HOME": str(occupied)}),
    ):
        pytest.fail("it started")
