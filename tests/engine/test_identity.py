"""Which message is which, and which lineage it belongs to (design section 4; hosts sections 2.5 and 11)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magiccontext.engine.state import SessionState
from magiccontext.engine.transcript import InvalidMessage
from magiccontext.engine.wire import codec_for
from tests.engine.conversation import (
    Call,
    IdCodec,
    Result,
    Session,
    call_ids,
    dump,
    parts,
    reloaded,
    result_texts,
    with_id,
    words,
)


def mids(session: Session) -> list[str]:
    return [m.mid for m in session.state.path]


def test_it_works() -> None:
    session = Session().ask("one")
    session.send()
    session.step("c1").step("c2")
    session.send()
    assert mids(session) == ["m1", "m2", "m3", "m4", "m5"]
    assert [m.ordinal for m in session.state.path] == [1, 2, 3, 4, 5]


def test_hosts_case_52_a_rewind_opens_a_lineage_from_the_common_point() -> None:
    """Hosts section 11: rewind of three messages, then two new ones."""
    session = Session().ask("one").step("c1").step("c2").ask("two")
    session.send()
    highest = max(session.state.tags)
    gone = mids(session)[3:]
    session.raw = session.raw[:3]
    session.add(session.write.assistant("other"), session.write.user("three"))
    sent = session.send()
    assert sent.result.changes.arrival.new_lineage == (2, 1, 3)
    assert [(m.lineage, m.ordinal) for m in session.state.line] == [(1, 1), (1, 2), (1, 3), (2, 4), (2, 5)]
    assert sorted(session.state.tags)[-2:] == [highest + 1, highest + 2]
    assert set(gone) <= set(session.state.messages)


def test_a_rewind_alone_stays_in_the_lineage() -> None:
    session = Session().ask("one").step("c1").ask("two")
    session.send()
    session.raw = session.raw[:3]
    sent = session.send()
    assert sent.result.changes.arrival.new_lineage is None
    assert len(session.state.line) == 4
    session.ask("three")
    assert session.send().result.changes.arrival.new_lineage == (2, 1, 3)


def test_hosts_case_53_a_removed_message_keeps_its_slot() -> None:
    """Hosts section 11: its raw row is marked, later ordinals do not move."""
    session = Session().ask("one").step("c1").ask("two").ask("three")
    session.send()
    state = session.state
    gone = state.path[3]
    state.messages[gone.mid] = marked = replace(gone, removed=True)
    session.state = SessionState(
        state.vars,
        state.messages.values(),
        [m.mid for m in state.path],
        None,
        state.tags.values(),
        state.pending.values(),
    )
    session.raw.pop(3)
    session.ask("four")
    sent = session.send()
    assert sent.result.changes.arrival.new_lineage is None
    assert [m.ordinal for m in session.state.path] == [1, 2, 3, 5, 6]
    assert session.state.messages[marked.mid].removed


def test_a_newest_message_that_was_removed_does_not_end_the_lineage() -> None:
    session = Session().ask("one").step("c1").ask("two")
    session.send()
    last = session.state.path[-1]
    session.state.messages[last.mid] = session.state.path[-1] = replace(last, removed=True)
    session.state.line = session.state.path
    session.raw.pop()
    session.ask("three")
    sent = session.send()
    assert sent.result.changes.arrival.new_lineage is None
    assert session.message(-1).ordinal == 5


def id_session(*messages: tuple[str, list[bytes]]) -> Session:
    session = Session(codec=IdCodec())
    session.raw = [with_id(mid, message) for mid, (message,) in messages]
    return session


def test_hosts_case_54_an_edited_old_message_is_a_revision() -> None:
    """Hosts section 11: new revision, and the served bytes stay until a rebuild."""
    write = Session().write
    session = id_session(("a", write.user("first")), ("b", write.assistant("yes")), ("c", write.user("next")))
    before = session.send().bodies
    session.raw[0] = with_id("a", write.user("first, edited")[0])
    sent = session.send()
    assert sent.level == "defer"
    assert sent.bodies == before
    assert [(m.mid, m.revision) for m in session.state.path] == [("a", 1), ("b", 0), ("c", 0)]
    assert sent.result.changes.arrival.new_lineage is None
    session.flush()
    sent = session.send()
    assert (sent.level, sent.result.first_changed) == ("soft_plus", 0)
    assert "§1§ first, edited" in [text for _, _, text, _ in parts(session.codec, sent.served)]


def test_a_revision_that_moves_parts_keeps_numbers_and_bytes() -> None:
    """Reclaim-core 1.3: the content id moves along, by rank; nothing shows before a rebuild."""
    session = id_session()
    body = {"role": "assistant", "content": [{"type": "text", "text": t} for t in ("one", "two")]}
    write = session.write
    session.raw = [
        with_id("a", write.user("go")[0]),
        with_id("b", dump(body)),
        with_id("c", write.user("on")[0]),
    ]
    before = session.send().bodies
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    session.raw[1] = with_id("b", dump({"role": "assistant", "content": [thinking, *body["content"]]}))
    sent = session.send()
    assert (sent.level, sent.bodies) == ("defer", before)
    assert sent.result.changes.new_tags == []
    assert {n: t.part for n, t in session.state.tags.items() if t.mid == "b"} == {2: 1, 3: 2}
    session.restart()
    session.flush()
    said = [text for _, _, text, _ in parts(session.codec, session.send().served)]
    assert said == ["§1§ go", "hm", "§2§ one", "§3§ two", "§4§ on"]


def test_a_revised_result_is_still_dropped_by_its_tag() -> None:
    write = Session().write
    session = id_session(
        ("a", write.user("go")),
        ("b", write.assistant(calls=[Call("x"), Call("y")])),
        ("c", write.results(Result("x", "one"), Result("y", "two"))),
        ("d", write.user("on")),
    )
    session.settings = replace(session.settings, protected_tokens=4_000)
    session.send()
    session.raw[2] = with_id("c", write.results(Result("y", "two"), Result("x", "changed"))[0])
    session.send()
    tags = {t.call_id: t.result_part for t in session.state.tags.values() if t.call_id}
    assert tags == {"x": 1, "y": 0}


@pytest.mark.parametrize(("ids", "place"), [(["a", "a"], 1), (["a", "b#1"], 1), (["", "b"], 0)])
def test_ids_that_cannot_be(ids: list[str], place: int) -> None:
    """Hosts section 2.1: two messages with one id, a reserved sign, no id."""
    session = id_session(*((mid, Session().write.user("x")) for mid in ids))
    with pytest.raises(InvalidMessage) as error:
        session.send()
    assert error.value.field == f"messages[{place}].id"


def test_hosts_case_26_a_moved_cache_marker_is_the_same_message() -> None:
    """Hosts section 11: the marker belongs to the request, not to the message."""
    codec = codec_for("anthropic")
    block = {"type": "text", "text": "hello"}
    plain = dump({"role": "user", "content": [block]})
    marked = dump({"role": "user", "content": [{**block, "cache_control": {"type": "ephemeral"}}]})
    session = Session()
    session.raw = [codec.undecorate(marked)]
    session.send()
    session.raw = [codec.undecorate(plain), *session.write.assistant("yes"), *session.write.user("more")]
    session.send()
    assert mids(session) == ["m1", "m2", "m3"]
    assert len(session.state.tags) == 3


def test_a_message_that_comes_back_gets_its_identity_tag_and_bytes() -> None:
    session = Session().ask("one").step("c1").ask("two")
    first = session.send()
    old = list(session.raw)
    session.raw = [*old[:3], *session.write.user("instead")]
    session.send()
    session.raw = old
    back = session.send()
    assert back.bodies == first.bodies
    assert back.result.changes.new_tags == []


def test_what_was_dropped_meanwhile_shows_when_a_message_comes_back() -> None:
    """Reclaim-core 2.1, last row: an absent target is recorded without a byte change; its return was in no
    request the provider still has, so it costs no permission."""
    session = Session().ask("one").step("c1").ask("secret").ask("two")
    session.send()
    old = list(session.raw)
    number = session.text_tag(3).number
    session.raw = old[:3]
    session.send()
    session.queue(number)
    session.flush()
    assert session.send().level == "defer"
    session.raw = [*old[:3], *session.write.user("instead")]
    session.send()
    session.raw = old
    back = session.send()
    assert (back.level, back.result.permitted.word) == ("defer", "defer")
    assert f"[dropped §{number}§]" in [text for _, _, text, _ in parts(session.codec, back.served)]


def test_a_host_compaction_keeps_the_identities_behind_it() -> None:
    session = Session().ask("one").steps(3, 10).ask("two")
    session.send()
    kept = mids(session)[5:]
    session.raw = [*session.write.user("summary"), *session.raw[5:]]
    sent = session.send()
    assert mids(session)[1:] == kept
    assert sent.result.changes.arrival.new_lineage == (2, 1, 0)
    assert [m.ordinal for m in session.state.line] == list(range(1, len(kept) + 2))
    assert sent.result.first_changed is None


def test_after_a_host_compaction_an_edit_behind_it_costs_only_what_follows() -> None:
    """The array of the last pass is a known path, also where texts repeat and the trie has no edge."""
    session = Session()
    for index in range(3):
        session.add(session.write.user("go on"), session.write.assistant("done"))
        session.add(session.write.user(f"unique {index}"), session.write.assistant("done"))
    session.ask("last")
    session.send()
    session.raw = [*session.write.user("summary"), *session.raw[2:]]
    session.send()
    before = mids(session)
    session.raw[-1] = session.write.user("last, edited")[0]
    sent = session.send()
    assert mids(session)[:-1] == before[:-1]
    assert sent.level == "defer"


def test_an_array_that_repeats_a_message_names_each_once() -> None:
    session = Session().ask("a").add(Session().write.assistant("b")).ask("c")
    session.send()
    session.raw = [session.raw[2], session.raw[1], session.raw[0]]
    session.send()
    session.raw = [*session.raw, *session.raw]
    session.send()
    assert len(set(mids(session))) == 6


@pytest.mark.parametrize("format", ["anthropic", "openai-chat"])
def test_an_edited_call_does_not_orphan_its_result(format: str) -> None:
    """The host rewrote the assistant message and left the result as it was."""
    session = Session(format).ask("one").step("c1", "unique output").ask("two")
    session.send()
    session.raw[1] = session.write.assistant("edited", calls=[Call("c1", arguments={"command": "pwd"})])[0]
    sent = session.send()
    assert call_ids(sent, session.codec) == ["c1"]
    assert result_texts(sent, session.codec)["c1"].endswith("unique output")
    owner = session.message(2).links[0].owner
    assert owner == session.message(1).mid


@pytest.mark.parametrize("format", ["anthropic", "openai-chat"])
@pytest.mark.parametrize("dropped_before", [False, True])
def test_a_result_written_anew_keeps_the_tag_of_its_call(format: str, dropped_before: bool) -> None:
    session = Session(format, protected_tokens=4_000).ask("one")
    session.step("c1", words(40), Call("c1", arguments={"command": "x" * 2_000}))
    session.steps(4, 2_000, first=2).ask("two")
    session.send()
    number = session.tool("c1").number
    if dropped_before:
        session.queue(number)
        session.flush()
        assert session.send().lanes == {"queued_drops": 1}
    session.raw[2] = session.write.results(Result("c1", "shortened by the host"))[0]
    sent = session.send()
    assert session.tool("c1").number == number
    assert ("c1" in call_ids(sent, session.codec)) is not dropped_before
    if not dropped_before:
        session.queue(number)
        session.flush()
        sent = session.send()
    assert "c1" not in call_ids(sent, session.codec)
    assert "c1" not in result_texts(sent, session.codec)


def test_a_delta_names_only_what_follows_its_base() -> None:
    """Hosts section 10.2, ``sync``: the front is not sent and keeps its identities."""
    session = Session().ask("one").step("c1").ask("two")
    session.send()
    whole = list(session.raw)
    session.raw = session.write.user("three")
    result = session.run(base=4)
    assert result.changes.arrival.mids == ["m5"]
    session.commit(result)
    session.raw = session.write.user("instead")  # behind the first three of the old array
    result = session.run(base=3)
    session.commit(result)
    assert mids(session)[:3] == ["m1", "m2", "m3"]
    assert session.message(3).raw == session.write.user("instead")[0]
    assert len(whole) == 4


def test_another_process_names_alike_after_every_kind_of_change() -> None:
    session = Session().ask("one").step("c1").ask("two").step("c2").ask("three")
    session.send()
    full = list(session.raw)
    arrays = (full[:3], [*full[:3], *full[6:]], [*session.write.user("summary"), *full[3:]], full)
    for array in arrays:
        session.raw = [*array, *session.write.user("more")]
        other = reloaded(session.state)
        sent = session.send()
        mine = [m.mid for m in session.state.path]
        session.state, kept = other, session.state
        assert session.send().mids == mine == sent.mids
        session.state = kept
