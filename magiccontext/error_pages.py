"""What an address answers when no view could: a page to a person, a problem to a program."""

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from magiccontext.api.problems import is_api_path, problem_response

# HTTP status → (problem code, detail for programs). Pages have their own words, in `templates/<status>.html`.
ANSWERS: dict[int, tuple[str, str]] = {
    400: ("invalid_params", "The request was not understood."),
    403: ("forbidden", "That is not allowed."),
    404: ("not_found", "Nothing is at this address."),
    500: ("internal_error", "The server failed on this request. Nothing of it was applied."),
}


def _answer(request: HttpRequest, status: int) -> HttpResponse:
    code, detail = ANSWERS[status]
    if is_api_path(request):
        return problem_response(code, detail, status=status)
    # Without the request: its user and messages may be what could not be read.
    return HttpResponse(render_to_string(f"{status}.html"), status=status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400, also for a host name this server does not answer to."""
    return _answer(request, 400)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403."""
    return _answer(request, 403)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404."""
    return _answer(request, 404)


def server_error(request: HttpRequest) -> HttpResponse:
    """500; what happened is in the log and in no answer."""
    return _answer(request, 500)
