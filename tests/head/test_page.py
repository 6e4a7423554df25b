"""The head on a session's page (dashboard-cli section 4), as a page and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.head.conftest import HIGH, Desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def page(desk: Desk, client: Client) -> Client:
    client.force_login(desk.admin.owner)
    return client


def head(page: Client, desk: Desk) -> dict[str, Any]:
    answer = page.get(f"/sessions/{desk.session.pk}/?format=json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()["head"]
    return found


def test_it_says_what_is_served(page: Client, desk: Desk) -> None:
    desk.remember("tabs")
    desk.members["capabilities"] = {"compaction_marker": True}
    desk.publish(1, 4, "full account " * 50)
    folded = desk.serve(model="anthropic/claude-opus-4-5")
    desk.members["model"] = "anthropic/claude-opus-4-5"
    assert "tabs" in folded.m0
    desk.publish(5, 6)
    desk.step()
    seen = head(page, desk)
    assert seen["m0_tokens"] > 100 > seen["m1_tokens"] > 5
    assert (seen["boundary_ordinal"], seen["compartments"], seen["in_m0_through_sequence"]) == (4, 2, 0)
    assert (seen["memories"], seen["published_pending"]) == (1, True)
    fold = seen["last_fold"]
    assert (fold["pass"], fold["reason"]) == (folded.json["pass"]["id"], "model_change")
    assert fold["reason_in_words"] == "Model change"
    assert seen["marker"] == {"ordinal": 4, "status": "open"}
    text = page.get(f"/sessions/{desk.session.pk}/").content.decode()
    for words in ("messages up to 4", "Model change", "new ones wait", "after 4, asked for"):
        assert words in text
    desk.step(HIGH)
    seen = head(page, desk)
    assert (seen["boundary_ordinal"], seen["published_pending"]) == (6, False)
    assert seen["last_fold"] == fold


def test_a_first_head_covers_nothing(page: Client, desk: Desk) -> None:
    seen = head(page, desk)
    assert (seen["boundary_ordinal"], seen["compartments"], seen["memories"]) == (None, 0, 0)
    assert seen["marker"] is None
    assert seen["last_fold"]["reason"] == "first_render"


def test_a_subagent_has_none(page: Client, desk: Desk) -> None:
    desk.host.caller.sid = "s2"
    desk.serve(subagent=True)
    assert head(page, desk) is None
    assert "A subagent has none." in page.get(f"/sessions/{desk.session.pk}/").content.decode()


def test_its_cost_does_not_grow(
    page: Client, desk: Desk, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    for start in (1, 3, 5, 7):
        desk.publish(start, start + 1)
        desk.step(HIGH)
    with django_assert_max_num_queries(14):
        page.get(f"/sessions/{desk.session.pk}/")
