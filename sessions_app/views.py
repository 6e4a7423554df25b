"""Pages: overview, sessions, passes, incidents.  Every page is also JSON at the same address.

`?format=json` or an Accept header asks for JSON.  Lists have 50 rows a page.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.views.decorators.http import require_safe

from sessions_app.models import Incident, Pass
from sessions_app.models.session import HARNESSES
from sessions_app.services import overview as pages
from sessions_app.services.head_facts import head_facts
from sessions_app.services.marks import MARKS
from sessions_app.services.overview import BadFilter, Filters
from sessions_app.services.proof import proof

ROWS = 50
LAST_PASSES = 15
LAST_INCIDENTS = 8

View = Callable[..., HttpResponse]
Facts = Callable[[Any], dict[str, Any]]

# Label of a field → its parameter in the query string, and what can be chosen: (value, word).
FIELDS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "harness": ("harness", [(name, name) for name in HARNESSES]),
    "level": ("level", [(name, MARKS[name].word) for name in Pass.Level.values]),
    "kind": ("level", [(name, MARKS[name].word) for name in Incident.Kind.values]),
    "time": ("days", [(str(n), "last day" if n == 1 else f"last {n} days") for n in pages.DAYS]),
}

# What only the drawing and the forms of a page need; JSON does without.
PAGE_ONLY = frozenset({"now", "listed", "choices", "lanes", "sort", "filters_set", "steps"})


def wants_json(request: HttpRequest) -> bool:
    """Whether a program is asking; an explicit `format` beats the Accept header."""
    asked = request.GET.get("format", "")
    if asked:
        return asked == "json"
    return request.get_preferred_type(["text/html", "application/json"]) == "application/json"


def page(view: View) -> View:
    """A page that is only read: GET and HEAD, private, and 400 for a query string that means nothing."""

    @wraps(view)
    def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            response = view(request, *args, **kwargs)
        except BadFilter as error:
            if wants_json(request):
                response = JsonResponse({"detail": str(error)}, status=400)
            else:
                context = {"detail": str(error)}
                response = render(request, "sessions/bad_filter.html", context, status=400)
        patch_vary_headers(response, ["Accept", "Cookie"])
        patch_cache_control(response, private=True, no_cache=True)
        return response

    return require_safe(answered)


def answer(request: HttpRequest, template: str, data: dict[str, Any]) -> HttpResponse:
    """The data as a page, or as JSON without what only the page needs."""
    if wants_json(request):
        return JsonResponse({key: value for key, value in data.items() if key not in PAGE_ONLY})
    return render(request, template, data)


def paged(request: HttpRequest, rows: QuerySet[Any], facts: Facts) -> dict[str, Any]:
    """One page of rows: `count`, `page`, `pages`, `next` and `previous` page numbers, `results`."""
    chosen = Paginator(rows, ROWS).get_page(request.GET.get("page"))
    return {
        "count": chosen.paginator.count,
        "page": chosen.number,
        "pages": chosen.paginator.num_pages,
        "next": chosen.next_page_number() if chosen.has_next() else None,
        "previous": chosen.previous_page_number() if chosen.has_previous() else None,
        "results": [facts(row) for row in chosen.object_list],
    }


def as_list(request: HttpRequest, rows: QuerySet[Any], facts: Facts) -> dict[str, Any]:
    """The same for a page that is nothing but this list."""
    listed = paged(request, rows, facts)
    return {**listed, "listed": listed}


def form_data(filters: Filters, *fields: str) -> dict[str, Any]:
    """What the filter form of a page offers and what is chosen in it."""
    chosen = {"harness": filters.harness, "level": filters.level, "days": str(filters.days or "")}
    choices = [
        {"name": name, "label": field, "options": options, "chosen": chosen[name]}
        for field, (name, options) in ((field, FIELDS[field]) for field in fields)
    ]
    return {"choices": choices, "filters_set": any(choice["chosen"] for choice in choices)}


@page
def overview(request: HttpRequest) -> HttpResponse:
    """Figures, a lane for each of the newest sessions, last passes, last refusals and faults."""
    now = timezone.now()
    filters = Filters.of(request.GET)
    figures = pages.figures(request.user, filters, now)
    lanes = pages.lanes(request.user, filters, now)
    data = {
        "now": now,
        "figures": figures,
        "lanes": lanes,
        "sessions": [facts for facts, _ in lanes],
        "passes": [pages.pass_facts(row) for row in pages.passes(request.user, filters, now)[:LAST_PASSES]],
        "incidents": [
            pages.incident_facts(row) for row in pages.incidents(request.user, filters, now)[:LAST_INCIDENTS]
        ],
        **form_data(filters, "harness", "level", "time"),
    }
    if not lanes and not data["filters_set"]:
        return answer(request, "sessions/first_run.html", data)
    return answer(request, "sessions/overview.html", data)


@page
def session_list(request: HttpRequest) -> HttpResponse:
    """All sessions, sortable by last seen, usage, tokens or model."""
    now = timezone.now()
    filters = Filters.of(request.GET)
    sort, order = pages.order_by(request.GET, pages.SESSION_ORDER, "-seen")
    rows = pages.sessions(request.user, filters, now).order_by(*order)
    data = {"now": now, "sort": sort, **as_list(request, rows, pages.session_facts)}
    return answer(request, "sessions/session_list.html", {**data, **form_data(filters, "harness", "time")})


@page
def pass_list(request: HttpRequest) -> HttpResponse:
    """All passes, newest first."""
    now = timezone.now()
    filters = Filters.of(request.GET)
    rows = pages.passes(request.user, filters, now)
    data = {"now": now, **as_list(request, rows, pages.pass_facts)}
    return answer(
        request,
        "sessions/pass_list.html",
        {**data, **form_data(filters, "harness", "level", "time")},
    )


@page
def incident_list(request: HttpRequest) -> HttpResponse:
    """All refusals and faults, newest first."""
    now = timezone.now()
    filters = Filters.of(request.GET)
    rows = pages.incidents(request.user, filters, now)
    data = {"now": now, **as_list(request, rows, pages.incident_facts)}
    return answer(
        request,
        "sessions/incident_list.html",
        {**data, **form_data(filters, "harness", "kind", "time")},
    )


@page
def session_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One session: header, head, passes (sortable), tags, pending drops, incidents; 404 for others'."""
    now = timezone.now()
    filters = Filters.of(request.GET)
    session = get_object_or_404(pages.visible(request.user).select_related("owner", "project"), pk=pk)
    sort, order = pages.order_by(request.GET, pages.PASS_ORDER, "-id")
    rows = pages.passes(request.user, filters, now).filter(session=session).order_by(*order)
    wrong = pages.incidents(request.user, Filters(), now).filter(session=session)
    data = {
        "now": now,
        "session": pages.session_facts(session),
        "head": head_facts(session),
        "passes": paged(request, rows, pages.pass_facts),
        "tags": pages.tag_counts(session),
        "pending_drops": pages.pending(session),
        "incidents": [pages.incident_facts(row) for row in wrong[:LAST_INCIDENTS]],
        "sort": sort,
        **form_data(filters, "level", "time"),
    }
    return answer(request, "sessions/session.html", data)


@page
def pass_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One pass as a proof, with the usage its response reported.  404 for somebody else's."""
    now = timezone.now()
    record = get_object_or_404(pages.with_clauses(pages.passes(request.user, Filters(), now)), pk=pk)
    siblings = Pass.objects.filter(session=record.session_id).values_list("pk", flat=True)
    steps = proof(record)
    data = {
        "now": now,
        "pass": pages.pass_facts(record),
        "previous": siblings.filter(pk__lt=pk).order_by("-pk").first(),
        "next": siblings.filter(pk__gt=pk).order_by("pk").first(),
        "steps": steps,
        "proof": [{"step": step.title, "lines": [line._asdict() for line in step.lines]} for step in steps],
        "usage": [pages.usage_facts(event) for event in record.usage.order_by("pk")],
    }
    return answer(request, "sessions/pass.html", data)
