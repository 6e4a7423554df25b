"""A person who is logged in, and sessions of theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from sessions_app.models import Session
from tests.pages.rows import make_pass


@pytest.fixture
def owner(db: None) -> User:
    return User.objects.create_user("ada", password="a long enough secret")


@pytest.fixture
def page(client: Client, owner: User) -> Client:
    """A browser in which the owner is logged in."""
    client.force_login(owner)
    return client


@pytest.fixture
def make_session(owner: User) -> Callable[..., Session]:
    def make(sid: str, passes: int = 0, **fields: Any) -> Session:
        session = Session.objects.create(
            **{
                "owner": owner,
                "harness": "custom",
                "sid": sid,
                "format": "anthropic",
                "model": "anthropic/claude-sonnet-4-5",
                "usable_limit": 160_000,
                "context_limit": 160_000,
                "threshold": 65.0,
                "usage_percentage": 40.0,
                "input_tokens": 64_000,
                "last_seen": timezone.now(),
                **fields,
            }
        )
        for number in range(passes):
            make_pass(session, usage_percentage=20.0 + number)
        return session

    return make
