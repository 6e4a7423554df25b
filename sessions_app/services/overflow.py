"""What a host reports of a provider's error (reclaim-core section 8.2).

The report is acknowledged only once its consequence is stored: whoever calls this lets OperationalError
through, and the host repeats the report.
"""

from __future__ import annotations

from typing import Any

from magiccontext.engine.overflow import parse_overflow
from sessions_app import models
from sessions_app.services.records import overflowed
from sessions_app.services.settings import engine_settings
from sessions_app.services.writing import Writing, exclusive

ProviderError = str | dict[str, Any]


def learn(writing: Writing, error: ProviderError, model: str) -> bool:
    """Learn from ``error`` if it is an overflow; returns whether it is.  The caller commits.

    ``model`` is the key of the model that refused; empty means that of the last pass.
    """
    session = writing.session
    model = model or writing.vars.model or session.model
    after = overflowed(
        writing.vars,
        error,
        model,
        primary=session.role == models.Session.Role.PRIMARY,
        compaction=engine_settings(model).compaction,
    )
    known = after is not writing.vars
    writing.vars = after
    return known


def store_reported(session: models.Session, error: ProviderError) -> None:
    """Learn from the error that comes with a transform request, before its pass.

    It is about the request before, so about the model of the last pass.  Hold the session's turn.
    """
    if parse_overflow(error).is_overflow:
        with exclusive(session.pk) as writing:
            learn(writing, error, "")
