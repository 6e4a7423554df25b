"""`manage.py replay` without a server: options, the table, the JSON. (The managed run has its own tests.)"""

import io
import json
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from rich.console import Console

from magiccontext.replay.run import RunOptions, replay
from magiccontext.replay.table import show
from tests.replay.replay_fake import FakeServer, conversation, count_characters


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "request.json"
    turns = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hello to you"},
        {"role": "user", "content": "and again"},
    ]
    path.write_text(json.dumps({"model": "claude-x", "messages": turns}))
    return path


def test_it_measures_the_simple_policies_and_writes_every_call(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    chosen = ["--policy", "unmanaged", "--policy", "sliding"]
    call_command("replay", str(recording), *chosen, "--limit", "100000", "--json", str(out))
    (result,) = json.loads(out.read_text())
    assert set(result["policies"]) == {"unmanaged", "sliding"}
    assert [row["outcome"] for row in result["policies"]["sliding"]["calls"]] == ["first", "hit"]
    assert result["policies"]["sliding"]["cost_against_unmanaged"] == 1.0
    assert result["problems"] == []
    shown = capsys.readouterr().out
    assert "unmanaged" in shown and "100.0%" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["--limit", "10"],
        ["--reduce", "0"],
        ["--url", "http://127.0.0.1:1"],
        ["--format", "codex", "--policy", "unmanaged"],
    ],
)
def test_what_cannot_be_run_is_refused(recording: Path, arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        call_command("replay", str(recording), *arguments)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"nowhere\.jsonl"):
        call_command("replay", str(tmp_path / "nowhere.jsonl"))


def table_of(server: FakeServer, **options: object) -> str:
    run = RunOptions(limit=75_000, reduce=3, **options)  # type: ignore[arg-type]
    result = replay("s", conversation(40, result_size=2000), run, count_characters, server.client())
    console = Console(width=220, file=io.StringIO())
    show(result, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_table_has_a_row_a_policy_and_says_that_all_was_checked() -> None:
    text = table_of(FakeServer())
    for policy in ("unmanaged", "sliding", "compaction", "clear-tools", "managed"):
        assert policy in text
    assert "soft_plus: queued_drops" in text
    assert "every bust explained" in text


def test_the_table_lists_what_was_wrong() -> None:
    def lie(call: int, answer: dict[str, object]) -> None:
        if call == 5:
            answer["system"] = "new"

    text = table_of(FakeServer(lie), policies=("managed",))
    assert "2 problems: 2 defer_changed_bytes" in text
    assert "call 5: defer_changed_bytes" in text
