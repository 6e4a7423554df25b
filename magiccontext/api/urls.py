"""The REST API, version 1 (hosts.md section 10)."""

from django.urls import URLPattern, URLResolver, path

from magiccontext.api.transform import TransformView

urlpatterns: list[URLPattern | URLResolver] = [
    path("sessions/<str:harness>/<path:sid>/transform", TransformView.as_view(), name="transform"),
]
