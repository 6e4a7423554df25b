"""What the generated OpenAPI document needs to be told (design section 8)."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class HostKeyScheme(OpenApiAuthenticationExtension):
    """How the keys are described in the OpenAPI document."""

    target_class = "magiccontext.api.auth.HostKeyAuthentication"
    name = "hostKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """The bearer scheme of OpenAPI."""
        return {"type": "http", "scheme": "bearer", "description": "`manage.py token NAME` prints a key."}
