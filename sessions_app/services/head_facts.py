"""What a session's page says of its head (history-render sections 5 to 7)."""

from __future__ import annotations

from typing import Any

from magiccontext.tokenizer import count_many
from sessions_app.models import Compartment, Directive, HeadState, Pass, Session
from sessions_app.services.clock import from_ms
from sessions_app.services.marks import in_words


def head_facts(session: Session) -> dict[str, Any] | None:
    """The served pair in local tokens, its boundary and what made it; None for a session without a head.

    One query without a head, else four.
    """
    row = HeadState.objects.filter(session=session).first()
    pair = row.pair() if row is not None else None
    if row is None or pair is None:
        return None
    m0_tokens, m1_tokens = count_many([pair.m0, pair.m1])
    compartments = Compartment.objects.filter(session=session)
    return {
        "m0_tokens": m0_tokens,
        "m1_tokens": m1_tokens,
        "materialized": from_ms(pair.markers.materialized_ms),
        "boundary_ordinal": pair.boundary.ordinal if pair.boundary is not None else None,
        "boundary_mid": pair.boundary.mid if pair.boundary is not None else None,
        "compartments": compartments.count(),
        "in_m0_through_sequence": pair.markers.max_compartment_seq,
        "memories": len(pair.visible_memory_ids),
        "published_pending": row.published_pending,
        "last_fold": _last_fold(session),
        "marker": _marker(session),
    }


def _last_fold(session: Session) -> dict[str, Any] | None:
    """The newest pass that made m[0] anew and changed what was served; None when none is kept any more."""
    passes = Pass.objects.filter(session=session, permitted=Pass.Level.HARD).exclude(level=Pass.Level.DEFER)
    found = passes.order_by("-id").only("id", "time", "reasons").first()
    if found is None:
        return None
    reasons = found.reasons[:1]
    return {
        "pass": found.pk,
        "time": found.time,
        "reason": reasons[0] if reasons else "",
        "reason_in_words": in_words(reasons),
    }


def _marker(session: Session) -> dict[str, Any] | None:
    """The compaction marker the host has or is asked to set."""
    rows = Directive.objects.filter(session=session, kind=Directive.Kind.COMPACTION_MARKER)
    row = rows.exclude(status=Directive.Status.SUPERSEDED).order_by("-created", "-pk").first()
    return None if row is None else {"ordinal": row.body["ordinal"], "status": row.status}
