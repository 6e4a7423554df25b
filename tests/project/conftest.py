"""A user with a key, for tests of the project around the engine."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from sessions_app.models import HostKey


@pytest.fixture
def owner(db: None) -> User:
    return User.objects.create_user("ada", password="a long enough secret")


@pytest.fixture
def make_key(owner: User) -> Callable[..., tuple[HostKey, str]]:
    def make(**fields: Any) -> tuple[HostKey, str]:
        return HostKey.objects.create_key(**{"name": "test", "owner": owner, **fields})

    return make
