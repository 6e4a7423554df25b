"""Keys and projects in the admin."""

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memory_app.models import Project
from sessions_app.models import HostKey

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root", password="x"))
    return client


def test_a_key_is_made_and_shown_once(admin: Client, owner: User) -> None:
    form = {"name": "laptop", "owner": owner.pk, "scopes": ["host", "replay"], "harnesses": "pi, omp"}
    page = admin.post("/admin/sessions_app/hostkey/add/", form, follow=True)
    found = re.search(r"[A-Za-z0-9]{8}\.[A-Za-z0-9]{32}", page.content.decode())
    assert found is not None
    key = HostKey.objects.get_from_key(found[0])
    assert (key.owner, key.scopes, key.harnesses) == (owner, ["host", "replay"], ["omp", "pi"])
    assert found[0] not in admin.get("/admin/sessions_app/hostkey/").content.decode()


def test_a_key_needs_a_scope(admin: Client, owner: User) -> None:
    page = admin.post(
        "/admin/sessions_app/hostkey/add/", {"name": "laptop", "owner": owner.pk, "harnesses": ""}
    )
    assert page.status_code == 200
    assert not HostKey.objects.exists()


def test_revoking_closes_the_door_for_good(
    admin: Client, make_key: Callable[..., tuple[HostKey, str]]
) -> None:
    host_key, _ = make_key(harnesses=["pi"])
    address = f"/admin/sessions_app/hostkey/{host_key.pk}/change/"
    assert b'value="pi"' in admin.get(address).content
    admin.post(address, {"name": "test", "scopes": ["host"], "harnesses": "pi", "revoked": "on"})
    host_key.refresh_from_db()
    assert host_key.revoked
    page = admin.get(address)
    assert page.status_code == 200
    assert b'name="revoked"' not in page.content


def test_the_keys_of_the_library_have_no_page(admin: Client) -> None:
    assert admin.get("/admin/rest_framework_api_key/apikey/").status_code == 404


def test_projects_are_looked_at_and_not_invented(admin: Client, owner: User) -> None:
    project = Project.objects.create(owner=owner, identity="dir:0123456789ab", display_name="Engine")
    assert b"Engine" in admin.get("/admin/memory_app/project/").content
    assert admin.get(f"/admin/memory_app/project/{project.pk}/change/").status_code == 200
    assert admin.get("/admin/memory_app/project/add/").status_code == 403
