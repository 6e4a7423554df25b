"""Prepared compartments: what a file of them may say, and those that are made from the transcript."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from magiccontext.replay import extract
from magiccontext.replay.assemble import Assembly
from magiccontext.replay.compartments import CompartmentsError, Prepared, Publication, check, load
from magiccontext.replay.facts import facts_of
from magiccontext.replay.run import RunOptions, replay
from tests.replay.replay_fake import FakeServer, conversation, count_characters

SESSION = conversation(12)
"""Messages 1 prompt, 2 call, 3 result, 4 call, 5 result …; 10 is a prompt again."""
GOOD = {"start": 1, "end": 3, "title": "Start", "p1": "It began.", "p2": "Began.", "p4": "", "importance": 70}


def entries(**change: Any) -> list[dict[str, Any]]:
    row = {name: value for name, value in {**GOOD, **change}.items() if value is not ...}
    return [{"at_call": 5, "compartments": [row]}]


def written(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "compartments.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (publication,) = load(written(tmp_path, entries()), SESSION)
    assert publication == Publication(
        5, (Prepared(1, 3, "Start", "It began.", p2="Began.", p4="", importance=70),)
    )
    assert publication.compartments[0].as_json() == GOOD


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("{", "no JSON"),
        ({}, "a list of publications"),
        ([{"at_call": 5}], "entry 1: an object with at_call and compartments"),
        ([{"at_call": 5, "compartments": []}], "entry 1: compartments is a list"),
        ([{"at_call": "5", "compartments": [GOOD]}], "entry 1: at_call is a whole number"),
        ([{"at_call": 0, "compartments": [GOOD]}], "entry 1: at_call 0 is outside of the calls 1 to 11"),
        ([{"at_call": 12, "compartments": [GOOD]}], "entry 1: at_call 12 is outside"),
        (entries() + entries(), "entry 2: at_call 5 does not follow 5"),
        (entries(start=2), "entry 1, compartment 1: starts at 2; what was covered before ends at 0"),
        (entries(start=True), "entry 1, compartment 1: start is a whole number"),
        (entries(end=0), "entry 1, compartment 1: ends at 0, before its start"),
        (entries(end=11), "entry 1, compartment 1: ends at 11; by call 5 only 10 were sent"),
        (entries(end=2), "entry 1, compartment 1: ends at 2, between a tool call and its result"),
        (entries(p1=...), "entry 1, compartment 1: p1 is missing"),
        (entries(p1=" "), "entry 1, compartment 1: p1 is missing"),
        (entries(p3=7), "entry 1, compartment 1: p3 is text"),
        (entries(title="a\nb"), "entry 1, compartment 1: title is one line"),
        (entries(title=...), "entry 1, compartment 1: title is one line"),
        (entries(importance=0), "entry 1, compartment 1: importance is 1 to 100"),
        (entries(summary="x"), "entry 1, compartment 1: unknown summary"),
        ([{"at_call": 5, "compartments": [7]}], "entry 1, compartment 1: an object"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, value: Any, said: str) -> None:
    with pytest.raises(CompartmentsError) as error:
        load(written(tmp_path, value), SESSION)
    assert said in str(error.value)


def test_a_subagent_has_nothing_to_summarise() -> None:
    with pytest.raises(CompartmentsError, match="subagent"):
        check([Publication(5, (Prepared(1, 3, "t", "p"),))], conversation(12, subagent=True))
    assert extract.prepare(conversation(60, subagent=True)) == []


@pytest.mark.parametrize("prompt_every", [1, 4, 1000])
def test_extracts_fit_their_transcript(prompt_every: int) -> None:
    transcript = conversation(80, prompt_every=prompt_every)
    publications = extract.prepare(transcript)
    check(publications, transcript)
    assert publications == extract.prepare(transcript)
    rows = [row for publication in publications for row in publication.compartments]
    assert all(row.end - row.start + 1 in (extract.GROUP, extract.GROUP + 1) for row in rows)
    for publication in publications:
        known = transcript.calls[publication.at_call - 1].messages
        assert publication.compartments[-1].end <= known - extract.RAW_TAIL
    left = transcript.calls[-2].messages - extract.RAW_TAIL - rows[-1].end
    assert left <= extract.GROUP


def test_extracts_say_what_was_said_and_called() -> None:
    row = extract.prepare(conversation(60))[0].compartments[0]
    assert row.title == "Question 0: what is in the files?"
    assert row.p1.splitlines()[:2] == ["U: Question 0: what is in the files?", "A: Reading 0."]
    assert row.p1.splitlines()[-1] == "Tools: read x9"
    assert "A: " in (row.p2 or "")
    assert "A: " not in (row.p3 or "")
    assert row.p4 == ""


def test_extracts_of_awkward_texts_can_be_published() -> None:
    """Control characters and cut surrogate pairs are no part of a title or a stored text."""
    assembly = Assembly(merge_user=False)
    for number in range(40):
        assembly.said(f"<system-reminder>x</system-reminder>\n\n \x00a\u2028b {number} \ud83d", 1000 * number)
        assembly.answered([{"type": "text", "text": " \n"}], 1000 * number + 500, "m", None)
    transcript = assembly.build(source_format="test", session_id="s")
    publications = extract.prepare(transcript)
    texts = [
        text
        for publication in publications
        for row in publication.compartments
        for text in (row.title, *row.tiers)
        if text
    ]
    assert texts
    for text in texts:
        text.encode()
        assert "\x00" not in text
        assert "system-reminder" not in text
    assert publications[0].compartments[0].title == "a"


def test_a_published_history_is_taken_up_and_shown_in_the_result() -> None:
    transcript = conversation(60, result_size=2000)
    run = RunOptions(limit=75_000, policies=("managed",))
    result = replay(
        "s",
        transcript,
        run,
        count_characters,
        FakeServer().client(),
        publications=extract.prepare(transcript),
    )
    assert result.problems == []
    shown = result.as_json()
    assert shown["published"] > 0
    assert shown["first_summary"] is not None
    assert shown["largest_with_summaries"] == result.largest_with_summaries
    assert facts_of(transcript.messages[0]).from_user


def test_the_command_names_the_entry(tmp_path: Path) -> None:
    recording = tmp_path / "request.json"
    turns = [{"role": role, "content": "x"} for role in ("user", "assistant", "user")]
    recording.write_text(json.dumps({"model": "claude-x", "messages": turns}))
    bad = written(tmp_path, [{"at_call": 1}])
    with pytest.raises(CommandError, match="entry 1"):
        call_command("replay", str(recording), "--compartments", str(bad))
    with pytest.raises(CommandError, match=r"nowhere\.json"):
        call_command("replay", str(recording), "--compartments", str(tmp_path / "nowhere.json"))
    with pytest.raises(CommandError, match="one recording"):
        call_command("replay", str(recording), str(recording), "--compartments", str(bad))
