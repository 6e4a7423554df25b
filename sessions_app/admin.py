"""The admin's pages of this app.

What a host sent, what was served for it and what was decided is looked at here, never written: an edit by
hand would part the stored state from what is in the provider's cache.  Only whole sessions are deleted, the
way the API deletes them.
"""

import json
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin
from django.db import transaction
from django.db.models import BinaryField, Model, QuerySet
from django.db.models.functions import Length, Substr
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from rest_framework_api_key.admin import APIKeyModelAdmin
from rest_framework_api_key.models import APIKey

from sessions_app import models
from sessions_app.models import HostKey
from sessions_app.models.host_key import SCOPES, normal_harnesses
from sessions_app.services.lifecycle import finish_delete, mark_deleted

PREVIEW_BYTES = 4096
LIVE = timedelta(days=1)

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


class RecordAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows to look at.  They go with their session, or by housekeeping."""

    list_per_page = 50
    show_full_result_count = False
    list_select_related: tuple[str, ...] | bool = ("session",)
    ordering = ("-pk",)

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody adds one by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody changes one by hand."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody deletes a part of a session."""
        return False


def preview(row: Model, column: str) -> SafeString | str:
    """The first 4,096 bytes of a binary column, decoded; the rest is not even read.  One query."""
    front, size = (
        type(row)
        ._default_manager.filter(pk=row.pk)
        .annotate(front=Substr(column, 1, PREVIEW_BYTES, output_field=BinaryField()), size=Length(column))
        .values_list("front", "size")
        .get()
    )
    if front is None:
        return "none"
    text = bytes(front).decode("utf-8", "replace")
    return format_html("<pre>{}</pre>first {} of {} bytes", text, min(size, PREVIEW_BYTES), size)


