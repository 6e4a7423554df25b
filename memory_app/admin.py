"""The admin's pages of this app.

What decides how running sessions hear of a change are the services, so every edit made here goes through
them; logs, epochs and aliases are only looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone

from memory_app.models import (
    IdentityAlias,
    Memory,
    MemoryMutation,
    Project,
    ProjectState,
    UserMemory,
    Workspace,
    WorkspaceMember,
)
from memory_app.models.memory import CATEGORIES
from memory_app.services import memories, profile, projects, workspaces
from memory_app.services.effects import Actor, Edit
from memory_app.services.memories import Bulk, Reach
from memory_app.services.refusals import MemoryRefused
from memory_app.services.workspaces import Draft, Membership

EDITABLE = ("content", "category", "status", "importance", "scope", "shareable")


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

    def get_deleted_objects(
        self, objs: Iterable[Project], request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """What goes with a project, counted.  Its logs cannot be deleted alone, but they go with it."""
        _, counts, _, protected = super().get_deleted_objects(objs, request)  # type: ignore[arg-type]
        return [str(project) for project in objs], counts, set(), protected

    def delete_model(self, request: HttpRequest, obj: Project) -> None:
        """Delete it with its memories."""
        projects.delete(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Project]) -> None:
        """The same for each of them."""
        for project in queryset:
            projects.delete(project)


class LookedAt(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows nobody writes by hand."""

    list_per_page = 50
    show_full_result_count = False
    ordering = ("-pk",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds one."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody changes one."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody deletes one."""
        return False


class Served(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows whose every change is a service's: what it refuses is said on the page, and nothing is stored."""

    list_per_page = 50
    show_full_result_count = False

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except MemoryRefused as refused:
            return self.refused(request, refused)

    def refused(self, request: HttpRequest, refused: MemoryRefused) -> HttpResponse:
        """Back to the page, with the reason on it."""
        field = f"{refused.field}: " if refused.field else ""
        self.message_user(request, f"{field}{refused.detail}", messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())


class MemoryForm(forms.ModelForm):  # type: ignore[type-arg]
    """A memory's fields; its category is one of the five, or the imported one it has."""

    category = forms.ChoiceField()

    class Meta:
        model = Memory
        fields = ("project", *EDITABLE)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = list(CATEGORIES)
        if self.instance.pk is not None and self.instance.category not in names:
            names.append(self.instance.category)
        self.fields["category"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]


@admin.register(Memory)
class MemoryAdmin(Served):
    """Memories.  Archiving can be undone, deleting cannot."""

    form = MemoryForm
    list_display = (
        "id", "project", "category", "status", "importance", "scope", "shareable", "source_type",
        "seen_count", "updated_at", "content",
    )  # fmt: skip
    list_display_links = ("id", "content")
    list_select_related = ("project",)
    list_filter = ("status", "category", "source_type", "scope", "shareable", "verification_status")
    search_fields = ("=id", "content", "project__identity", "project__display_name")
    date_hierarchy = "updated_at"
    ordering = ("-updated_at", "-pk")
    raw_id_fields = ("project",)
    actions = ("archive", "restore", "pin", "unpin")

    def get_readonly_fields(self, request: HttpRequest, obj: Memory | None = None) -> tuple[str, ...]:
        """Everything but what a person may edit; a memory does not change its project."""
        if obj is None:
            return ("status", "scope", "shareable")
        kept = {"id", *EDITABLE}
        return tuple(field.name for field in Memory._meta.fields if field.name not in kept)

    def save_model(self, request: HttpRequest, obj: Memory, form: Any, change: bool) -> None:
        """Write it as the person's edit; raises MemoryRefused."""
        if change:
            edit = Edit(**{name: form.cleaned_data[name] for name in form.changed_data if name in EDITABLE})
            stored = memories.update(
                Reach.of(obj.project), obj.pk, edit, actor=Actor.PERSON, now=timezone.now()
            )
        else:
            added = memories.add(
                obj.project,
                form.cleaned_data["category"],
                form.cleaned_data["content"],
                actor=Actor.PERSON,
                now=timezone.now(),
                importance=form.cleaned_data["importance"],
            )
            stored = added.memory
            if not added.created:
                self.message_user(
                    request, f"#{stored.pk} says that already; it was seen once more.", messages.WARNING
                )
        obj.pk = stored.pk
        obj.refresh_from_db()

    def delete_model(self, request: HttpRequest, obj: Memory) -> None:
        """Delete it with its row in the log."""
        memories.delete(Reach.of(obj.project), [obj.pk], now=timezone.now())

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Memory]) -> None:
        """The same for each owner's."""
        for owner_id, ids in _by_owner(queryset):
            memories.delete(Reach(owner_id), ids, now=timezone.now())

    @admin.action(description="Archive the selected memories (restorable)", permissions=["change"])
    def archive(self, request: HttpRequest, queryset: QuerySet[Memory]) -> None:
        """Take them out of use."""
        self._act(request, queryset, memories.archive, "archived")

    @admin.action(description="Restore the selected archived memories", permissions=["change"])
    def restore(self, request: HttpRequest, queryset: QuerySet[Memory]) -> None:
        """Bring them back; sessions of their projects make their baseline anew."""
        self._act(request, queryset, memories.restore, "restored")

    @admin.action(description="Pin the selected memories", permissions=["change"])
    def pin(self, request: HttpRequest, queryset: QuerySet[Memory]) -> None:
        """Make them permanent; sessions of their projects make their baseline anew."""
        self._act(request, queryset, memories.pin, "pinned")

    @admin.action(description="Unpin the selected memories", permissions=["change"])
    def unpin(self, request: HttpRequest, queryset: QuerySet[Memory]) -> None:
        """Make them active again; sessions of their projects make their baseline anew."""
        self._act(request, queryset, memories.unpin, "unpinned")

    def _act(
        self, request: HttpRequest, queryset: QuerySet[Memory], act: Callable[..., Bulk], done: str
    ) -> None:
        changed = 0
        try:
            for owner_id, ids in _by_owner(queryset):
                changed += len(act(Reach(owner_id), ids, actor=Actor.PERSON, now=timezone.now()).changed)
        except MemoryRefused as refused:
            self.message_user(request, refused.detail, messages.ERROR)
        self.message_user(request, f"{changed} {done}.")


