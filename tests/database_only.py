"""`pytest -p tests.database_only`: run only the tests that use the database (once more, on another one)."""

import pytest

DATABASE_FIXTURES = frozenset({"db", "transactional_db", "live_server"})


def _uses_database(item: pytest.Item) -> bool:
    fixtures = set(getattr(item, "fixturenames", ()))
    return item.get_closest_marker("django_db") is not None or bool(fixtures & DATABASE_FIXTURES)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect every test that never touches the database."""
    others = [item for item in items if not _uses_database(item)]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if _uses_database(item)]
