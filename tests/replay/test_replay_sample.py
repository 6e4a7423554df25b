"""The demo's own session: long, valid, the same every time, with two gaps over the cache's lifetime."""

from itertools import pairwise
from pathlib import Path

import pytest

from magiccontext.replay.facts import facts_of
from magiccontext.replay.sample import sample_session
from magiccontext.replay.server import ROOT
from magiccontext.replay.transcript import TranscriptError
from magiccontext.replay.verify import check_conversation


def test_it_is_long_and_valid_and_made_from_this_repository() -> None:
    transcript = sample_session(ROOT)
    facts = [facts_of(raw) for raw in transcript.messages]
    assert len(transcript.messages) >= 300
    assert sum(len(message.results) for message in facts) >= 150
    for call in transcript.calls[:: len(transcript.calls) // 10]:
        assert check_conversation(call.index, facts[: call.messages]) == []
    assert any("magiccontext/replay/sample.py" in message.prompt for message in facts)


def test_two_pauses_outlive_the_cache() -> None:
    calls = sample_session(ROOT).calls
    gaps = [after.time_ms - before.done_ms for before, after in pairwise(calls)]
    assert sum(gap > 300_000 for gap in gaps) == 2


def test_the_same_files_give_the_same_session(tmp_path: Path) -> None:
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(f"def {name[:3]}_value():\n    return 'a value of {name}'\n")
    first, second = sample_session(tmp_path), sample_session(tmp_path)
    assert first.messages == second.messages
    assert first.calls == second.calls
    (tmp_path / "two.py").write_text("def other_value():\n    return 'something else'\n")
    assert sample_session(tmp_path).digest != first.digest


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError):
        sample_session(tmp_path)