def _by_owner(queryset: QuerySet[Memory]) -> Iterable[tuple[int, list[int]]]:
    """(owner, ids): one transaction each, since each owner's writers take turns."""
    groups: dict[int, list[int]] = {}
    for owner_id, pk in queryset.order_by("pk").values_list("project__owner", "pk"):
        groups.setdefault(owner_id, []).append(pk)
    return groups.items()


@admin.register(MemoryMutation)
class MemoryMutationAdmin(LookedAt):
    """What sessions are told in m[1].  A row more or less would be told, or missed, by all of them."""

    list_display = ("id", "project", "type", "target_id", "superseded_by", "category", "queued_at")
    list_select_related = ("project",)
    list_filter = ("type", "category")
    search_fields = ("=target_id", "new_content", "project__identity")
    date_hierarchy = "queued_at"


@admin.register(ProjectState)
class ProjectStateAdmin(LookedAt):
    """Epochs and versions.  A step by hand would make the baseline of every session of a project anew."""

    list_display = ("__str__", "owner", "memory_epoch", "profile_version", "revision")
    list_select_related = ("owner", "project")
    search_fields = ("project__identity", "project__display_name", "owner__username")


@admin.register(IdentityAlias)
class IdentityAliasAdmin(LookedAt):
    """Old names of projects; a merge of identities writes them."""

    list_display = ("identity", "project", "owner", "created")
    list_select_related = ("project", "owner")
    search_fields = ("identity", "project__identity")


