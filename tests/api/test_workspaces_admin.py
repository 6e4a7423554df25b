"""Workspaces over the admin API (dashboard-cli 2.3 and 2.5)."""

from __future__ import annotations

from typing import Any

import pytest

from memory_app.models import Project, Workspace
from tests.api.conftest import get
from tests.api.test_memories_admin import Admin, epoch

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(db: None) -> Admin:
    return Admin()


@pytest.fixture
def two(admin: Admin) -> list[Project]:
    return [admin.project("git:" + letter * 40) for letter in "ab"]


def body(*projects: Project, **more: Any) -> dict[str, Any]:
    return {
        "name": "shop",
        "members": [{"project": project.pk, "display_name": f"p{project.pk}"} for project in projects],
        **more,
    }


def test_it_works(admin: Admin, two: list[Project]) -> None:
    made = admin.post("workspaces/", body(*two))
    assert made.status_code == 201, made.content
    row = made.json()
    assert (row["name"], row["share_categories"]) == ("shop", ["CONSTRAINTS"])
    assert [member["identity"] for member in row["members"]] == [project.identity for project in two]
    assert admin.listed("workspaces/") == [row] == [get(admin.key, f"workspaces/{row['id']}/").json()]
    assert {project["workspace"] for project in admin.listed("projects/")} == {row["id"]}
    assert admin.delete(f"workspaces/{row['id']}/").status_code == 204
    assert admin.listed("workspaces/") == []
    assert [epoch(project) for project in two] == [2, 2]


def test_what_is_left_out_stays(admin: Admin, two: list[Project]) -> None:
    number = admin.post("workspaces/", body(*two, share_categories=["NAMING"])).json()["id"]
    for change, steps in (
        ({"name": "store"}, 1),
        ({"share_categories": []}, 2),
        ({}, 2),
        ({"members": [{"project": two[0].pk}]}, 3),
    ):
        answer = admin.patch(f"workspaces/{number}/", change)
        assert answer.status_code == 200, answer.content
        assert epoch(two[0]) == steps, change
    row = answer.json()
    assert (row["name"], row["share_categories"], len(row["members"])) == ("store", [], 1)


def test_a_list_nobody_understands_stays_until_it_is_replaced(admin: Admin, two: list[Project]) -> None:
    number = admin.post("workspaces/", body(*two)).json()["id"]
    Workspace.objects.update(share_categories={"odd": 1})
    assert admin.patch(f"workspaces/{number}/", {"name": "store"}).json()["share_categories"] == {"odd": 1}
    assert epoch(two[0]) == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "taken"}, "name"),
        ({"share_categories": ["SECRETS"]}, "share_categories"),
        ({"share_categories": "NAMING"}, "share_categories"),
        ({"members": [{"project": 10**9}]}, "members.0.project"),
        ({"members": [{"display_name": "x"}]}, "members.0.project"),
        ({"members": "none"}, "members"),
    ],
)
def test_a_body_that_does_not_fit_names_its_member(
    admin: Admin, two: list[Project], change: dict[str, Any], field: str
) -> None:
    admin.post("workspaces/", {"name": "taken"})
    answer = admin.post("workspaces/", body(*two, **change))
    assert answer.status_code in (404, 422)
    assert answer.json()["field"] == field
    assert Workspace.objects.count() == 1


def test_nobody_changes_another_s(admin: Admin, two: list[Project]) -> None:
    number = admin.post("workspaces/", body(*two)).json()["id"]
    bob = Admin("bob")
    assert bob.listed("workspaces/") == []
    assert get(bob.key, f"workspaces/{number}/").status_code == 404
    assert bob.patch(f"workspaces/{number}/", {"name": "mine"}).status_code == 404
    assert bob.delete(f"workspaces/{number}/").status_code == 404
    assert Workspace.objects.get().name == "shop"
