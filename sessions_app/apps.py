"""Sessions, their passes, and the keys hosts come in with."""

from django.apps import AppConfig


class SessionsAppConfig(AppConfig):
    """Everything keyed to one agent session."""

    name = "sessions_app"
    verbose_name = "Sessions"
    default_auto_field = "django.db.models.BigAutoField"
