"""What a session looks like now, as figures and as text (dashboard-cli section 5.1)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from django.db.models import Count, Sum

from magiccontext import config
from magiccontext.config import lookup
from magiccontext.engine.schedule import expired, parse_ttl
from magiccontext.engine.state import TagStatus, Vars
from sessions_app import models
from sessions_app.services.clock import from_ms
from sessions_app.services.settings import engine_settings

NEVER_MS = -1
"""``cache_ttl.ms`` of a cache that is assumed to live for ever."""


def session_status(session: models.Session, now_ms: int) -> dict[str, Any]:
    """Counts, sizes in bytes, tokens, percent of the usable window, times in RFC 3339.  Four queries."""
    vars = session.vars()
    newest = models.Pass.objects.filter(session=session).order_by("-pk").first()
    threshold = lookup.execute_threshold(config.load().config, session.model, session.usable_limit or None)
    return {
        "session": {"harness": session.harness, "id": session.sid},
        "model": session.model,
        "subagent": session.role == models.Session.Role.SUBAGENT,
        "compaction": engine_settings(session.model).compaction,
        "usage": {
            "percent": round(session.usage_percentage, 2),
            "input_tokens": session.input_tokens,
            "limit": session.usable_limit,
            "context_limit": session.context_limit,
        },
        "tags": _tags(session),
        "pending": models.PendingDrop.objects.filter(session=session).count(),
        "threshold": {"percent": round(threshold.percentage, 2), "clamped": threshold.clamped},
        "protected_tokens": vars.protected_tokens,
        "cache_ttl": _ttl(session, vars, threshold.percentage, now_ms),
        "bytes": {"received": vars.raw_bytes, "served": vars.served_bytes},
        "view_version": session.view_version,
        "lineage": session.lineage,
        "flush": vars.flush,
        "recovery_armed": vars.recovery_armed,
        "detected_limit": vars.detected_limit,
        "last_error": session.last_error,
        "last_pass": None
        if newest is None
        else {
            "id": newest.pk,
            "time": newest.time.isoformat(),
            "level": newest.level,
            "scheduler": newest.decision,
            "reasons": newest.reasons,
        },
    }


def _tags(session: models.Session) -> dict[str, int]:
    rows = {
        row["status"]: row
        for row in models.Tag.objects.filter(session=session)
        .order_by()
        .values("status")
        .annotate(count=Count("pk"), output=Sum("output_bytes"), input=Sum("input_bytes"))
    }
    counts = {status: rows[status]["count"] if status in rows else 0 for status in map(str, TagStatus)}
    active = rows.get(str(TagStatus.ACTIVE))
    return {
        **counts,
        "total": sum(counts.values()),
        "active_bytes": active["output"] + active["input"] if active else 0,
    }


def _ttl(session: models.Session, vars: Vars, threshold: float, now_ms: int) -> dict[str, Any]:
    settings = engine_settings(session.model)
    frozen = dict(vars.frozen_ttl)
    text = settings.cache_ttl if settings.ttl_is_policy else frozen.get(session.model, settings.cache_ttl)
    lifetime = parse_ttl(text).ms
    last = vars.last_response_ms
    never = math.isinf(lifetime)
    remaining = None if never or not last else max(0, int(last + lifetime - now_ms))
    if never:
        auto = f"at ≥{threshold:g}%"
    elif expired(now_ms, last, lifetime):
        auto = "yes (expired)"
    else:
        auto = f"at TTL or ≥{threshold:g}%"
    return {
        "configured": text,
        "ms": NEVER_MS if never else int(lifetime),
        "last_response": from_ms(last).isoformat() if last else None,
        "remaining_ms": remaining,
        "auto_execute": auto,
    }


def status_text(status: Mapping[str, Any], *, diagnostics: bool = False) -> str:
    """The view as text, one section a paragraph."""
    usage = status["usage"]
    known = f"{usage['percent']:.1f}%" if usage["input_tokens"] else "unknown"
    if not status["compaction"]:
        return f"Context: {known} · native compaction"
    headline = f"Context: {known} of {usage['limit']:,} tokens"
    sections = _sections(status) + (_diagnostics(status) if diagnostics else [])
    paragraphs = [
        "\n".join([title, *(f"  {name}: {value}" for name, value in rows)]) for title, rows in sections
    ]
    return "\n\n".join([headline, *paragraphs])


Section = tuple[str, list[tuple[str, str]]]


def _sections(status: Mapping[str, Any]) -> list[Section]:
    tags, threshold, ttl = status["tags"], status["threshold"], status["cache_ttl"]
    sections: list[Section] = [
        (
            "Tags",
            [
                ("Active", f"{tags['active']} (~{tags['active_bytes']:,} bytes)"),
                ("Dropped", str(tags["dropped"])),
                ("Total", str(tags["total"])),
            ],
        ),
        (
            "Reductions",
            [("Execute threshold", f"{threshold['percent']:g}%{'*' if threshold['clamped'] else ''}")],
        ),
        ("Pending queue", [("Drops", str(status["pending"]))]),
        (
            "Context details",
            [
                ("Model", status["model"] or "unknown"),
                ("Protected tokens", f"{status['protected_tokens']:,}"),
                ("Subagent", "yes" if status["subagent"] else "no"),
            ],
        ),
        ("Cache TTL", list(_ttl_rows(ttl))),
    ]
    if status["last_error"]:
        sections.append(("Last error", [("Pass", status["last_error"])]))
    return sections


def _ttl_rows(ttl: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Configured", ttl["configured"]
    yield "Last response", ttl["last_response"] or "none yet"
    if ttl["remaining_ms"] is not None:
        yield "Remaining", f"{ttl['remaining_ms'] / 1000:.0f} s"
    yield "Auto-execute", ttl["auto_execute"]


def _diagnostics(status: Mapping[str, Any]) -> list[Section]:
    newest = status["last_pass"]
    rows = [
        ("View version", str(status["view_version"])),
        ("Lineage", f"L{status['lineage']}"),
        ("Bytes", f"{status['bytes']['received']:,} received, {status['bytes']['served']:,} served"),
        ("Flush requested", status["flush"] or "no"),
        ("Recovery", "armed" if status["recovery_armed"] else "not armed"),
    ]
    if status["detected_limit"]:
        rows.append(("Detected limit", f"{status['detected_limit']:,} tokens"))
    if newest is not None:
        reasons = f" ({', '.join(newest['reasons'])})" if newest["reasons"] else ""
        rows.append(("Last pass", f"{newest['id']}, {newest['level']}{reasons}"))
    return [("Diagnostics", rows)]
