"""Claude Code recordings (hosts section 6.2): merged records, skipped ones, branches, compactions."""

from pathlib import Path

from magiccontext.replay.readers import READERS, read_file
from magiccontext.replay.transcript import Usage
from tests.replay.replay_records import (
    CLAUDE,
    THINKING,
    assert_playable,
    call,
    claude,
    lines,
    messages,
    outcome,
)


def test_claude_code_merges_the_records_of_a_response_and_counts_it_once(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines(*CLAUDE))
    transcript = read_file(path)
    assert (transcript.source_format, transcript.session_id, transcript.subagent) == (
        "claude-code",
        "sess",
        False,
    )
    said = messages(transcript)
    assert [message["role"] for message in said] == ["user", "assistant", "user", "assistant"]
    assert said[0]["content"] == "hello"
    assert said[1]["content"] == [THINKING, call("t1"), call("t2")]
    assert said[2]["content"] == [outcome("t1"), outcome("t2"), {"type": "text", "text": "and quickly"}]
    assert [c.messages for c in transcript.calls] == [1, 3]
    assert transcript.calls[0].usage == Usage(3, 20, 10, 40)
    assert transcript.calls[0].model == "anthropic/claude-x"
    assert transcript.calls[1].time_ms - transcript.calls[0].done_ms == 2000
    assert_playable(transcript)


def test_claude_code_goes_on_behind_a_compaction_with_the_raw_history() -> None:
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b1",
        "parentUuid": None,
        "logicalParentUuid": "a4",
        "sessionId": "sess",
    }
    summary = claude("user", "c1", "b1", "summary of it all", 20, isCompactSummary=True)
    shown = claude("user", "c2", "c1", "shown only", 21, isVisibleInTranscriptOnly=True)
    after = (
        claude("user", "u9", "c2", "next", 22),
        claude("assistant", "a9", "u9", [{"type": "text", "text": "ok"}], 23, id="m9"),
    )
    transcript = READERS["claude-code"](lines(*CLAUDE, boundary, summary, shown, *after), "n")
    assert "summary" not in str(messages(transcript))
    assert [c.messages for c in transcript.calls] == [1, 3, 5]
    assert transcript.notes == ("compaction summaries and display-only records, left out: 2",)


def test_claude_code_leaves_out_subagents_meta_and_abandoned_branches() -> None:
    more = (
        claude("user", "s1", None, "sub", 10, isSidechain=True),
        claude("user", "x1", "a4", "a wrong turn", 11),
        claude("assistant", "x2", "x1", [call("t9")], 12, id="mx"),
        claude("user", "x3", "x2", [outcome("t9")], 13),
        claude("user", "g1", "a4", "a hook says", 14, isMeta=True),
        claude("user", "g2", "g1", "the right turn", 15),
        claude("assistant", "g3", "g2", [{"type": "text", "text": "ok"}], 16, id="mg"),
    )
    transcript = READERS["claude-code"](lines(*CLAUDE, *more), "n")
    assert [m["content"] for m in messages(transcript)[4:5]] == ["the right turn"]
    assert not any(word in str(messages(transcript)) for word in ("sub'", "wrong", "hook"))
    assert len(transcript.calls) == 3


def test_claude_code_keeps_a_meta_message_where_nothing_else_asks() -> None:
    more = (
        claude("user", "g1", "a4", "go on, says the hook", 14, isMeta=True),
        claude("assistant", "g3", "g1", [{"type": "text", "text": "ok"}], 16, id="mg"),
    )
    transcript = READERS["claude-code"](lines(*CLAUDE, *more), "n")
    assert messages(transcript)[4]["content"] == "go on, says the hook"
    assert_playable(transcript)


def test_a_claude_code_subagent_file_is_read_as_its_own() -> None:
    data = lines(*({**record, "isSidechain": True} for record in CLAUDE))
    transcript = READERS["claude-code"](data, "n")
    assert transcript.subagent
    assert len(transcript.calls) == 2


def test_a_broken_last_line_is_noted() -> None:
    transcript = READERS["claude-code"](lines(*CLAUDE) + b'{"type":"user","mess', "n")
    assert transcript.notes == ("lines that could not be read: 1",)
