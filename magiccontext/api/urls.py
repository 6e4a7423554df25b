"""The REST API, version 1 (hosts.md section 10)."""

from django.urls import URLPattern, URLResolver

urlpatterns: list[URLPattern | URLResolver] = []
