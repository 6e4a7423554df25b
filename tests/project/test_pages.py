"""What a browser gets: private pages, headers, files, and no inline code."""

import re
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from magiccontext.security import policy_text

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.project.urls")]

INLINE = re.compile(
    rb"<style|\sstyle=|\son[a-z]+=|javascript:|<script(?![^>]*\ssrc=)(?![^>]*application/json)", re.I
)


def assert_safe(response: Any) -> None:
    assert response["Content-Security-Policy"] == policy_text()
    assert response["X-Frame-Options"] == "DENY"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Referrer-Policy"] == "same-origin"
    found = INLINE.search(response.content)
    assert found is None, response.content[max(0, found.start() - 80) : found.end() + 80]


def test_the_policy_allows_nothing_inline() -> None:
    assert "unsafe" not in policy_text()
    assert "default-src 'self'" in policy_text()


def test_a_page_asks_for_a_login(client: Client) -> None:
    response = client.get("/")
    assert (response.status_code, response["Location"]) == (302, "/login/?next=/")


def test_the_login_works_and_says_little_when_it_does_not(client: Client, owner: User) -> None:
    page = client.get("/login/?next=/")
    assert_safe(page)
    wrong = client.post("/login/", {"username": "ada", "password": "wrong"})
    assert b"do not belong together" in wrong.content
    assert_safe(wrong)
    right = client.post("/login/", {"username": "ada", "password": "a long enough secret", "next": "/"})
    assert (right.status_code, right["Location"]) == (302, "/")
    for name in ("sessionid", "csrftoken"):
        if name in right.cookies:
            assert right.cookies[name]["samesite"] == "Lax"
    assert_safe(client.get("/"))


def test_the_login_leads_to_no_other_site(client: Client, owner: User) -> None:
    response = client.post(
        "/login/", {"username": "ada", "password": "a long enough secret", "next": "https://evil.example/"}
    )
    assert response["Location"] == "/"


def test_logging_out_is_a_post(client: Client, owner: User) -> None:
    client.force_login(owner)
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/")["Location"] == "/login/"


@pytest.mark.parametrize("path", ["/admin/", "/admin/auth/user/", "/admin/auth/user/add/"])
def test_the_admin_works_under_the_policy(client: Client, path: str) -> None:
    client.force_login(User.objects.create_superuser("root", password="x"))
    response = client.get(path)
    assert response.status_code == 200
    assert_safe(response)


@pytest.mark.parametrize("path", ["/nowhere", "/api/docs/", "/login/"])
def test_every_page_is_safe(client: Client, path: str) -> None:
    assert_safe(client.get(path))


def test_the_api_page_needs_nothing_from_elsewhere(client: Client) -> None:
    page = client.get("/api/docs/").content.decode()
    sources = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert sources
    assert all(source.startswith("/") and not source.startswith("//") for source in sources)
    for source in sources:
        assert client.get(source.replace("&amp;", "&")).status_code == 200, source


def test_the_description_of_the_api_is_generated(client: Client) -> None:
    response = client.get("/api/schema/")
    assert response.status_code == 200
    assert b"openapi: 3" in response.content


@pytest.mark.parametrize("name", ["magiccontext/panel.css", "magiccontext/icon.svg", "admin/css/base.css"])
def test_static_files_come_without_being_collected(client: Client, name: str) -> None:
    response = client.get(f"/static/{name}")
    assert response.status_code == 200
    assert len(response.content) > 50
    again = client.get(f"/static/{name}", headers={"If-None-Match": response["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_nothing_outside_the_static_folders_is_served(client: Client) -> None:
    for path in ("/static/../settings.py", "/static/%2e%2e/settings.py", "/static/magiccontext/none.css"):
        assert client.get(path).status_code == 404


def test_an_asynchronous_view_passes_all_middleware() -> None:
    response = async_to_sync(AsyncClient().get)("/api/test/async")
    assert response.status_code == 200
    assert response["Content-Security-Policy"] == policy_text()
    assert async_to_sync(AsyncClient().get)("/static/magiccontext/panel.css").status_code == 200
