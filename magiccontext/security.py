"""Headers every answer carries, so that a page can run nothing but the project's own files.

The policy forbids inline scripts and styles and `eval`. The admin works under it: its scripts are files; its
one inline style is in a list without any action bar, which is a template of ours to avoid, not a reason to
open the policy.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

# Directive → sources. `data:` images are the admin's and the form controls' own icons inside style sheets.
CSP_DIRECTIVES: dict[str, tuple[str, ...]] = {
    "default-src": ("'self'",),
    "script-src": ("'self'",),
    "style-src": ("'self'",),
    "img-src": ("'self'", "data:"),
    "font-src": ("'self'",),
    "connect-src": ("'self'",),
    "object-src": ("'none'",),
    "base-uri": ("'none'",),
    "form-action": ("'self'",),
    "frame-ancestors": ("'none'",),
}

PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


def policy_text(directives: dict[str, tuple[str, ...]] = CSP_DIRECTIVES) -> str:
    """The Content-Security-Policy header value for these directives."""
    return "; ".join(f"{name} {' '.join(sources)}" for name, sources in directives.items())


_POLICY = policy_text()


def _secure(response: HttpResponseBase) -> HttpResponseBase:
    response.headers.setdefault("Content-Security-Policy", _POLICY)
    response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
    return response


@sync_and_async_middleware
def content_security_middleware(
    get_response: Callable[[HttpRequest], Any],
) -> Callable[[HttpRequest], HttpResponseBase] | Callable[[HttpRequest], Awaitable[HttpResponseBase]]:
    """Add the content security and permissions policies to every answer that has none of its own."""
    if iscoroutinefunction(get_response):

        async def middleware_async(request: HttpRequest) -> HttpResponseBase:
            return _secure(await get_response(request))

        return middleware_async

    def middleware(request: HttpRequest) -> HttpResponseBase:
        return _secure(get_response(request))

    return middleware
