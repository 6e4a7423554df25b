"""The project itself as an app: its management commands and static files are found through it."""

from django.apps import AppConfig


class MagicContextConfig(AppConfig):
    """Holds no models."""

    name = "magiccontext"
    verbose_name = "Magic Context"

    def ready(self) -> None:
        """Make the API's authentication known to the generator of the OpenAPI document."""
        import magiccontext.api.openapi  # noqa: F401
