"""The one row of a head (history-render 13)."""

from __future__ import annotations

from dataclasses import fields

import pytest
from django.db import IntegrityError, transaction

from magiccontext.engine.head.model import Markers, Pair
from sessions_app import models
from tests.memory.test_compartments import PAIR

pytestmark = pytest.mark.django_db


def test_a_pair_comes_back_as_it_went(session: models.Session) -> None:
    head = models.HeadState(session=session)
    head.store_pair(PAIR)
    head.save()
    assert models.HeadState.objects.get(session=session).pair() == PAIR
    assert head.visible_count == 3


def test_5_a_pair_that_covers_nothing_is_another_thing_than_no_pair(session: models.Session) -> None:
    head = models.HeadState(session=session)
    assert head.pair() is None
    empty = Pair(m0="<session-history></session-history>", m1="<session-history-since>…")
    head.store_pair(empty)
    head.save()
    pair = models.HeadState.objects.get(session=session).pair()
    assert pair == empty
    assert pair is not None and pair.complete and pair.boundary is None


def test_8_a_half_is_kept_as_a_half(session: models.Session) -> None:
    head = models.HeadState(session=session)
    head.store_pair(Pair(m0="x", m1=""))
    pair = head.pair()
    assert pair is not None and not pair.complete


def test_every_marker_has_its_column() -> None:
    columns = {field.name for field in models.HeadState._meta.get_fields()}
    assert {marker.name for marker in fields(Markers)} <= columns


def test_a_session_has_one_head_with_a_whole_boundary(session: models.Session) -> None:
    models.HeadState.objects.create(session=session)
    with pytest.raises(IntegrityError), transaction.atomic():
        models.HeadState.objects.create(session=session)
    with pytest.raises(IntegrityError), transaction.atomic():
        models.HeadState.objects.filter(session=session).update(boundary_mid="m3")


def test_the_structural_log_is_append_only(session: models.Session) -> None:
    row = models.M0Mutation.objects.create(session=session, type="compartment_delete", target=0)
    row.target = 1
    with pytest.raises(TypeError):
        row.save()
