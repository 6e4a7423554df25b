"""Every simple policy on a transcript small enough to follow by hand (the table of design section 11)."""

from magiccontext.replay.cost import Slice
from magiccontext.replay.ledger import Ledger
from magiccontext.replay.policies import (
    CLEARED,
    POLICIES,
    SUMMARY_TOKENS,
    Request,
    Session,
    clear_tools,
    compaction,
    sliding,
    unmanaged,
)
from magiccontext.replay.tokens import MessageBook
from tests.replay.replay_fake import conversation, count_characters


def session(calls: int, limit: int, front: int = 100, **more: object) -> Session:
    book = MessageBook(count_characters)
    measured = Session.measured(conversation(calls, **more), book, limit)  # type: ignore[arg-type]
    return Session(
        measured.transcript, book, limit, Slice(b"front", front), measured.slices, None, measured.totals
    )


def prompts(requests: list[Request]) -> list[int]:
    return [sum(part.tokens for part in request.slices) for request in requests]


def test_unmanaged_sends_everything() -> None:
    s = session(6, limit=500)
    requests = list(unmanaged(s))
    assert [len(r.slices) - 1 for r in requests] == [c.messages for c in s.transcript.calls]
    ledger = Ledger(500, lambda model: 300_000)
    for request in requests:
        ledger.add(request)
    totals = ledger.totals()
    assert totals.over_limit == sum(prompt > 500 for prompt in prompts(requests)) > 0
    assert (totals.hits, totals.busts) == (5, {})


def test_sliding_drops_whole_turns_and_they_stay_dropped() -> None:
    s = session(12, limit=1000)
    requests = list(sliding(s))
    slid = [r.call.index for r in requests if r.reasons]
    assert slid
    for request in requests:
        first = s.book.facts(request.slices[1].digest)
        assert first.is_prompt
    starts = [s.slices.index(r.slices[1]) for r in requests]
    assert starts == sorted(starts)
    # Only a request whose single remaining turn is too large may stay over 95 %.
    for request, prompt in zip(requests, prompts(requests), strict=True):
        turns = sum(s.book.facts(part.digest).is_prompt for part in request.slices[1:])
        assert prompt <= 950 or turns == 1


def test_compaction_pays_one_hidden_call_and_goes_on_from_summary_and_last_exchange() -> None:
    s = session(12, limit=6000, result_size=700)
    requests = list(compaction(s))
    hidden = [i for i, r in enumerate(requests) if r.hidden]
    assert hidden
    asking, after = requests[hidden[0]], requests[hidden[0] + 1]
    assert asking.output_tokens == SUMMARY_TOKENS
    assert sum(part.tokens for part in asking.slices) > 0.92 * 6000
    assert after.call is asking.call
    assert after.reasons == ("compacted",)
    assert after.slices[1].tokens == SUMMARY_TOKENS
    assert s.book.facts(after.slices[2].digest).role == "assistant"
    assert after.slices[2:] == asking.slices[-len(after.slices) + 2 :]
    following = requests[hidden[0] + 2]
    assert list(following.slices[: len(after.slices)]) == list(after.slices)


def test_clear_tools_keeps_the_newest_three_for_good() -> None:
    s = session(12, limit=1500)
    requests = list(clear_tools(s))
    first = next(r for r in requests if r.reasons)
    shown = [s.book.facts(part.digest).outputs for part in first.slices[1:]]
    outputs = [output for group in shown for output in group]
    assert outputs[:-3] == [CLEARED] * (len(outputs) - 3)
    assert all(output != CLEARED for output in outputs[-3:])
    for request in requests[requests.index(first) :]:
        later = [o for part in request.slices[1:] for o in s.book.facts(part.digest).outputs]
        assert later[: len(outputs) - 3] == [CLEARED] * (len(outputs) - 3)


def test_policies_do_nothing_while_everything_fits() -> None:
    s = session(6, limit=100_000)
    plain = [list(r.slices) for r in unmanaged(s)]
    for policy in POLICIES.values():
        assert [list(r.slices) for r in policy(s)] == plain


def test_another_model_replaces_the_recorded_one() -> None:
    book = MessageBook(count_characters)
    s = Session.measured(conversation(3), book, 1000, "openai/gpt-5.6")
    assert {r.model for r in unmanaged(s)} == {"openai/gpt-5.6"}
