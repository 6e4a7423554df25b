"""Serving static files from the application process, for a clone that was never "collected".

WhiteNoise's own middleware is synchronous; in front of every request it would cost each API call two thread
hops under ASGI. This one looks the path up and passes everything else on in whatever mode it was called.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from whitenoise.middleware import WhiteNoiseMiddleware


def _file_response(files: dict[str, Any], request: HttpRequest) -> HttpResponse | None:
    """The static file at this path as a whole response, or None when there is none."""
    found = files.get(request.path_info)
    if found is None:
        return None
    served = found.get_response(request.method, request.META)
    body = b""
    if served.file is not None:
        with served.file as handle:
            body = handle.read()
    response = HttpResponse(body, status=int(served.status))
    del response["Content-Type"]
    for name, value in served.headers:
        response[name] = value
    return response


@sync_and_async_middleware
def static_files_middleware(
    get_response: Callable[[HttpRequest], Any],
) -> Callable[[HttpRequest], HttpResponseBase] | Callable[[HttpRequest], Awaitable[HttpResponseBase]]:
    """Answer requests under STATIC_URL from the installed apps' own files."""
    files = WhiteNoiseMiddleware(get_response).files

    if iscoroutinefunction(get_response):

        async def middleware_async(request: HttpRequest) -> HttpResponseBase:
            response = _file_response(files, request)
            return response if response is not None else await get_response(request)

        return middleware_async

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = _file_response(files, request)
        return response if response is not None else get_response(request)

    return middleware
