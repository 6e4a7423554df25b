"""Whether the process lives, and whether it may be sent work."""

import logging

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from magiccontext.api.problems import problem_response
from magiccontext.schema_fence import schema_state

logger = logging.getLogger(__name__)


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """200 while the process answers at all; asks nothing of the database."""
    return JsonResponse({"status": "ok"})


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """200 when the database answers and has exactly this code's migrations; else 503 and why.

    Codes: `storage_failure`, `schema_fence` (the database is newer), `migration_guard` (it is older).
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        state = schema_state()
    except DatabaseError as error:
        logger.error("the database does not answer: %s", type(error).__name__)
        return problem_response("storage_failure", "The database does not answer.", retry_after=5)
    if state.newer_than_code:
        return problem_response(
            "schema_fence",
            "The database has migrations that this server does not know. Upgrade the server.",
            migrations=list(state.unknown),
        )
    if not state.ready:
        return problem_response(
            "migration_guard",
            "Migrations are waiting. Run `manage.py migrate`, or start with `manage.py serve`.",
            migrations=list(state.missing),
        )
    return JsonResponse({"status": "ready"})
