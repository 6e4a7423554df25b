"""What goes into a pass besides the snapshot: the request and the settings in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from magiccontext.engine.head.model import HeadSource
from magiccontext.engine.tokens import TokenCounter
from magiccontext.engine.wire.base import Codec


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Usage of one finished response (hosts section 10.1).  Tokens of that response, never of a turn.

    ``measured_mid`` and ``measured_wire`` say on which array it was measured: its last message and our own
    estimate of it; None when the pass that made it is not known.
    """

    input_tokens: int
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    output_tokens: int = 0
    completed_ms: int = 0
    message_id: str = ""
    pass_id: int = 0
    model: str = ""
    measured_mid: str | None = None
    measured_wire: int | None = None

    @property
    def pressure(self) -> int:
        """Prompt tokens: uncached, read and written together."""
        return self.input_tokens + self.cache_read_input_tokens + self.cache_creation_input_tokens


@dataclass(frozen=True, slots=True)
class HistorianFacts:
    """What the permission and the recovery need to know of the historian (historian section 12)."""

    running: bool = False
    waiting_to_publish: bool = False
    can_fire: bool = False
    blocked_only_by_prompt: bool = False
    floor_mark_pending: bool = False
    floor_mark_allowed: bool = False
    enabled: bool = False


@dataclass(frozen=True, slots=True)
class HeadRequest:
    """What the head of a session is made from.  Empty texts and 0 mean unknown on this request."""

    source: HeadSource
    system_hash: str = ""
    tool_fingerprint: str = ""
    host_compaction_ms: int = 0  # when the host's own compaction was finished


@dataclass(frozen=True, slots=True)
class PassRequest:
    """One model request of a host.

    ``slices`` are the undecorated messages behind the first ``base`` messages of the old array (0: all of
    them), ``digests`` their SHA-256.  ``reduce_callable`` is the host's signal about the tool, None without
    one.  ``raw_from`` is the identity from which on the host had to send raw.  ``overhead_tokens`` is the
    local estimate of system prompt and tool definitions.
    """

    codec: Codec
    now_ms: int
    slices: list[bytes]
    digests: list[bytes]
    model: str
    host_ids: list[str] | None = None
    base: int = 0
    context_limit: int | None = None
    output_limit: int | None = None
    subagent: bool = False
    reduce_callable: bool | None = None
    can_remove: bool = True
    overhead_tokens: int = 0
    estimate_tokens: int | None = None
    usage: UsageReport | None = None
    raw_from: int | str | None = None
    historian: HistorianFacts = field(default_factory=HistorianFacts)
    head: HeadRequest | None = None  # None: a session without a head (subagents)


def neutral_threshold(_usable: float) -> float:
    return 65.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Configuration as the engine sees it: looked up for the outgoing model already (config section 10).

    ``threshold`` maps the usable soft window in tokens to the execute threshold in percent;
    ``threshold_tokens`` is what a person set instead of a percentage, whatever the window.
    ``protected_tokens`` None means the derived floor.  ``ttl_is_policy`` says the person set ``cache_ttl``.
    """

    count: TokenCounter
    compaction: bool = True
    threshold: Callable[[float], float] = neutral_threshold
    threshold_tokens: float | None = None
    cache_ttl: str = "5m"
    ttl_is_policy: bool = False
    output_reserve: float | None = None
    protected_tokens: int | None = None
    protected_tools: Mapping[str, int] = field(default_factory=dict)
    smart_drops: bool = True
    memory_budget: int | None = None
    history_share: float | None = None
    canonical_model: Callable[[str], str] = str
