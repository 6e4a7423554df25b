"""Real recordings, where the shared data lies beside the repository; skipped, visibly, where it does not."""

from pathlib import Path

import pytest

from magiccontext.replay.facts import facts_of
from magiccontext.replay.readers import read_file
from magiccontext.replay.verify import check_conversation

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "transcripts"
FORMATS = ("claude-code", "pi", "codex")
FILES = sorted(path for folder in FORMATS for path in DATA.glob(f"{folder}/**/*.jsonl"))
LEAST_CALLS = {"258c7280": 150, "ae4a77f8": 215, "fa812bfe": 155, "before-compaction": 460, "raze": 18}

pytestmark = pytest.mark.skipif(not FILES, reason="no ../shared/data/transcripts beside the repository")


@pytest.mark.parametrize("path", FILES or [DATA], ids=lambda path: path.stem[:24])
def test_a_real_recording_is_append_only_and_paired(path: Path) -> None:
    transcript = read_file(path)
    facts = [facts_of(raw) for raw in transcript.messages]
    sent = 0
    clock = 0
    for call in transcript.calls:
        assert call.messages >= sent
        assert clock <= call.time_ms <= call.done_ms
        sent, clock = call.messages, call.done_ms
        assert check_conversation(call.index, facts[:sent]) == []
    least = next((calls for name, calls in LEAST_CALLS.items() if path.stem.startswith(name)), 1)
    assert len(transcript.calls) >= least
