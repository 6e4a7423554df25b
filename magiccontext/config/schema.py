"""Every setting: its name, default, range and effect (config.md section 4).

One schema gives validation, the configuration page and the JSON Schema. Keys that are not here are ignored
silently. Types are exact: `"65"` is not a number and `1` is not a truth value.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
)

from magiccontext.engine.lanes.protection import DEFAULT_PROTECTED_TOOLS
from magiccontext.engine.schedule import DEFAULT_THRESHOLD, MAX_THRESHOLD
from magiccontext.engine.toolnames import tool_key

# Union tags never name a member, so that the place of an error reads as the file does.
_SCALAR, _MAP = "(value)", "(per model)"
UNION_TAGS = frozenset({_SCALAR, _MAP})


def _shape(value: object) -> str:
    return _MAP if isinstance(value, dict) else _SCALAR


def _whole(value: object) -> object:
    # JSON does not tell 5 from 5.0.
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]
Number = Annotated[float, Field(allow_inf_nan=False)]

OutputReserve = Annotated[Number, Field(ge=0)]
ThresholdPercentage = Annotated[Number, Field(ge=20, le=MAX_THRESHOLD)]
ThresholdTokens = Annotated[Number, Field(ge=5_000, le=2_000_000)]
ReasoningTokens = Annotated[Whole, Field(ge=0, le=1_000_000)]

TextPerModel = Annotated[
    Annotated[str, Tag(_SCALAR)] | Annotated[dict[str, str], Tag(_MAP)], Discriminator(_shape)
]
OutputReservePerModel = Annotated[
    Annotated[OutputReserve, Tag(_SCALAR)] | Annotated[dict[str, OutputReserve], Tag(_MAP)],
    Discriminator(_shape),
]
PercentagePerModel = Annotated[
    Annotated[ThresholdPercentage, Tag(_SCALAR)] | Annotated[dict[str, ThresholdPercentage], Tag(_MAP)],
    Discriminator(_shape),
]
ReasoningPerModel = Annotated[
    Annotated[ReasoningTokens, Tag(_SCALAR)] | Annotated[dict[str, ReasoningTokens], Tag(_MAP)],
    Discriminator(_shape),
]


def normal_protected_tools(value: object) -> object:
    """The map under normal tool names, over the built-in one, so that both spellings name one tool."""
    if not isinstance(value, dict):
        return value
    return {**DEFAULT_PROTECTED_TOOLS, **{tool_key(name): count for name, count in value.items()}}


ProtectedTools = Annotated[dict[str, Annotated[Whole, Field(ge=0)]], BeforeValidator(normal_protected_tools)]


def _absolute(value: str) -> str:
    if not Path(value).is_absolute():
        raise ValueError("must be an absolute directory")
    return value


Directory = Annotated[str, AfterValidator(_absolute)]

Tier = Literal["any", "user"]


def _key(
    effect: str,
    default: Any = None,
    *,
    factory: Callable[[], Any] | None = None,
    tier: Tier = "any",
    restart: bool = True,
    raise_only: bool = False,
    ge: float | None = None,
    le: float | None = None,
) -> Any:
    """One setting. `tier`: who may set it. `restart`: a change waits for one. `raise_only`: for projects."""
    extra: dict[str, JsonValue] = {"tier": tier, "restart": restart, "raise_only": raise_only}
    if factory is not None:
        return Field(default_factory=factory, description=effect, json_schema_extra=extra, ge=ge, le=le)
    return Field(default=default, description=effect, json_schema_extra=extra, ge=ge, le=le)


class _Section(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", validate_default=True)


class Compaction(_Section):
    """`compaction`."""

    enabled: bool = _key(
        "False: knowledge only. Window management, tags, nudges and blocking stop.", True, tier="user"
    )


class Sqlite(_Section):
    """`sqlite`: memory per connection."""

    cache_size_mb: Number = _key("Page cache of a connection, MiB.", 64, tier="user", ge=2, le=2048)
    mmap_size_mb: Number = _key(
        "Memory-mapped part of the file, MiB; 0 is none.", 0, tier="user", ge=0, le=8192
    )


class Memory(_Section):
    """`memory`."""

    enabled: bool = _key("False: no memory tool, block or promotion. What exists stays.", True)
    injection_budget_tokens: Number = _key("Tokens of the memory block.", 4_000, ge=500, le=20_000)


class Dreamer(_Section):
    """`dreamer`, as far as the head reads it."""

    inject_docs: bool = _key("The project's documents in m[0].", True)


class Mural(_Section):
    """`mural`."""

    enabled: bool = _key("The memory mural: an image of the memories beyond the budget.", False)


class Config(_Section):
    """The effective settings. `model_fields_set` tells which of them somebody wrote down."""

    enabled: bool = _key("Master switch; false changes nothing of any request.", True)
    cache_ttl: TextPerModel = _key(
        "Assumed lifetime of the provider's cache: `30s`, `5m`, `1h`, bare milliseconds, or `never`.",
        "5m",
        restart=False,
    )
    output_reserve: OutputReservePerModel | None = _key(
        "Output tokens taken off the window; 0 takes none. Unset: derived from the model's limits.",
        tier="user",
    )
    compaction: Compaction = _key("Window management.", factory=Compaction)
    execute_threshold_percentage: PercentagePerModel = _key(
        "Share of the window, in percent, at which held work is carried out.",
        DEFAULT_THRESHOLD,
        raise_only=True,
    )
    execute_threshold_tokens: dict[str, ThresholdTokens] | None = _key(
        "The same in tokens, per model; wins over the percentage for the models it names.", raise_only=True
    )
    protected_tokens: Whole | None = _key(
        "Newest tool tokens spared from automatic reclaim. Unset: derived from the window.",
        raise_only=True,
        ge=4_000,
        le=1_000_000,
    )
    protected_tools: ProtectedTools = _key(
        "Newest results of a tool that no automatic lane drops; 0 removes a built-in entry.",
        factory=lambda: dict(DEFAULT_PROTECTED_TOOLS),
    )
    keep_reasoning_tokens: ReasoningPerModel = _key("Reasoning kept on passes that rebuild, tokens.", 10_000)
    history_budget_percentage: Number = _key(
        "Share of window × execute threshold that history may take.", 0.15, ge=0.05, le=0.5
    )
    historian_timeout_ms: Number = _key(
        "Time a historian call may take, milliseconds.", 600_000, restart=False, ge=60_000
    )
    memory: Memory = _key("What is known across sessions.", factory=Memory)
    dreamer: Dreamer = _key("Upkeep of what is known.", factory=Dreamer)
    mural: Mural = _key("The memory mural.", factory=Mural)
    project_docs_root: list[Directory] = _key(
        "Directories below which the server reads a project's documents when the host sends none.",
        factory=list,
        tier="user",
    )
    smart_drops: bool = _key("Reclaim tool calls that a later one supersedes.", True)
    temporal_awareness: bool = _key("Markers for gaps over 5 minutes; dates on compartments.", True)
    fail_closed_blocking: bool = _key(
        "Refuse primary turns loudly while the storage is unusable.", True, tier="user"
    )
    sqlite: Sqlite = _key("Connection memory.", factory=Sqlite)


def restart_keys() -> frozenset[str]:
    """Top-level keys whose change waits for a restart (section 9); the others apply live."""
    keys: set[str] = set()
    for name, info in Config.model_fields.items():
        extra = info.json_schema_extra
        if isinstance(extra, dict) and extra["restart"]:
            keys.add(name)
    return frozenset(keys)
