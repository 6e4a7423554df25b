"""The admin's pages of this app."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from rest_framework_api_key.admin import APIKeyModelAdmin
from rest_framework_api_key.models import APIKey

from sessions_app.models import HostKey
from sessions_app.models.host_key import SCOPES, normal_harnesses

# The library's own keys open nothing here; a page to make them would only mislead.
admin.site.unregister(APIKey)


class HostKeyForm(forms.ModelForm):  # type: ignore[type-arg]
    """A key's fields, with its scopes to tick and its harnesses as one line."""

    scopes = forms.MultipleChoiceField(
        choices=[(scope, f"{scope}: {effect}") for scope, effect in SCOPES.items()],
        widget=forms.CheckboxSelectMultiple,
        initial=["host"],
    )
    harnesses = forms.CharField(required=False, help_text="Comma list of harness names; empty means all.")

    class Meta:
        model = HostKey
        fields = ("name", "owner", "scopes", "harnesses", "expiry_date", "revoked")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["harnesses"] = ", ".join(self.instance.harnesses)

    def clean_harnesses(self) -> list[str]:
        """The harnesses as the model keeps them."""
        return normal_harnesses(self.cleaned_data["harnesses"].split(","))


@admin.register(HostKey)
class HostKeyAdmin(APIKeyModelAdmin):
    """Making shows the key once; afterwards only its prefix is known."""

    model = HostKey
    form = HostKeyForm
    list_display = ("prefix", "name", "owner", "scopes", "last_seen", "expiry_date", "revoked")
    list_select_related = ("owner",)
    search_fields = ("name", "prefix", "owner__username")

    def get_readonly_fields(self, request: HttpRequest, obj: HostKey | None = None) -> tuple[str, ...]:
        """What can no longer change; a key never changes hands."""
        fixed = super().get_readonly_fields(request, obj)
        return fixed if obj is None else (*fixed, "owner", "created", "last_seen")
