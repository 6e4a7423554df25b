"""Every address of the server."""

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from magiccontext.api import health

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("api/v1/", include("magiccontext.api.urls")),
    path("api/schema/", SpectacularAPIView.as_view(permission_classes=[]), name="schema"),
    path(
        "api/docs/",
        SpectacularSwaggerSplitView.as_view(url_name="schema", permission_classes=[]),
        name="api-docs",
    ),
    path("admin/", admin.site.urls),
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("", include("sessions_app.urls")),
]

handler400 = "magiccontext.error_pages.bad_request"
handler403 = "magiccontext.error_pages.permission_denied"
handler404 = "magiccontext.error_pages.page_not_found"
handler500 = "magiccontext.error_pages.server_error"

if settings.BENCH:
    from magiccontext.bench.echo import echo

    urlpatterns.append(path("bench/echo", echo))
