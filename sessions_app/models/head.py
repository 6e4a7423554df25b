"""The head of a session as it is served: one row, written as a whole (history-render section 13)."""

from __future__ import annotations

from dataclasses import fields

from django.db import models

from magiccontext.engine.head.model import Boundary, Markers, Mural, Pair
from sessions_app.models.session import Session

# A column of the same name each.
_MARKERS = tuple(marker.name for marker in fields(Markers))


class HeadState(models.Model):
    """The cached pair m[0] and m[1] with everything that is only true together with it.

    Bytes without their boundary would lose history, so nothing here is written alone but the signals below
    the markers.  An empty half means there is none; a row may exist before its first pair, for the signals.
    """

    session = models.OneToOneField(Session, on_delete=models.CASCADE, related_name="head")
    m0 = models.BinaryField(default=b"")
    m1 = models.BinaryField(default=b"")
    mural_url = models.TextField(blank=True, default="", help_text="PNG as a data: URL; empty without one.")
    mural_hash = models.CharField(max_length=128, blank=True, default="")
    boundary_mid = models.CharField(max_length=255, blank=True, default="", help_text="Empty: cuts nothing.")
    boundary_ordinal = models.IntegerField(null=True, blank=True)
    boundary_block = models.IntegerField(null=True, blank=True)
    m0_memory_ids = models.JSONField(default=list)
    visible_memory_ids = models.JSONField(default=list, help_text="Rendered anywhere; search hides these.")
    visible_count = models.IntegerField(default=0)
    # Markers: from what state of the world the bytes were made.
    materialized_ms = models.BigIntegerField(default=0, help_text="Milliseconds; also the expiry cutoff.")
    model_key = models.CharField(max_length=255, blank=True, default="")
    system_hash = models.CharField(max_length=128, blank=True, default="")
    tool_fingerprint = models.CharField(max_length=128, blank=True, default="")
    project = models.CharField("project identity", max_length=512, null=True, blank=True)
    memory_epoch = models.BigIntegerField(default=0)
    workspace_fingerprint = models.CharField(max_length=128, null=True, blank=True)
    profile_version = models.BigIntegerField(default=0)
    max_compartment_seq = models.IntegerField(default=-1)
    max_memory_id = models.BigIntegerField(default=0)
    memory_mutation_id = models.BigIntegerField(default=0)
    structural_mutation_id = models.BigIntegerField(default=0)
    docs_hash = models.CharField(max_length=128, blank=True, default="")
    upgrade_state = models.CharField(max_length=8, default="ready")
    compartment_epoch = models.CharField(max_length=32, null=True, blank=True)
    memory_render_epoch = models.CharField(max_length=32, null=True, blank=True)
    mural_flag = models.BooleanField(null=True, blank=True)
    policy = models.CharField("budget policy", max_length=255, null=True, blank=True)
    allowances = models.CharField(max_length=64, null=True, blank=True)
    # Not of the pair: how its dates are told, and what waits for a pass that may use it.
    time_zone = models.CharField(
        max_length=64, blank=True, default="", help_text="Fixed with the first pair."
    )
    published_pending = models.BooleanField(
        default=False, help_text="Compartments were published; the next pass that rebuilds takes them up."
    )
    pending_marker = models.JSONField(
        null=True, blank=True, help_text="Where the host's own marker is to go: ordinal, mid, time in ms."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(boundary_mid="", boundary_ordinal=None)
                | (~models.Q(boundary_mid="") & models.Q(boundary_ordinal__isnull=False)),
                name="head_boundary_is_whole",
            ),
        ]

    def __str__(self) -> str:
        return f"head of {self.session_id}"

    def pair(self) -> Pair | None:
        """The stored pair, or None when neither half is there."""
        if not self.m0 and not self.m1:
            return None
        boundary = None
        if self.boundary_mid and self.boundary_ordinal is not None:
            boundary = Boundary(self.boundary_mid, self.boundary_ordinal, self.boundary_block)
        return Pair(
            m0=_text(self.m0),
            m1=_text(self.m1),
            markers=Markers(**{name: getattr(self, name) for name in _MARKERS}),
            mural=Mural(self.mural_url, self.mural_hash) if self.mural_url else None,
            boundary=boundary,
            m0_memory_ids=tuple(self.m0_memory_ids),
            visible_memory_ids=tuple(self.visible_memory_ids),
        )

    def store_pair(self, pair: Pair) -> None:
        """Set every column of the pair.  Does not save."""
        self.m0 = _bytes(pair.m0)
        self.m1 = _bytes(pair.m1)
        self.mural_url = "" if pair.mural is None else pair.mural.data_url
        self.mural_hash = "" if pair.mural is None else pair.mural.hash
        self.boundary_mid = "" if pair.boundary is None else pair.boundary.mid
        self.boundary_ordinal = None if pair.boundary is None else pair.boundary.ordinal
        self.boundary_block = None if pair.boundary is None else pair.boundary.end_block
        self.m0_memory_ids = list(pair.m0_memory_ids)
        self.visible_memory_ids = list(pair.visible_memory_ids)
        self.visible_count = len(pair.visible_memory_ids)
        for name in _MARKERS:
            setattr(self, name, getattr(pair.markers, name))

    def clear_pair(self) -> None:
        """Forget the bytes and what they covered; the markers stay as what they last were.  Does not save.

        The next decision is then a first render; the time of the last one still is a fallback's cutoff.
        """
        self.m0 = self.m1 = b""
        self.mural_url = self.mural_hash = self.boundary_mid = ""
        self.boundary_ordinal = self.boundary_block = None
        self.m0_memory_ids = []
        self.visible_memory_ids = []
        self.visible_count = 0


# Documents come from hosts and may hold half a surrogate pair, which no text column keeps.
def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(stored: bytes | memoryview) -> str:
    return bytes(stored).decode("utf-8", "surrogatepass")
