"""The pages of sessions and passes: what they show, to whom, as what, and at what cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from sessions_app.models import Pass, PendingDrop, Session, Tag
from tests.pages.rows import CLAUSES, days_ago, make_incident, make_pass, make_usage

pytestmark = pytest.mark.django_db

INLINE = re.compile(rb"<style|\sstyle=|\son[a-z]+=|javascript:|<script(?![^>]*\ssrc=)", re.I)
# Two of them find out who is logged in.
OVERVIEW_QUERIES = 11


def as_json(client: Client, path: str, **query: Any) -> Any:
    response = client.get(path, {**query, "format": "json"})
    assert response.status_code == 200, response.content[:300]
    return response.json()


def test_it_works(page: Client, make_session: Callable[..., Session]) -> None:
    session = make_session("first", passes=3)
    wrong = make_incident(session)
    response = page.get("/")
    text = response.content.decode()
    assert f'href="/sessions/{session.pk}/"' in text
    assert all(f'href="/passes/{row.pk}/"' in text for row in session.passes.all())
    assert "···R" in text
    assert wrong.detail in text
    assert INLINE.search(response.content) is None


@pytest.mark.parametrize("path", ["/", "/sessions/", "/passes/", "/incidents/", "/sessions/1/", "/passes/1/"])
def test_every_page_asks_for_a_login(client: Client, path: str) -> None:
    response = client.get(path, {"format": "json"})
    assert response.status_code == 302
    assert response["Location"].startswith("/login/")


def test_an_empty_server_shows_the_first_three_steps(page: Client) -> None:
    text = page.get("/", headers={"Host": "localhost:8765"}).content.decode()
    assert "manage.py token" in text
    assert "curl http://localhost:8765/api/v1/sessions/custom/first/transform" in text
    assert "make demo" in text
    assert "<dl" not in text
    assert as_json(page, "/")["sessions"] == []


@pytest.mark.parametrize("path", ["/", "/sessions/", "/passes/", "/incidents/"])
def test_filters_that_fit_nothing_say_so(
    page: Client, make_session: Callable[..., Session], path: str
) -> None:
    make_session("first", passes=1)
    text = page.get(path, {"harness": "pi"}).content.decode()
    assert "fits these filters" in text


@pytest.mark.parametrize("path", ["/sessions/", "/passes/", "/incidents/"])
def test_an_empty_list_says_what_would_be_there(page: Client, path: str) -> None:
    assert 'class="empty"' in page.get(path).content.decode()


# whose sessions


def test_somebody_elses_sessions_are_nowhere(page: Client, make_session: Callable[..., Session]) -> None:
    other = User.objects.create_user("bob", password="x")
    hidden = make_session("unseen", passes=2, owner=other)
    make_incident(hidden)
    make_usage(hidden, "pass:1", read=10)
    make_session("mine", passes=1)
    seen = as_json(page, "/")
    assert [row["sid"] for row in seen["sessions"]] == ["mine"]
    assert (seen["figures"]["passes"], seen["incidents"]) == (1, [])
    assert seen["figures"]["hit_share"]["note"] == "no usage yet"
    assert "unseen" not in page.get("/").content.decode()
    for path in ("/sessions/", "/passes/", "/incidents/"):
        assert "unseen" not in page.get(path).content.decode()
    assert page.get(f"/sessions/{hidden.pk}/").status_code == 404
    assert page.get(f"/passes/{hidden.passes.first().pk}/").status_code == 404


def test_staff_sees_all_and_whose_they_are(client: Client, make_session: Callable[..., Session]) -> None:
    session = make_session("first", passes=1)
    client.force_login(User.objects.create_superuser("root", password="x"))
    assert as_json(client, "/")["sessions"][0]["owner"] == "ada"
    assert '<td class="wide">ada</td>' in client.get("/sessions/").content.decode()
    assert client.get(f"/sessions/{session.pk}/").status_code == 200


def test_a_session_being_deleted_is_gone(page: Client, make_session: Callable[..., Session]) -> None:
    session = make_session("going", passes=1, cleanup_pending=True)
    make_incident(session)
    assert as_json(page, "/")["sessions"] == []
    assert as_json(page, "/passes/")["count"] == as_json(page, "/incidents/")["count"] == 0
    assert page.get(f"/sessions/{session.pk}/").status_code == 404


# figures


def test_figures_are_counted_from_rows(page: Client, make_session: Callable[..., Session]) -> None:
    first = make_session("first")
    make_session("old", last_seen=days_ago(3))
    for number in range(8):
        make_pass(
            first, level="soft_plus" if number < 2 else "defer", first_changed=4 if number < 2 else None
        )
    make_incident(first, "fault")
    figures = as_json(page, "/")["figures"]
    assert (figures["sessions_live"], figures["sessions"]) == (1, 2)
    assert figures["levels"] == {"defer": 6, "soft_plus": 2, "soft": 0, "hard": 0}
    assert (figures["own_busts"], figures["own_busts_per_100"]) == (2, 25.0)
    assert figures["incidents"] == {"refusal": 0, "fault": 1}


def test_hit_share_counts_only_responses_that_report_cache(
    page: Client, make_session: Callable[..., Session]
) -> None:
    told, quiet = make_session("told"), make_session("quiet")
    make_usage(told, "pass:1", read=0, write=1000)
    make_usage(told, "pass:2", read=900, write=50, fresh=50)
    make_usage(quiet, "pass:3", read=0, fresh=90_000, reports_cache=False)
    assert as_json(page, "/")["figures"]["hit_share"] == {
        "percent": 45.0, "note": "", "sessions": 1, "silent": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reports", "note"), [(None, "no usage yet"), (False, "not reported"), (True, "no cache reads")]
)
def test_without_cache_numbers_no_share_is_claimed(
    page: Client, make_session: Callable[..., Session], reports: bool | None, note: str
) -> None:
    session = make_session("first", passes=1)
    if reports is not None:
        make_usage(session, "pass:1", read=0, fresh=5000, reports_cache=reports)
    figures = as_json(page, "/")["figures"]
    assert (figures["hit_share"]["percent"], figures["hit_share"]["note"]) == (None, note)
    text = page.get("/").content.decode()
    assert note in text
    assert re.search(r"\b0\.0 %.{0,80}hit", text) is None


# filters, sorting, pages


def test_filters_narrow_by_harness_level_and_time(page: Client, make_session: Callable[..., Session]) -> None:
    pi, custom = make_session("a", harness="pi"), make_session("b")
    make_pass(pi, level="hard")
    make_pass(custom, time=days_ago(10))
    make_pass(custom, time=days_ago(0.5))
    assert as_json(page, "/passes/")["count"] == 3
    assert [row["session"] for row in as_json(page, "/passes/", harness="pi")["results"]] == ["pi/a"]
    assert [row["level"] for row in as_json(page, "/passes/", level="hard")["results"]] == ["hard"]
    assert as_json(page, "/passes/", days=7)["count"] == 2
    assert as_json(page, "/passes/", days=30, harness="custom")["count"] == 2
    assert as_json(page, "/", days=1)["figures"]["passes"] == 2
    assert 'option value="pi" selected' in page.get("/passes/", {"harness": "pi"}).content.decode()


@pytest.mark.parametrize(
    ("query", "named"),
    [("harness=vim", "harness"), ("level=warm", "level"), ("days=x", "days"), ("sort=sid", "sort")],
)
def test_an_unknown_filter_is_an_error_that_names_it(page: Client, query: str, named: str) -> None:
    response = page.get(f"/sessions/?{query}")
    assert response.status_code == 400
    assert f"<p>{named}: " in response.content.decode()
    told = page.get(f"/sessions/?{query}&format=json")
    assert (told.status_code, told.json()["detail"].split(":")[0]) == (400, named)


def test_lists_have_fifty_rows_a_page(page: Client, make_session: Callable[..., Session]) -> None:
    make_session("first", passes=53)
    first = as_json(page, "/passes/")
    assert (len(first["results"]), first["count"], first["pages"], first["next"]) == (50, 53, 2, 2)
    last = as_json(page, "/passes/", page=2)
    assert (len(last["results"]), last["previous"], last["next"]) == (3, 1, None)
    text = page.get("/passes/", {"level": "defer"}).content.decode()
    assert "level=defer&amp;page=2" in text


def test_sessions_are_sorted_as_asked(page: Client, make_session: Callable[..., Session]) -> None:
    make_session("low", usage_percentage=5, last_seen=days_ago(0.1))
    make_session("high", usage_percentage=80, last_seen=days_ago(0.2))
    make_session("never", usage_percentage=50, last_seen=None)

    def order(sort: str) -> list[str]:
        return [row["sid"] for row in as_json(page, "/sessions/", sort=sort)["results"]]

    assert order("") == order("-seen") == ["low", "high", "never"]
    assert order("-usage") == ["high", "never", "low"]
    assert order("usage") == ["low", "never", "high"]
    text = page.get("/sessions/", {"sort": "-usage", "page": 1, "harness": "custom"}).content.decode()
    assert 'aria-sort="descending"><a href="?sort=usage&amp;harness=custom">usage' in text


# JSON at the same address


def test_json_is_given_to_who_asks_for_it(page: Client, make_session: Callable[..., Session]) -> None:
    make_session("first", passes=1)
    browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    for accept, kind in (
        (browser, "text/html"),
        ("application/json", "application/json"),
        ("*/*", "text/html"),
    ):
        response = page.get("/passes/", headers={"Accept": accept})
        assert response["Content-Type"].split(";")[0] == kind
        assert "Accept" in response["Vary"]
        assert "private" in response["Cache-Control"]
    forced = page.get("/passes/?format=html", headers={"Accept": "application/json"})
    assert forced["Content-Type"].startswith("text/html")


def test_pages_are_only_read(page: Client) -> None:
    assert page.post("/").status_code == 405


# one session


def test_a_session_shows_its_window_passes_tags_drops_and_incidents(
    page: Client, make_session: Callable[..., Session]
) -> None:
    session = make_session("first", passes=2)
    make_pass(session, level="soft_plus", reasons=["queued_drops"], dropped_tokens=12_345, first_changed=3)
    for number, status in ((1, "active"), (2, "dropped"), (3, "dropped")):
        Tag.objects.create(
            session=session, number=number, type="tool", mid=f"m{number}", part=0, call_id=f"c{number}",
            status=status, token_count=100, input_token_count=10,
        )  # fmt: skip
    PendingDrop.objects.create(session=session, number=1, queued_at=days_ago(0.1))
    make_incident(session)
    seen = as_json(page, f"/sessions/{session.pk}/")
    assert seen["session"]["force_band"] == 85.0
    assert [row["level"] for row in seen["passes"]["results"]] == ["soft_plus", "defer", "defer"]
    assert seen["tags"] == [
        {"type": "tool", "status": "active", "tags": 1, "tokens": 110},
        {"type": "tool", "status": "dropped", "tags": 2, "tokens": 220},
    ]
    assert (seen["pending_drops"]["count"], seen["pending_drops"]["oldest"][0]["number"]) == (1, 1)
    assert seen["incidents"][0]["code"] == "MC-H04"
    response = page.get(f"/sessions/{session.pk}/")
    text = response.content.decode()
    assert "custom/first" in text
    assert '<span title="64,000 tokens">64k</span>' in text
    assert "Reclaimed marked output" in text
    assert '<span title="12,345 tokens">12k</span>' in text
    assert "§1§" in text
    assert INLINE.search(response.content) is None


def test_passes_of_a_session_are_sorted_and_filtered(
    page: Client, make_session: Callable[..., Session]
) -> None:
    session = make_session("first")
    rows = [
        make_pass(session, milliseconds=ms, level=level)
        for ms, level in ((9, "defer"), (1, "soft"), (5, "defer"))
    ]
    address = f"/sessions/{session.pk}/"
    by_time = as_json(page, address, sort="ms")["passes"]["results"]
    assert [row["id"] for row in by_time] == [rows[1].pk, rows[2].pk, rows[0].pk]
    assert [row["id"] for row in as_json(page, address, level="soft")["passes"]["results"]] == [rows[1].pk]


def test_the_name_of_a_session_is_only_text(page: Client, make_session: Callable[..., Session]) -> None:
    session = make_session('<script>alert(1)</script>"', passes=1)
    make_incident(session)
    for path in ("/", "/sessions/", "/passes/", "/incidents/", f"/sessions/{session.pk}/"):
        assert b"<script>alert" not in page.get(path).content


# one pass


def test_a_pass_reads_as_a_proof(page: Client, make_session: Callable[..., Session]) -> None:
    session = make_session("first")
    before = make_pass(session)
    record = make_pass(
        session, level="soft_plus", permitted="soft_plus", reasons=["ttl_expiry"], lanes={"queued_drops": 3},
        dropped_tokens=900, first_changed=40,
    )  # fmt: skip
    make_usage(session, f"pass:{record.pk}", read=5, pass_record=record, reports_cache=False)
    seen = as_json(page, f"/passes/{record.pk}/")
    assert [step["step"] for step in seen["proof"]] == [
        "Usage", "Scheduler", "Signals", "Veto and hold", "Permission", "Lanes", "Level",
    ]  # fmt: skip
    lines = [line for step in seen["proof"] for line in step["lines"]]
    assert [line["name"] for line in lines if line["deciding"]] == ["signal idle"]
    assert {line["name"] for line in lines} >= {clause[0] for clause in CLAUSES}
    assert all(line["section"] for line in lines)
    assert (seen["previous"], seen["next"]) == (before.pk, None)
    assert seen["usage"][0]["cache_read"] is None
    text = page.get(f"/passes/{record.pk}/").content.decode()
    assert "TTL expiry." in text
    assert "3 dropped" in text
    assert "no. 41" in text
    assert "not reported" in text
    assert text.count('class="deciding"') == 1


def test_a_clause_nobody_knows_is_still_shown(page: Client, make_session: Callable[..., Session]) -> None:
    record = make_pass(make_session("first"), clauses=[["a later rule", "why", "design 13", True]])
    assert "a later rule" in page.get(f"/passes/{record.pk}/").content.decode()


def test_a_permission_that_changed_nothing_says_so(
    page: Client, make_session: Callable[..., Session]
) -> None:
    record = make_pass(make_session("first"), permitted="soft_plus")
    assert "no byte already sent changed" in page.get(f"/passes/{record.pk}/").content.decode()


def test_usage_nobody_reported_is_not_zero(page: Client, make_session: Callable[..., Session]) -> None:
    session = make_session("first", input_tokens=0, usage_percentage=0)
    record = make_pass(session, input_tokens=0, usage_percentage=0)
    for path in ("/", f"/sessions/{session.pk}/"):
        text = page.get(path).content.decode()
        assert "no usage yet" in text.lower()
        assert ">0.0 %<" not in text
    assert page.get(f"/passes/{record.pk}/").content.decode().count("not known yet") == 2


# cost


@pytest.mark.parametrize("many", [False, True])
def test_the_overview_costs_the_same_with_little_and_much(
    page: Client,
    make_session: Callable[..., Session],
    django_assert_max_num_queries: Callable[..., Any],
    many: bool,
) -> None:
    for number in range(12 if many else 1):
        session = make_session(f"s{number}", passes=20 if many else 1)
        make_incident(session)
        make_usage(session, "pass:1", read=5)
    with django_assert_max_num_queries(OVERVIEW_QUERIES):
        page.get("/")


@pytest.mark.parametrize(
    ("path", "queries"),
    [("/sessions/", 4), ("/passes/", 4), ("/incidents/", 4), ("/sessions/{s}/", 10), ("/passes/{p}/", 6)],
)
def test_no_page_costs_more_with_more_rows(
    page: Client,
    make_session: Callable[..., Session],
    django_assert_max_num_queries: Callable[..., Any],
    path: str,
    queries: int,
) -> None:
    for number in range(10):
        session = make_session(f"s{number}", passes=10)
        for _ in range(3):
            make_incident(session)
    record = session.passes.latest("pk")
    with django_assert_max_num_queries(queries):
        page.get(path.format(s=session.pk, p=record.pk))


def test_the_newest_passes_of_a_session_are_read_off_an_index(make_session: Callable[..., Session]) -> None:
    session = make_session("first", passes=2)
    if connection.vendor != "sqlite":
        pytest.skip("a small table on this database is read whole, whatever its indexes")
    plan = Pass.objects.filter(session=session).order_by("-id")[:50].explain()
    assert "pass_session_newest" in plan
    assert "TEMP B-TREE" not in plan
