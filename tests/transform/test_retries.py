"""A retry is answered from the view version its first answer had (design section 5; hosts 10.1)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sessions_app import models
from sessions_app.services.cache import states
from tests.transform.conftest import Caller, exchange, prompt

KEY = {"idempotency_key": "k-1"}


def test_the_same_body_gets_the_same_answer_and_no_second_pass(caller: Caller) -> None:
    messages = exchange(4)
    first = caller.transform(messages, headers=KEY)
    again = caller.transform(messages, headers=KEY)
    assert caller.slices(again) == caller.slices(first)
    assert again.json()["view_version"] == first.json()["view_version"]
    assert again.json()["pass"]["id"] == first.json()["pass"]["id"]
    assert models.Pass.objects.count() == 1


def test_a_retry_after_later_passes_still_gets_the_first_bytes(caller: Caller) -> None:
    """The answer is made again from the view version, although a rebuild changed those messages since."""
    messages = exchange(40, size=4_000)
    first = caller.transform(messages[:-2], headers=KEY, context_limit=60_000)
    later = caller.transform(messages, context_limit=60_000, usage={"input_tokens": 52_000})
    assert later.json()["pass"]["level"] == "soft_plus"
    states.clear()
    again = caller.transform(messages[:-2], headers=KEY, context_limit=60_000)
    assert caller.slices(again) == caller.slices(first)


def test_another_body_under_the_same_key_is_a_conflict(caller: Caller) -> None:
    caller.transform([prompt("a")], headers=KEY)
    answer = caller.transform([prompt("b")], headers=KEY)
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_conflict")
    assert models.Pass.objects.count() == 1


def test_a_refused_request_leaves_no_receipt(caller: Caller) -> None:
    bad = caller.transform([{"role": "user"}], headers=KEY)
    assert bad.status_code == 422
    assert models.RequestReceipt.objects.count() == 0
    assert caller.transform([prompt("a")], headers=KEY).status_code == 200


def test_keys_of_two_owners_do_not_meet(caller: Caller, another: object) -> None:
    other = another("bob")  # type: ignore[operator]
    caller.transform([prompt("a")], headers=KEY)
    assert other.transform([prompt("b")], headers=KEY).status_code == 200


def test_an_identical_request_without_a_key_changes_no_byte(caller: Caller) -> None:
    messages = exchange(3)
    first = caller.transform(messages)
    again = caller.transform(messages)
    assert caller.slices(again) == caller.slices(first)
    assert again.json()["view_version"] == first.json()["view_version"]
    assert json.loads(again.content)["pass"]["level"] == "defer"


@pytest.mark.parametrize("exists", [False, True])
def test_a_key_belongs_to_the_session_it_was_used_for(caller: Caller, exists: bool) -> None:
    """The same bytes to another session are another request: neither its answer nor a busy storage."""
    messages = exchange(2)
    caller.transform(messages, headers=KEY)
    other = replace(caller, sid="s2")
    if exists:
        other.transform(messages)
    answer = other.transform(messages, headers=KEY)
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_conflict")
    assert models.Pass.objects.filter(session__sid="s2").count() == int(exists)
