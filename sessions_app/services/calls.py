"""What a caller asks of a pass and what it gets, as values between the services and REST or a gateway."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from magiccontext.engine.request import UsageReport
from magiccontext.engine.result import PassResult


class Refused(Exception):
    """The request must not be sent, or not now.  ``code`` is one of hosts section 10.5."""

    def __init__(self, code: str, detail: str, *, retry_after: float | None = None, **members: Any) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.retry_after = retry_after
        self.members = members


@dataclass(frozen=True, slots=True)
class LastSent:
    """What the host really sent last (design section 5)."""

    view_version: int
    raw_from: int | str | None = None


@dataclass(frozen=True, slots=True)
class SyncBase:
    """The front that both sides hold: its length and chain value (hosts section 10.2)."""

    count: int
    chain: bytes


@dataclass(slots=True)
class TransformCall:
    """A full-array pass.  ``messages`` are raw slices as they came, decorations included."""

    format: str
    model: str
    messages: list[bytes]
    at_ms: int
    context_limit: int | None = None
    output_limit: int | None = None
    project: dict[str, Any] | None = None
    parent_session: str = ""
    subagent: bool = False
    utility: bool = False
    reduce_callable: bool | None = None
    can_remove: bool = True
    capabilities: dict[str, Any] = field(default_factory=dict)
    overhead_bytes: int = 0
    system: bytes = b""  # raw, as it came
    tools: bytes = b""
    usage: UsageReport | None = None
    usage_reports_cache: bool = True
    last_sent: LastSent | None = None
    estimate_tokens: int | None = None
    provider_error: str | dict[str, Any] | None = None
    sync: SyncBase | None = None
    idempotency_key: str = ""
    body_digest: bytes = b""
    want_edits: bool = False


@dataclass(slots=True)
class PassSummary:
    """The ``pass`` member of an answer."""

    id: int
    level: str
    permitted: str
    scheduler: str
    reasons: list[str]
    usage_percent: float
    first_changed: int | None
    lanes: dict[str, int]
    bytes_saved: int
    ms: float

    @classmethod
    def of(cls, id: int, result: PassResult, bytes_saved: int, ms: float) -> PassSummary:
        return cls(
            id,
            result.level.word,
            result.permitted.word,
            str(result.scheduler),
            list(result.reasons),
            round(result.percentage, 2),
            result.first_changed,
            dict(result.lanes),
            bytes_saved,
            round(ms, 2),
        )


@dataclass(slots=True)
class Answer:
    """What goes back.  ``messages`` are bytes to send; None when the caller asked for edits."""

    summary: PassSummary | None
    view_version: int
    messages: list[bytes]
    mids: list[str] = field(default_factory=list)
    view: dict[str, Any] | None = None
    raw_from: int | str | None = None
    chain: bytes = b""
    notices: list[dict[str, Any]] = field(default_factory=list)
    directives: list[dict[str, Any]] = field(default_factory=list)
    replayed: str = ""  # why a last-good replay was served instead of a pass
    outcome: str = "serve"
