"""Projects (memory-search.md section 6)."""

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from memory_app.models import Project

pytestmark = pytest.mark.django_db


def test_an_identity_is_one_project_of_its_owner_and_another_of_the_next(owner: User) -> None:
    identity = "git:" + "a" * 40
    Project.objects.create(owner=owner, identity=identity)
    with pytest.raises(IntegrityError), transaction.atomic():
        Project.objects.create(owner=owner, identity=identity)
    Project.objects.create(owner=User.objects.create_user("bob"), identity=identity)


@pytest.mark.parametrize("identity", ["", "  "])
def test_a_blank_identity_is_unusable(owner: User, identity: str) -> None:
    with pytest.raises(ValidationError):
        Project(owner=owner, identity=identity).full_clean()


def test_the_database_itself_refuses_an_empty_one(owner: User) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Project.objects.create(owner=owner, identity="")


@pytest.mark.parametrize(
    ("identity", "repository"),
    [
        ("git:" + "a" * 40, True),
        ("git:" + "0" * 64, True),
        ("git:main", False),
        ("dir:0123456789ab", False),
        ("anything a host says", False),
    ],
)
def test_any_identity_of_a_host_is_taken_and_a_repository_is_recognised(
    owner: User, identity: str, repository: bool
) -> None:
    project = Project(owner=owner, identity=identity)
    project.full_clean()
    assert project.is_repository() is repository
