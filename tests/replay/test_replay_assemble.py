"""What becomes of recordings that break the rules of a conversation."""

from magiccontext.replay.assemble import OPENING, Assembly
from tests.replay.replay_records import assert_playable, call, messages, outcome


def test_a_recording_that_starts_with_a_response_is_opened_with_a_line() -> None:
    assembly = Assembly(merge_user=False)
    assembly.answered([{"type": "text", "text": "so"}], 5, "m/x", None)
    transcript = assembly.build(source_format="t", session_id="s")
    assert messages(transcript)[0] == {"role": "user", "content": OPENING}
    assert_playable(transcript)


def test_a_response_with_nothing_new_before_it_is_no_call() -> None:
    assembly = Assembly(merge_user=False)
    assembly.said("hi", 1)
    assembly.answered([{"type": "text", "text": "one"}], 2, "m/x", None)
    assembly.answered([{"type": "text", "text": "two"}], 3, "m/x", None)
    transcript = assembly.build(source_format="t", session_id="s")
    assert (len(transcript.messages), len(transcript.calls)) == (3, 1)
    assert transcript.notes == ("responses with nothing new before them, not played as calls: 1",)


def test_a_reused_call_id_keeps_two_arcs_and_a_stray_result_is_left_out() -> None:
    assembly = Assembly(merge_user=False)
    assembly.said("hi", 1)
    assembly.returned("zz", outcome("zz"), 1)
    for number in (2, 4):
        assembly.answered([call("same")], number, "m/x", None)
        block = {"type": "tool_result", "tool_use_id": "same", "content": str(number)}
        assembly.returned("same", block, number + 1)
    assembly.answered([{"type": "text", "text": "end"}], 9, "m/x", None)
    transcript = assembly.build(source_format="t", session_id="s")
    assert [m["content"][0].get("content") for m in messages(transcript)[2::2]] == ["2", "4"]
    assert transcript.notes == ("tool results without a call, left out: 1",)
    assert_playable(transcript)


def test_lone_surrogates_and_huge_integers_are_written() -> None:
    assembly = Assembly(merge_user=False)
    assembly.said("half \ud83d", 1)
    assembly.answered([{**call("t"), "input": {"n": 10**30}}], 2, "m/x", None)
    transcript = assembly.build(source_format="t", session_id="s")
    assert messages(transcript)[0]["content"] == "half \ud83d"
    assert messages(transcript)[1]["content"][0]["input"]["n"] == 10**30
