"""The admin's pages of this app."""

from django.contrib import admin

from memory_app.models import Project


@admin.register(Project)
class ProjectAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Projects as their owners' hosts named them; an identity is what everything hangs on, so it stays."""

    list_display = ("display_name", "identity", "owner", "directory", "last_seen")
    list_select_related = ("owner",)
    search_fields = ("display_name", "identity", "directory")
    readonly_fields = ("identity", "owner", "created", "last_seen")

    def has_add_permission(self, request: object) -> bool:
        """Projects come from hosts."""
        return False
