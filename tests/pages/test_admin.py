"""The admin of sessions: everything can be looked at, nothing written, whole sessions deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db.models import Model
from django.test import Client

from sessions_app import models
from tests.pages.rows import days_ago, make_incident, make_pass, make_usage

pytestmark = pytest.mark.django_db

RECORDS = [model for model in apps.get_app_config("sessions_app").get_models() if model is not models.HostKey]
LIST_QUERIES = 16


@pytest.fixture
def root(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root", password="x"))
    return client


@pytest.fixture
def full(make_session: Callable[..., models.Session], owner: User) -> models.Session:
    """A session with a row of everything."""
    session = make_session("first", engine_state={"tag_counter": 7})
    record = make_pass(session)
    make_incident(session)
    make_usage(session, "pass:1", read=1, pass_record=record)
    now = days_ago(0)
    rows: list[Model] = [
        models.Lineage(session=session, number=1),
        models.RawMessage(
            session=session, lineage=1, ordinal=1, mid="m1", role="user", digest=b"", created=now,
            raw=b'{"content":"<b>caf\xc3\xa9</b>"}' + b"x" * 5000,
        ),
        models.ServedForm(session=session, mid="m1", since_version=1, body=b"served \xff bytes"),
        models.Tag(session=session, number=1, type="message", mid="m1", part=0),
        models.PendingDrop(session=session, number=1, queued_at=now),
        models.Notice(session=session, text="Full.", created=now),
        models.RequestReceipt(owner=owner, key="k1", body_digest=b"", session=session, created=now),
        models.EventReceipt(session=session, event_id="e1", created=now),
        models.ToolReceipt(session=session, call_key="c1", tool="ctx_reduce", answer={}, created=now),
        models.Compartment(session=session, sequence=0, start=1, end=1, title="T", p1="did it"),
        models.CompartmentEvent(session=session, kind="causal_incident"),
        models.M0Mutation(session=session, type="compartment_delete", target=0),
        models.Directive(session=session, directive_id="marker-1", kind="compaction_marker", body={}),
        models.HeadState(session=session, m0=b"<session-history>", m1=b""),
    ]  # fmt: skip
    for row in rows:
        row.save()
    return session


def address(model: type[Model], page: str = "") -> str:
    return f"/admin/sessions_app/{model._meta.model_name}/{page}"


@pytest.mark.parametrize("model", RECORDS)
def test_every_record_is_listed_searched_and_looked_at(
    root: Client, full: models.Session, model: type[Model]
) -> None:
    assert model in admin.site._registry
    row = model._default_manager.get()
    for query in ({}, {"q": "first"}):
        page = root.get(address(model), query)
        assert page.status_code == 200
        assert page.context["cl"].result_count == 1, query
    assert root.get(address(model, f"{row.pk}/change/")).status_code == 200


@pytest.mark.parametrize("model", RECORDS)
def test_no_record_is_added_or_changed_by_hand(
    root: Client, full: models.Session, model: type[Model]
) -> None:
    row = model._default_manager.get()
    assert root.get(address(model, "add/")).status_code == 403
    page = root.get(address(model, f"{row.pk}/change/")).content
    assert b'name="_save"' not in page
    assert root.post(address(model, f"{row.pk}/change/"), {"version": 9}).status_code == 403


@pytest.mark.parametrize("model", [model for model in RECORDS if model is not models.Session])
def test_no_part_of_a_session_is_deleted_alone(
    root: Client, full: models.Session, model: type[Model]
) -> None:
    row = model._default_manager.get()
    assert root.post(address(model, f"{row.pk}/delete/"), {"post": "yes"}).status_code == 403
    root.post(address(model), {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"})
    assert model._default_manager.filter(pk=row.pk).exists()


def test_a_session_is_deleted_with_everything_of_it(
    root: Client, full: models.Session, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    page = root.get(address(models.Session, f"{full.pk}/delete/")).content.decode()
    assert "custom/first (live: its next request rebuilds the whole prefix)" in page
    for model in RECORDS:
        assert f"{model._meta.verbose_name_plural}: 1" in page.lower()
    with django_capture_on_commit_callbacks(execute=False) as marked:
        root.post(address(models.Session, f"{full.pk}/delete/"), {"post": "yes"})
    full.refresh_from_db()
    assert full.cleanup_pending
    for finish in marked:
        finish()
    for model in RECORDS:
        assert not model._default_manager.exists(), model


def test_several_sessions_are_deleted_by_the_action(
    root: Client,
    make_session: Callable[..., models.Session],
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    kept = make_session("kept", last_seen=days_ago(5))
    going = [make_session(f"s{number}", passes=1, last_seen=days_ago(5)) for number in range(2)]
    form = {"action": "delete_selected", "_selected_action": [session.pk for session in going]}
    asked = root.post(address(models.Session), form).content.decode()
    assert "custom/s0" in asked
    assert "(live" not in asked
    with django_capture_on_commit_callbacks(execute=True):
        root.post(address(models.Session), {**form, "post": "yes"})
    assert list(models.Session.objects.all()) == [kept]
    assert not models.Pass.objects.exists()


def test_who_may_only_look_deletes_nothing(client: Client, full: models.Session) -> None:
    viewer = User.objects.create_user("eve", password="x", is_staff=True)
    viewer.user_permissions.add(
        Permission.objects.get(content_type__app_label="sessions_app", codename="view_session")
    )
    client.force_login(viewer)
    assert client.get(address(models.Session, f"{full.pk}/change/")).status_code == 200
    assert client.post(address(models.Session, f"{full.pk}/delete/"), {"post": "yes"}).status_code == 403
    assert client.get(address(models.RawMessage)).status_code == 403


def test_bytes_are_shown_decoded_escaped_and_bounded(root: Client, full: models.Session) -> None:
    message = models.RawMessage.objects.get()
    page = root.get(address(models.RawMessage, f"{message.pk}/change/")).content.decode()
    assert "&lt;b&gt;café&lt;/b&gt;" in page
    assert f"first 4096 of {len(message.raw)} bytes" in page
    assert "x" * 4097 not in page
    form = models.ServedForm.objects.get()
    assert (
        "served \ufffd bytes" in root.get(address(models.ServedForm, f"{form.pk}/change/")).content.decode()
    )
    assert '"tag_counter&quot;: 7' in root.get(
        address(models.Session, f"{full.pk}/change/")
    ).content.decode().replace("&quot;tag", '"tag')


@pytest.mark.parametrize("model", RECORDS)
def test_a_list_costs_the_same_with_more_rows(
    root: Client,
    full: models.Session,
    make_session: Callable[..., models.Session],
    owner: User,
    django_assert_max_num_queries: Callable[..., Any],
    model: type[Model],
) -> None:
    row = model._default_manager.get()
    for number in range(LIST_QUERIES + 4):
        # A copy of the row, in a session of its own.
        row.pk = None
        row._state.adding = True
        if model is models.Session:
            row.sid = f"s{number}"
        else:
            row.session = make_session(f"s{number}")
        if model is models.RequestReceipt:
            row.key = f"k{number + 2}"
        row.save()
    with django_assert_max_num_queries(LIST_QUERIES):
        assert root.get(address(model)).context["cl"].result_count == LIST_QUERIES + 5
