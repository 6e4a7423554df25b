"""Projects and what is remembered about them."""

from django.apps import AppConfig


class MemoryAppConfig(AppConfig):
    """Everything keyed to one project."""

    name = "memory_app"
    verbose_name = "Memory"
    default_auto_field = "django.db.models.BigAutoField"
