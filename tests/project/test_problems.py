"""Every error leaves as a problem (hosts.md section 10.5)."""

import json
from typing import Any

import pytest
from django.test import Client, override_settings

from magiccontext.api.problems import CODE_OF_STATUS, PROBLEMS, ProblemError, response_of

pytestmark = pytest.mark.urls("tests.project.urls")


@pytest.fixture
def client() -> Client:
    return Client(raise_request_exception=False)


def post(client: Client, how: str, body: Any = None, **extra: Any) -> Any:
    return client.post(f"/api/test/fail/{how}", json.dumps(body or {}), "application/json", **extra)


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    assert (response.status_code, response["Content-Type"]) == (status, "application/problem+json")
    body: dict[str, Any] = json.loads(response.content)
    assert {"type", "title", "status", "detail", "code"} <= body.keys()
    assert (body["status"], body["code"]) == (status, code)
    return body


def test_a_raised_problem_carries_its_members(client: Client) -> None:
    assert problem(post(client, "gap"), 409, "history_gap")["from"] == 93


def test_a_time_to_wait_becomes_a_header_of_at_least_one_second(client: Client) -> None:
    response = post(client, "busy")
    problem(response, 503, "storage_busy")
    assert response["Retry-After"] == "1"


def test_the_field_at_fault_is_named(client: Client) -> None:
    assert problem(post(client, "field"), 422, "invalid_params")["field"] == "messages.3"


def test_an_unexpected_error_is_answered_without_a_word_of_it(client: Client) -> None:
    response = post(client, "crash")
    problem(response, 500, "internal_error")
    assert b"secret" not in response.content


def test_a_plain_view_that_fails_answers_in_the_same_way(client: Client) -> None:
    response = client.get("/api/test/crash")
    problem(response, 500, "internal_error")
    assert b"secret" not in response.content


@pytest.mark.parametrize(
    ("how", "status", "code"),
    [("missing", 404, "not_found"), ("denied", 403, "forbidden"), ("big", 413, "too_large")],
)
def test_the_errors_of_django_become_problems(client: Client, how: str, status: int, code: str) -> None:
    response = post(client, how)
    problem(response, status, code)
    assert b"secret" not in response.content


def test_a_throttled_call_says_how_long_to_wait(client: Client) -> None:
    response = post(client, "slow")
    problem(response, 429, "throttled")
    assert response["Retry-After"] == "8"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"limits": {"soft": 1}}, "model"),
        ({"model": "m", "limits": {"soft": 11}}, "limits.soft"),
        ({"model": "m", "limits": {"soft": 1}, "items": [{"soft": 1}, {"soft": "x"}]}, "items.1.soft"),
    ],
)
def test_a_body_that_does_not_fit_names_the_first_field(client: Client, body: Any, field: str) -> None:
    assert problem(post(client, "valid", body), 422, "invalid_params")["field"] == field


def test_broken_json_is_not_quoted_back(client: Client) -> None:
    response = client.post("/api/test/fail/valid", '{"k": sk-secret', "application/json")
    problem(response, 422, "invalid_params")
    assert b"sk-secret" not in response.content


def test_a_foreign_media_type_a_method_and_an_accept_header(client: Client) -> None:
    problem(client.post("/api/test/fail/valid", "<a/>", "text/xml"), 415, "unsupported_media_type")
    response = client.get("/api/test/fail/valid")
    problem(response, 405, "method_not_allowed")
    assert "POST" in response["Allow"]
    problem(post(client, "gap", HTTP_ACCEPT="text/html"), 406, "not_acceptable")


def test_an_unknown_address_is_a_problem_to_programs_and_a_page_to_people(client: Client) -> None:
    problem(client.get("/api/nowhere"), 404, "not_found")
    page = client.get("/nowhere")
    assert (page.status_code, page["Content-Type"]) == (404, "text/html; charset=utf-8")


def test_a_page_that_fails_is_a_page(client: Client) -> None:
    page = client.get("/page/crash")
    assert page.status_code == 500
    assert b"secret" not in page.content
    assert b"<h1>" in page.content


@override_settings(ALLOWED_HOSTS=["known.example"])
def test_an_unknown_host_name_is_refused(client: Client) -> None:
    problem(client.get("/api/v1/x", HTTP_HOST="evil.example"), 400, "invalid_params")
    assert client.get("/login/", HTTP_HOST="evil.example").status_code == 400


def test_a_problem_can_be_answered_from_a_plain_view() -> None:
    response = response_of(ProblemError("need_full_sync", "Send it all.", retry_after=3, base=None))
    assert problem(response, 409, "need_full_sync")["detail"] == "Send it all."
    assert response["Retry-After"] == "3"


def test_an_unknown_code_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        ProblemError("no_such_code", "x")


def test_the_tables_agree() -> None:
    assert set(CODE_OF_STATUS.values()) <= PROBLEMS.keys()
    assert all(400 <= kind.status < 600 and kind.title for kind in PROBLEMS.values())