@admin.register(models.Session)
class SessionAdmin(RecordAdmin):
    """Sessions, and the way to delete one with everything of it."""

    list_display = (
        "__str__", "owner", "model", "role", "project", "usage_percentage", "threshold", "view_version",
        "last_seen", "cleanup_pending",
    )  # fmt: skip
    list_select_related = ("owner", "project")
    list_filter = ("harness", "role", "format", ("last_error", admin.EmptyFieldListFilter), "cleanup_pending")
    search_fields = ("sid", "parent_sid", "model", "owner__username", "project__display_name")
    date_hierarchy = "last_seen"
    ordering = ("-last_seen", "-pk")
    exclude = ("engine_state",)
    readonly_fields = ("state",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[models.Session]:
        """The scalars of the engine are read on a session's own page only."""
        return super().get_queryset(request).defer("engine_state")

    @admin.display(description="state of the engine")
    def state(self, session: models.Session) -> SafeString:
        """Every scalar the engine keeps, one a line."""
        return format_html("<pre>{}</pre>", json.dumps(session.engine_state, indent=2, ensure_ascii=False))

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Who may delete sessions, by the permission of that name."""
        return admin.ModelAdmin.has_delete_permission(self, request, obj)

    def get_deleted_objects(
        self, objs: Iterable[models.Session], request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """What a deletion takes along, counted instead of listed: a session has many thousand rows.

        Names the live sessions: their next request is a first one, and rebuilds the whole prefix.
        """
        sessions = list(objs)
        live = timezone.now() - LIVE
        named = [
            f"{session} (live: its next request rebuilds the whole prefix)"
            if session.last_seen is not None and session.last_seen > live
            else str(session)
            for session in sessions
        ]
        counts = {str(models.Session._meta.verbose_name_plural): len(sessions)}
        for relation in models.Session._meta.get_fields(include_hidden=True):
            if relation.auto_created and (relation.one_to_many or relation.one_to_one):
                model = relation.related_model
                rows = model._default_manager.filter(**{f"{relation.field.name}__in": sessions})
                counts[str(model._meta.verbose_name_plural)] = rows.count()
        return named, counts, set(), []

    def delete_model(self, request: HttpRequest, obj: models.Session) -> None:
        """Mark it with the transaction of the page; clear its rows once the mark is committed."""
        mark_deleted(obj.pk)
        transaction.on_commit(partial(finish_delete, obj.pk))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[models.Session]) -> None:
        """The same for each of them."""
        for session in queryset:
            self.delete_model(request, session)


@admin.register(models.Lineage)
class LineageAdmin(RecordAdmin):
    """Lines of ordinals."""

    list_display = ("session", "number", "parent", "through_ordinal", "created")
    search_fields = ("session__sid",)


@admin.register(models.RawMessage)
class RawMessageAdmin(RecordAdmin):
    """Messages as hosts sent them.  Lists never read the bytes."""

    list_display = (
        "session", "lineage", "ordinal", "revision", "role", "mid", "tokens", "in_path", "removed", "created",
    )  # fmt: skip
    list_filter = ("role", "in_path", "raw_sent", "removed", "session__harness")
    search_fields = ("mid", "session__sid")
    readonly_fields = ("content",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[models.RawMessage]:
        """Without the bytes."""
        return super().get_queryset(request).defer("raw")

    @admin.display(description="bytes")
    def content(self, message: models.RawMessage) -> SafeString | str:
        """The front of the message."""
        return preview(message, "raw")


@admin.register(models.ServedForm)
class ServedFormAdmin(RecordAdmin):
    """How messages were served."""

    list_display = ("session", "mid", "since_version", "until_version", "is_raw")
    list_filter = ("is_raw", ("until_version", admin.EmptyFieldListFilter), "session__harness")
    search_fields = ("mid", "session__sid")
    readonly_fields = ("content",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[models.ServedForm]:
        """Without the bytes."""
        return super().get_queryset(request).defer("body")

    @admin.display(description="body")
    def content(self, form: models.ServedForm) -> SafeString | str:
        """The front of what was served, where it differs from what came."""
        return "as it came" if form.is_raw else preview(form, "body")


@admin.register(models.Tag)
class TagAdmin(RecordAdmin):
    """Tags."""

    list_display = (
        "__str__", "session", "type", "tool_name", "status", "drop_mode", "token_count", "mid",
    )  # fmt: skip
    list_filter = ("type", "status", "drop_mode", "inert", "session__harness")
    search_fields = ("=number", "mid", "call_id", "tool_name", "session__sid")
    readonly_fields = ("content",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[models.Tag]:
        """Without the text kept in place of the host's own."""
        return super().get_queryset(request).defer("source")

    @admin.display(description="source")
    def content(self, tag: models.Tag) -> SafeString | str:
        """The front of the text served instead of the host's own."""
        return preview(tag, "source")


@admin.register(models.PendingDrop)
class PendingDropAdmin(RecordAdmin):
    """Marks that have not landed."""

    list_display = ("__str__", "session", "number", "operation", "queued_at")
    search_fields = ("=number", "session__sid")


@admin.register(models.Pass)
class PassAdmin(RecordAdmin):
    """Decisions."""

    list_display = (
        "id", "session", "time", "level", "permitted", "decision", "reasons", "usage_percentage",
        "dropped_tokens", "first_changed", "milliseconds",
    )  # fmt: skip
    list_filter = ("level", "permitted", "decision", "emergency", "session__harness")
    search_fields = ("=id", "session__sid", "message_id", "model")
    date_hierarchy = "time"


@admin.register(models.UsageEvent)
class UsageEventAdmin(RecordAdmin):
    """What responses cost."""

    list_display = (
        "session", "time", "model", "input_tokens", "cache_read", "cache_write", "output_tokens",
        "reports_cache",
    )  # fmt: skip
    list_filter = ("reports_cache", "session__harness")
    search_fields = ("response_key", "message_id", "model", "session__sid")
    date_hierarchy = "time"


@admin.register(models.Incident)
class IncidentAdmin(RecordAdmin):
    """Refusals and faults."""

    list_display = ("session", "time", "kind", "code", "detail", "view_version")
    list_filter = ("kind", "code", "session__harness")
    search_fields = ("code", "detail", "session__sid")
    date_hierarchy = "time"


@admin.register(models.Notice)
class NoticeAdmin(RecordAdmin):
    """Texts for the person, and when the host got them."""

    list_display = ("session", "created", "level", "code", "text", "offered")
    list_filter = ("level", "code", ("offered", admin.EmptyFieldListFilter))
    search_fields = ("code", "text", "session__sid")


@admin.register(models.RequestReceipt)
class RequestReceiptAdmin(RecordAdmin):
    """Requests that were answered under an Idempotency-Key."""

    list_display = ("key", "owner", "session", "status", "view_version", "created")
    list_select_related = ("owner", "session")
    list_filter = ("status",)
    search_fields = ("key", "session__sid")


@admin.register(models.EventReceipt)
class EventReceiptAdmin(RecordAdmin):
    """Events that were applied."""

    list_display = ("event_id", "session", "created")
    search_fields = ("event_id", "session__sid")


@admin.register(models.ToolReceipt)
class ToolReceiptAdmin(RecordAdmin):
    """Tool calls that were answered."""

    list_display = ("call_key", "tool", "session", "created")
    list_filter = ("tool",)
    search_fields = ("call_key", "session__sid")


@admin.register(models.Compartment)
class CompartmentAdmin(RecordAdmin):
    """Summaries.  They are published, rewritten and deleted over the API, which tells the head of it."""

    list_display = (
        "__str__", "session", "sequence", "start", "end", "importance", "episode_type", "legacy", "producer",
        "created",
    )  # fmt: skip
    list_filter = ("legacy", "producer", "session__harness")
    search_fields = ("title", "content", "session__sid", "end_mid")
    date_hierarchy = "created"

    def get_queryset(self, request: HttpRequest) -> QuerySet[models.Compartment]:
        """Lists show the title; the texts are read on a row's own page."""
        return super().get_queryset(request).defer("content", "p1", "p2", "p3", "p4")


@admin.register(models.CompartmentEvent)
class CompartmentEventAdmin(RecordAdmin):
    """Incidents and corrections the historian saw."""

    list_display = ("session", "kind", "compartment", "created")
    list_select_related = ("session", "compartment")
    list_filter = ("kind", "session__harness")
    search_fields = ("kind", "session__sid", "compartment__title")


@admin.register(models.M0Mutation)
class M0MutationAdmin(RecordAdmin):
    """Structural changes of history.  A row more or less would make a session's head anew."""

    list_display = ("id", "session", "type", "target", "time")
    list_filter = ("type", "session__harness")
    search_fields = ("session__sid",)
    date_hierarchy = "time"


@admin.register(models.Directive)
class DirectiveAdmin(RecordAdmin):
    """What hosts were asked to do.  An open one goes with every answer until the host confirms it."""

    list_display = ("session", "kind", "directive_id", "status", "created", "settled")
    list_filter = ("kind", "status", "session__harness")
    search_fields = ("directive_id", "session__sid")
    date_hierarchy = "created"


@admin.register(models.HeadState)
class HeadStateAdmin(RecordAdmin):
    """Heads as they are served.  Lists never read the bytes."""

    list_display = (
        "session", "model_key", "boundary_ordinal", "max_compartment_seq", "visible_count", "upgrade_state",
        "published_pending",
    )  # fmt: skip
    list_filter = ("published_pending", "upgrade_state", "mural_flag", "session__harness")
    search_fields = ("session__sid", "model_key", "project")
    exclude = ("mural_url",)
    readonly_fields = ("baseline", "delta")

    def get_queryset(self, request: HttpRequest) -> QuerySet[models.HeadState]:
        """Without the bytes."""
        return super().get_queryset(request).defer("m0", "m1", "mural_url")

    @admin.display(description="m[0]")
    def baseline(self, head: models.HeadState) -> SafeString | str:
        """The front of the frozen baseline."""
        return preview(head, "m0")

    @admin.display(description="m[1]")
    def delta(self, head: models.HeadState) -> SafeString | str:
        """The front of the delta."""
        return preview(head, "m1")