@admin.register(UserMemory)
class UserMemoryAdmin(Served):
    """The profile.  A change shows in every session's m[1]."""

    list_display = ("content", "owner", "status", "promoted_at", "updated_at")
    list_select_related = ("owner",)
    list_filter = ("status",)
    search_fields = ("content", "owner__username")
    ordering = ("owner", "promoted_at", "pk")
    fields = ("owner", "content", "status", "promoted_at", "provenance", "created_at", "updated_at")

    def get_readonly_fields(self, request: HttpRequest, obj: UserMemory | None = None) -> tuple[str, ...]:
        """An entry stays with its person and in its place."""
        fixed = ("promoted_at", "provenance", "created_at", "updated_at")
        return (*fixed, "status") if obj is None else (*fixed, "owner")

    def save_model(self, request: HttpRequest, obj: UserMemory, form: Any, change: bool) -> None:
        """Write it as the person's edit; raises MemoryRefused."""
        now = timezone.now()
        if not change:
            obj.pk = profile.add(obj.owner_id, obj.content, now=now).pk
        else:
            profile.edit(obj.owner_id, obj.pk, form.cleaned_data["content"], now=now)
            profile.set_status(obj.owner_id, obj.pk, form.cleaned_data["status"], now=now)
        obj.refresh_from_db()

    def delete_model(self, request: HttpRequest, obj: UserMemory) -> None:
        """Delete it; the profile has a new version."""
        profile.delete(obj.owner_id, obj.pk)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[UserMemory]) -> None:
        """The same for each of them."""
        for entry in queryset:
            self.delete_model(request, entry)


class WorkspaceForm(forms.ModelForm):  # type: ignore[type-arg]
    """A workspace, with the categories to tick."""

    share_categories = forms.MultipleChoiceField(
        choices=[(name, name) for name in CATEGORIES], widget=forms.CheckboxSelectMultiple, required=False
    )

    class Meta:
        model = Workspace
        fields = ("owner", "name", "share_categories")


class MemberInline(admin.TabularInline):  # type: ignore[type-arg]
    """Who is in it."""

    model = WorkspaceMember
    extra = 1
    raw_id_fields = ("project",)


@admin.register(Workspace)
class WorkspaceAdmin(Served):
    """Workspaces.  Who is in and what is shared decide what other projects render."""

    form = WorkspaceForm
    inlines = (MemberInline,)
    list_display = ("name", "owner", "share_categories", "created")
    list_select_related = ("owner",)
    search_fields = ("name", "owner__username", "members__display_name")

    def get_readonly_fields(self, request: HttpRequest, obj: Workspace | None = None) -> tuple[str, ...]:
        """A workspace stays with its person."""
        return () if obj is None else ("owner",)

    def save_model(self, request: HttpRequest, obj: Workspace, form: Any, change: bool) -> None:
        """Nothing yet: it is stored together with its members."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Write workspace and members as one edit; raises MemoryRefused."""
        members = [
            Membership(row["project"].pk, row.get("display_name", ""), row.get("display_path", ""))
            for row in formsets[0].cleaned_data
            if row and not row.get("DELETE") and row.get("project") is not None
        ]
        obj: Workspace = form.instance
        draft = Draft(form.cleaned_data["name"], form.cleaned_data["share_categories"], members)
        obj.pk = workspaces.save(obj.owner_id, draft, obj.pk if change else None).pk
        obj.refresh_from_db()
        formsets[0].new_objects, formsets[0].changed_objects, formsets[0].deleted_objects = [], [], []

    def delete_model(self, request: HttpRequest, obj: Workspace) -> None:
        """Dissolve it; its projects are told."""
        workspaces.delete(obj.owner_id, obj.pk)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Workspace]) -> None:
        """The same for each of them."""
        for workspace in queryset:
            self.delete_model(request, workspace)
