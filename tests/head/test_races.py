"""The head while others write: two processes, overtaken folds, retries, replays, forks
(history-render sections 7 and 11; design section 5).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from magiccontext.engine.passes import run_pass
from magiccontext.engine.request import HistorianFacts
from magiccontext.engine.result import PassResult
from sessions_app import models
from sessions_app.services import transform as service
from sessions_app.services.cache import states
from sessions_app.services.heading import sources
from tests.head.conftest import HIGH, LOW, Desk, restart
from tests.transform.conftest import exchange

pytestmark = pytest.mark.django_db


class Process:
    """What another server process keeps for itself: its snapshots, its sources, its locks."""

    def __init__(self) -> None:
        self.states: dict[str, Any] = {
            "_states": OrderedDict(), "_bytes": 0, "_locks": {}, "_raw_from": {},
        }  # fmt: skip
        self.sources: dict[str, Any] = {"_kept": OrderedDict()}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Everything in here happens in that process."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for kept, cache in ((self.states, states), (self.sources, sources)):
            for name, value in kept.items():
                kept[name] = getattr(cache, name)
                setattr(cache, name, value)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], list[PassResult]]:
    """Runs an action in another process between the computing of the next pass and its commit.

    Returns the list of what was computed from then on.
    """

    def arrange(action: Callable[[], object]) -> list[PassResult]:
        computed: list[PassResult] = []

        def computing(*args: Any) -> PassResult:
            result = run_pass(*args)
            computed.append(result)
            if len(computed) == 1:
                with Process().running():
                    action()
            return result

        monkeypatch.setattr(service, "run_pass", computing)
        return computed

    return arrange


def test_a_publication_of_another_process_is_seen_with_the_next_pass(desk: Desk) -> None:
    other = Process()
    before = desk.step()
    with other.running():
        desk.publish(1, 4)
    after = desk.step()
    assert (after.level, after.head) == ("defer", before.head)
    with other.running():
        taken = desk.step(HIGH)
    assert "T1" in taken.m1
    replayed = desk.step()
    assert (replayed.level, replayed.head) == ("defer", taken.head)
    assert replayed.begins_like(taken)


def test_processes_that_take_turns_decide_like_one(desk: Desk) -> None:
    other = Process()
    last = desk.step()
    for number, (start, end) in enumerate([(1, 2), (3, 4), (5, 6), (7, 8)]):
        process = other if number % 2 else Process()
        with process.running():
            desk.publish(start, end)
            middle = desk.step()
        assert middle.begins_like(last)
        taken = desk.step(HIGH)
        assert (taken.level, f"T{start}" in taken.m0 + taken.m1) == ("soft", True)
        assert len(taken.tail) == len(desk.array) - end
        with other.running():
            last = desk.step()
        assert last.begins_like(taken)


def test_a_publication_while_a_pass_is_computed(
    desk: Desk, meanwhile: Callable[..., list[PassResult]]
) -> None:
    """The version moved: the pass is computed again, and is the same defer pass, its signal still raised."""
    before = desk.step()
    computed = meanwhile(lambda: desk.publish(1, 4))
    after = desk.step()
    assert len(computed) == 2
    assert (after.level, after.head) == ("defer", before.head)
    assert desk.state.published_pending
    assert "T1" in desk.step(HIGH).m1


def test_a_publication_while_a_refresh_is_computed_is_in_it(
    desk: Desk, meanwhile: Callable[..., list[PassResult]]
) -> None:
    desk.publish(1, 4)
    computed = meanwhile(lambda: desk.publish(5, 6))
    taken = desk.step(HIGH)
    assert len(computed) == 2
    assert "T1" in taken.m1 and "T5" in taken.m1
    assert len(taken.tail) == len(desk.array) - 6


def test_a_fold_that_a_memory_overtakes_is_made_again(
    desk: Desk, meanwhile: Callable[..., list[PassResult]]
) -> None:
    """What m[0] was made from must still hold when it is stored (section 7, fold protocol)."""
    desk.remember("tabs")
    computed = meanwhile(lambda: desk.remember("ports start at 8000"))
    folded = desk.serve(model="anthropic/claude-opus-4-5")
    assert [result.changes.folded for result in computed] == [True, True]
    assert "tabs" in folded.m0 and "ports" in folded.m0
    assert "ports" not in folded.m1


def test_12_20_a_fold_that_is_always_overtaken_replays_the_stored_pair(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """reclaim-core 12 case 20: lanes closed, requests pending."""
    before = desk.step()
    desk.publish(1, 4)
    desk.flush()

    facts = count()

    def overtaken(*args: Any) -> PassResult:
        result = run_pass(*args)
        with Process().running():
            desk.remember(f"fact {next(facts)}")
        return result

    with monkeypatch.context() as patch:
        patch.setattr(service, "run_pass", overtaken)
        refused = desk.send(model="anthropic/claude-opus-4-5")
        # Another model cannot be answered from the last good request of this one.
        assert (refused.status_code, refused.json()["code"]) == (503, "storage_busy")
        head = desk.state
        head.compartment_epoch = "older"
        head.save(update_fields=["compartment_epoch"])
        restart()
        replayed = desk.serve()
    assert replayed.json["outcome"] == "replay"
    assert replayed.head == before.head
    assert desk.session.vars().flush == "explicit"
    assert desk.state.published_pending
    landed = desk.serve()
    assert (landed.level, landed.reasons[0]) == ("hard", "compartment_render_epoch")


def test_a_memory_written_during_a_defer_pass_costs_nothing(
    desk: Desk, meanwhile: Callable[..., list[PassResult]]
) -> None:
    computed = meanwhile(lambda: desk.remember("tabs"))
    assert desk.step().level == "defer"
    assert len(computed) == 1


def test_a_retry_gets_the_head_of_its_own_view(desk: Desk) -> None:
    """Design section 5: the receipt holds the view version, and the answer is made from it again."""
    array, at = list(desk.array), desk.at
    members = {**desk.members, "at": at}

    def ask() -> Any:
        return desk.host.caller.transform(array, headers={"idempotency_key": "k1"}, **members)

    first = ask()
    desk.publish(1, 4)
    later = desk.step(HIGH)
    assert "T1" in later.m1
    for _ in range(2):
        again = ask()
        assert again.json()["messages"] == first.json()["messages"]
        assert again.json()["view_version"] == first.json()["view_version"]
        restart()


def test_a_view_carries_the_head_and_the_cut(desk: Desk) -> None:
    desk.publish(1, 4)
    taken = desk.step(HIGH)
    view = desk.send(answer="edits").json()["view"]
    assert [item["id"] for item in view["head"]] == ["m0", "m1"]
    assert json.dumps(view["head"][1]["message"]) == json.dumps(taken.bytes[1])
    assert view["cut"]["before_ordinal"] == 5


def fork(desk: Desk, **members: Any) -> Desk:
    """The session as another one begins with it."""
    caller = type(desk.host.caller)(desk.host.caller.key, sid="s2")
    copy = Desk(type(desk.host)(caller), desk.admin, list(desk.array), desk.now, dict(desk.members))
    item = {"type": "forked", "event_id": "f1", "parent": "s1", **members}
    answer = caller.post("events", {"events": [item], "at": desk.at})
    assert answer.json()["results"][0]["status"] == "applied", answer.content
    return copy


def test_a_fork_keeps_the_head_and_goes_its_own_way(desk: Desk) -> None:
    desk.publish(1, 4)
    taken = desk.step(HIGH)
    copy = fork(desk)
    parents, own = (models.HeadState.objects.get(session__sid=sid) for sid in ("s1", "s2"))
    assert own.pair() == parents.pair()
    first = copy.serve()
    assert (first.level, first.bytes) == ("defer", taken.bytes)
    rows = models.Compartment.objects.filter(session__sid="s2")
    assert [(row.sequence, row.start, row.end) for row in rows] == [(0, 1, 4)]
    desk.publish(5, 6)
    assert "T5" in desk.step(HIGH).m1
    assert copy.step().head == taken.head


def test_a_fork_below_the_boundary_begins_without_a_head(desk: Desk) -> None:
    desk.publish(1, 4)
    desk.step(HIGH)
    copy = fork(desk, through=3)
    copy.array = copy.array[:3]
    first = copy.serve()
    assert len(first.tail) == 3
    assert "T1" not in first.m0 + first.m1


# The historian is only a flag of the request so far; these passes are told that it runs.


@pytest.fixture
def historian(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made = service.PassRequest
    running = HistorianFacts(running=True)
    monkeypatch.setattr(service, "PassRequest", lambda **given: made(**given, historian=running))
    yield


@pytest.fixture
def spent(desk: Desk) -> Desk:
    """Calls with long results behind the prompts, the oldest of them marked."""
    desk.array += exchange(30, size=16_000)[1:]
    desk.step()
    numbers = models.Tag.objects.filter(session=desk.session, type="tool").order_by("number")
    first = numbers.first()
    assert first is not None
    desk.host.reduce(f"{first.number}-{first.number + 1}")
    return desk


def dropped(desk: Desk) -> int:
    return models.Tag.objects.filter(session=desk.session, status="dropped").count()


def test_12_21_a_veto_prepares_nothing_either(spent: Desk, historian: None) -> None:
    """reclaim-core 12 case 21."""
    desk = spent
    before = desk.step()
    desk.publish(1, 4)
    after = desk.step(HIGH)
    assert (after.level, after.head) == ("defer", before.head)
    assert b"T1" not in bytes(desk.state.m1)
    assert desk.state.published_pending
    assert dropped(desk) == 0


def test_12_22_a_fold_beside_a_running_historian_takes_the_queue_along(spent: Desk, historian: None) -> None:
    """reclaim-core 12 case 22."""
    desk = spent
    folded = desk.serve(model="anthropic/claude-opus-4-5")
    assert folded.json["pass"]["permitted"] == "hard"
    assert folded.reasons[0] == "model_change"
    assert dropped(desk) >= 2
    assert not models.PendingDrop.objects.filter(session=desk.session).exists()


def test_12_23_a_flush_beside_a_running_historian_drains_and_leaves_the_baseline(
    spent: Desk, historian: None
) -> None:
    """reclaim-core 12 case 23."""
    desk = spent
    before = desk.step()
    desk.flush()
    drained = desk.step()
    assert (drained.level, drained.reasons) == ("soft_plus", ["explicit_flush"])
    assert drained.head == before.head
    assert dropped(desk) >= 2


# the person's own request to rebuild (reclaim-core 5.2; dashboard-cli 6 and 9 case 37)


def test_37_a_flush_with_nothing_to_do_is_a_defer_pass(desk: Desk) -> None:
    before = desk.step()
    assert desk.flush() == "No pending operations to flush."
    after = desk.step()
    assert (after.level, after.reasons, after.head) == ("defer", [], before.head)
    assert after.begins_like(before)


@pytest.mark.parametrize("used", [LOW, HIGH])
def test_a_flush_with_news_is_soft_and_leaves_the_baseline(desk: Desk, used: int) -> None:
    before = desk.step()
    desk.remember("tabs")
    desk.publish(1, 4)
    desk.flush()
    after = desk.step(used)
    assert after.level == "soft"
    assert after.reasons[0] == "explicit_flush"
    assert after.m0 == before.m0
    assert "T1" in after.m1 and "tabs" in after.m1
    assert desk.session.vars().flush == ""
    assert desk.step().level == "defer"


def test_a_flush_survives_a_restart(desk: Desk) -> None:
    desk.publish(1, 4)
    desk.flush()
    restart()
    assert desk.step().level == "soft"


# what goes wrong


def test_6_a_render_that_fails_loses_neither_summary_nor_raw(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = desk.step()
    desk.publish(1, 4)

    def failing(*_: Any) -> PassResult:
        raise RuntimeError("no")

    with monkeypatch.context() as patch:
        patch.setattr(service, "run_pass", failing)
        replayed = desk.serve()
    assert (replayed.json["outcome"], replayed.bytes) == ("replay", before.bytes)
    assert desk.state.published_pending
    taken = desk.step(HIGH)
    assert "T1" in taken.m1
    assert len(taken.tail) == len(desk.array) - 4


def test_8_a_half_that_is_missing_is_made_anew_with_its_history(desk: Desk) -> None:
    desk.publish(1, 4)
    desk.step(HIGH)
    models.HeadState.objects.update(m1=b"")
    restart()
    after = desk.step()
    assert after.json["pass"]["permitted"] == "hard"
    assert "T1" in after.m0
    assert len(after.tail) == len(desk.array) - 4
    assert desk.step().head == after.head
