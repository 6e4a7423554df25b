"""Projects and memories over the admin API (design section 8; dashboard-cli 2.3 and 9)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memory_app.models import Memory, MemoryMutation, Project, ProjectState
from tests.api.conftest import get, locked, make_key

pytestmark = pytest.mark.django_db


class Admin:
    """Calls the admin API with one key."""

    def __init__(self, name: str = "ada", *scopes: str) -> None:
        self.key = make_key(name, *(scopes or ("admin",)))
        self.owner = User.objects.get(username=name)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return Client().generic(
            method,
            f"/api/v1/{path}",
            b"" if body is None else json.dumps(body).encode(),
            content_type="application/json",
            headers={"Authorization": f"Bearer {self.key}"},
        )

    def post(self, path: str, body: Any) -> Any:
        return self.call("POST", path, body)

    def patch(self, path: str, body: Any) -> Any:
        return self.call("PATCH", path, body)

    def delete(self, path: str) -> Any:
        return self.call("DELETE", path)

    def listed(self, path: str, **query: Any) -> list[dict[str, Any]]:
        answer = get(self.key, path, **query)
        assert answer.status_code == 200, answer.content
        rows: list[dict[str, Any]] = answer.json()["results"]
        return rows

    def project(self, identity: str = "git:" + "a" * 40, **fields: Any) -> Project:
        return Project.objects.create(owner=self.owner, identity=identity, **fields)

    def memory(self, project: Project, content: str = "tabs", category: str = "CONSTRAINTS") -> int:
        answer = self.post("memories/", {"project": project.pk, "category": category, "content": content})
        assert answer.status_code == 201, answer.content
        number: int = answer.json()["id"]
        return number


@pytest.fixture
def admin(db: None) -> Admin:
    return Admin()


@pytest.fixture
def project(admin: Admin) -> Project:
    return admin.project()


def epoch(project: Project) -> int:
    return ProjectState.objects.filter(project=project).values_list("memory_epoch", flat=True).first() or 0


def test_it_works(admin: Admin, project: Project) -> None:
    number = admin.memory(project, "  tabs, not spaces ")
    (row,) = admin.listed("memories/")
    assert (row["id"], row["content"], row["identity"]) == (number, "tabs, not spaces", project.identity)
    assert (row["source_type"], row["status"], row["importance"]) == ("user", "active", 50)
    assert get(admin.key, f"memories/{number}/").json() == row
    answer = admin.patch(f"memories/{number}/", {"content": "spaces"})
    assert (answer.status_code, answer.json()["content"]) == (200, "spaces")
    assert admin.delete(f"memories/{number}/").status_code == 204
    assert get(admin.key, f"memories/{number}/").status_code == 404
    assert list(MemoryMutation.objects.order_by("pk").values_list("type", flat=True)) == ["update", "delete"]


def test_the_same_text_again_is_no_second_row(admin: Admin, project: Project) -> None:
    number = admin.memory(project)
    again = admin.post("memories/", {"project": project.pk, "category": "CONSTRAINTS", "content": "TABS"})
    assert (again.status_code, again.json()["id"], again.json()["seen_count"]) == (200, number, 2)


def test_lists_are_filtered_and_paged(admin: Admin, project: Project) -> None:
    other = admin.project("dir:0123456789ab")
    admin.memory(project, "one")
    two = admin.memory(project, "two 100%", "NAMING")
    three = admin.memory(other, "three")
    admin.patch(f"memories/{three}/", {"status": "archived"})
    for query, contents in (
        ({}, ["three", "one", "two 100%"]),
        ({"project": project.pk}, ["one", "two 100%"]),
        ({"project": other.identity}, ["three"]),
        ({"category": "NAMING"}, ["two 100%"]),
        ({"status": "archived"}, ["three"]),
        ({"search": "TWO"}, ["two 100%"]),
        ({"search": "0%"}, ["two 100%"]),
        ({"limit": 1, "offset": 2}, ["two 100%"]),
        ({"project": 10**9}, []),
    ):
        assert [row["content"] for row in admin.listed("memories/", **query)] == contents, query
    assert admin.listed("memories/", search="two")[0]["id"] == two


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"status": "gone"}, "status"),
        ({"project": "9" * 30}, "project"),
        ({"project": "a\x00"}, "project"),
        ({"search": "a\x00"}, "search"),
        ({"search": "x" * 513}, "search"),
    ],
)
def test_a_filter_that_cannot_be_one(admin: Admin, query: dict[str, str], field: str) -> None:
    answer = get(admin.key, "memories/", **query)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"project": None}, "project"),
        ({"project": 2**64}, "project"),
        ({"category": "GOSSIP"}, "category"),
        ({"content": " "}, "content"),
        ({"content": "a\x00b"}, "content"),
        ({"content": "\ud83d"}, "content"),
        ({"content": "x" * 65_537}, "content"),
        ({"importance": 101}, "importance"),
    ],
)
def test_a_body_that_does_not_fit_names_its_member(
    admin: Admin, project: Project, change: dict[str, Any], field: str
) -> None:
    body = {"project": project.pk, "category": "NAMING", "content": "x", **change}
    answer = admin.post("memories/", body)
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (
        422,
        "invalid_params",
        field,
    )
    assert not Memory.objects.exists()


def test_24_an_edit_is_told_once_and_an_unchanged_one_not_at_all(admin: Admin, project: Project) -> None:
    number = admin.memory(project)
    for body, epochs, rows in (
        ({"content": "tabs"}, 0, 0),
        ({"status": "active"}, 0, 0),
        ({}, 0, 0),
        ({"content": "spaces"}, 0, 1),
        ({"status": "permanent"}, 1, 1),
        ({"category": "NAMING"}, 2, 1),
        ({"status": "archived"}, 2, 2),
        ({"status": "active"}, 3, 2),
    ):
        assert admin.patch(f"memories/{number}/", body).status_code == 200
        assert (epoch(project), MemoryMutation.objects.count()) == (epochs, rows), body


def test_52_an_edit_that_makes_two_equal_is_refused_with_the_other_id(admin: Admin, project: Project) -> None:
    one, two = admin.memory(project, "one"), admin.memory(project, "two")
    answer = admin.patch(f"memories/{two}/", {"content": "One"})
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["field"]) == (422, "invalid_params", "content")
    assert (problem["reason"], problem["duplicate_of"]) == ("duplicate", one)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"status": "gone"}, "status"),
        ({"category": "KNOWN_ISSUES"}, "category"),
        ({"scope": "galaxy"}, "scope"),
        ({"content": ""}, "content"),
        ({"importance": 0}, "importance"),
    ],
)
def test_an_edit_that_does_not_fit(admin: Admin, project: Project, body: dict[str, Any], field: str) -> None:
    answer = admin.patch(f"memories/{admin.memory(project)}/", body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_a_legacy_category_may_stay(admin: Admin, project: Project) -> None:
    number = admin.memory(project)
    Memory.objects.filter(pk=number).update(category="KNOWN_ISSUES")
    answer = admin.patch(f"memories/{number}/", {"category": "KNOWN_ISSUES", "content": "other"})
    assert (answer.status_code, answer.json()["category"]) == (200, "KNOWN_ISSUES")


def test_26_archived_comes_back_and_deleted_does_not(admin: Admin, project: Project) -> None:
    ids = [admin.memory(project, "one"), admin.memory(project, "two")]
    for action, changed, statuses in (
        ("archive", ids, {"archived"}),
        ("archive", [], {"archived"}),
        ("restore", ids, {"active"}),
        ("pin", ids, {"permanent"}),
        ("restore", [], {"permanent"}),
        ("unpin", ids, {"active"}),
        ("delete", ids, set()),
    ):
        answer = admin.post("memories/bulk/", {"ids": ids, "action": action})
        assert (answer.status_code, answer.json()) == (200, {"changed": changed}), action
        assert set(Memory.objects.values_list("status", flat=True)) == statuses
    assert epoch(project) == 3
    assert admin.post("memories/bulk/", {"ids": ids, "action": "restore"}).status_code == 404


def test_bulk_is_all_or_none(admin: Admin, project: Project) -> None:
    number = admin.memory(project)
    answer = admin.post("memories/bulk/", {"ids": [number, number + 7], "action": "archive"})
    assert (answer.status_code, answer.json()["field"]) == (404, "ids")
    assert Memory.objects.get().status == "active"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"ids": [], "action": "pin"}, "ids"),
        ({"ids": [0], "action": "pin"}, "ids.0"),
        ({"ids": [2**70], "action": "pin"}, "ids.0"),
        ({"ids": [1], "action": "burn"}, "action"),
        ({"ids": [1], "action": "set_category"}, "category"),
        ({"ids": list(range(1, 1002)), "action": "pin"}, "ids"),
    ],
)
def test_a_bulk_that_does_not_fit(admin: Admin, body: dict[str, Any], field: str) -> None:
    answer = admin.post("memories/bulk/", body)
    assert answer.status_code == 422
    assert answer.json()["field"].split(".")[0] == field.split(".")[0]


def test_categories_are_set_together(admin: Admin, project: Project) -> None:
    ids = [admin.memory(project, "one"), admin.memory(project, "two", "NAMING")]
    body = {"ids": ids, "action": "set_category", "category": "NAMING"}
    assert admin.post("memories/bulk/", body).json() == {"changed": ids[:1]}
    assert epoch(project) == 1


# --- who ------------------------------------------------------------------------------------------------


def test_nobody_sees_or_changes_another_s_rows(admin: Admin, project: Project) -> None:
    number = admin.memory(project)
    bob = Admin("bob")
    assert bob.listed("memories/") == bob.listed("projects/") == []
    missing = bob.patch(f"memories/{number + 1}/", {"content": "x"})
    foreign = bob.patch(f"memories/{number}/", {"content": "x"})
    assert foreign.status_code == missing.status_code == 404
    assert foreign.json()["detail"].replace(str(number), "N") == missing.json()["detail"].replace(
        str(number + 1), "N"
    )
    assert bob.delete(f"memories/{number}/").status_code == 404
    assert bob.post("memories/bulk/", {"ids": [number], "action": "delete"}).status_code == 404
    body = {"project": project.pk, "category": "NAMING", "content": "x"}
    assert (bob.post("memories/", body).status_code, bob.post("memories/", body).json()["field"]) == (
        404,
        "project",
    )
    assert Memory.objects.get().content == "tabs"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "projects/"), ("GET", "memories/"), ("POST", "memories/"), ("GET", "memories/1/"),
        ("PATCH", "memories/1/"), ("DELETE", "memories/1/"), ("POST", "memories/bulk/"),
        ("GET", "workspaces/"), ("POST", "workspaces/"), ("PATCH", "workspaces/1/"),
        ("DELETE", "workspaces/1/"), ("GET", "compartments/"), ("POST", "compartments/"),
        ("PATCH", "compartments/1/"), ("DELETE", "compartments/1/"),
    ],
)  # fmt: skip
def test_only_an_admin_key_gets_in(db: None, method: str, path: str) -> None:
    assert Admin("ada", "host").call(method, path, {}).status_code == 403


@pytest.mark.django_db(transaction=True)
def test_busy_storage_is_said_and_nothing_is_changed() -> None:
    admin = Admin()
    number = admin.memory(admin.project())
    with locked():
        answer = admin.patch(f"memories/{number}/", {"content": "spaces"})
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_busy")
    assert answer.headers["Retry-After"] == "2"
    assert Memory.objects.get().content == "tabs"


def test_projects_are_listed_with_what_they_hold(admin: Admin, project: Project) -> None:
    admin.project("dir:0123456789ab", directory="/srv/shop", display_name="Shop")
    admin.patch(f"memories/{admin.memory(project)}/", {"status": "permanent"})
    rows = {row["identity"]: row for row in admin.listed("projects/")}
    assert (rows[project.identity]["memories"], rows[project.identity]["memory_epoch"]) == (1, 1)
    assert (rows["dir:0123456789ab"]["memories"], rows["dir:0123456789ab"]["workspace"]) == (0, None)
    assert [row["display_name"] for row in admin.listed("projects/", search="SRV")] == ["Shop"]
    assert [row["id"] for row in admin.listed("projects/", identity=project.identity)] == [project.pk]


def test_the_api_is_described(admin: Admin) -> None:
    schema = Client().get("/api/schema/", headers={"Accept": "application/json"}).json()
    for path, methods in {
        "/api/v1/memories/": {"get", "post"},
        "/api/v1/memories/{id}/": {"get", "patch", "delete"},
        "/api/v1/memories/bulk/": {"post"},
        "/api/v1/projects/": {"get"},
        "/api/v1/workspaces/": {"get", "post"},
        "/api/v1/workspaces/{id}/": {"get", "patch", "delete"},
        "/api/v1/compartments/": {"get", "post"},
        "/api/v1/compartments/{id}/": {"get", "patch", "delete"},
    }.items():
        described = schema["paths"][path]
        assert methods <= set(described), path
        for method in methods & {"post", "patch"}:
            assert described[method]["requestBody"], (path, method)
