"""Sessions, their passes, and the keys hosts come in with."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class SessionsAppConfig(AppConfig):
    """Everything keyed to one agent session."""

    name = "sessions_app"
    verbose_name = "Sessions"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have housekeeping scheduled once the tables are there."""
        from sessions_app.services import housekeeping

        post_migrate.connect(housekeeping.schedule, sender=self)
