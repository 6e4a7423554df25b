"""From configuration to the engine's settings for one model (config section 10)."""

from __future__ import annotations

from magiccontext import config
from magiccontext.config import lookup
from magiccontext.engine.overflow import LIMIT_RANGE
from magiccontext.engine.request import Settings
from magiccontext.tokenizer import count_many


def engine_settings(model: str) -> Settings:
    """The settings in force for ``model`` (``provider/model``)."""
    current = config.load().config
    ttl = lookup.cache_ttl(current, model)
    reserve = lookup.value_for_model(current.output_reserve, model, None)
    # In the largest window there is, no threshold in tokens is clamped: this is the one that was set.
    configured = lookup.execute_threshold(current, model, LIMIT_RANGE[1])
    return Settings(
        count=count_many,
        compaction=current.compaction.enabled and current.enabled,
        threshold=lambda usable: lookup.execute_threshold(current, model, usable).percentage,
        threshold_tokens=configured.absolute_tokens,
        cache_ttl=ttl.text,
        ttl_is_policy=ttl.source is lookup.TtlSource.CONFIG,
        output_reserve=reserve,
        protected_tokens=current.protected_tokens,
        protected_tools=current.protected_tools,
        smart_drops=current.smart_drops,
        memory_budget=int(current.memory.injection_budget_tokens),
        history_share=current.history_budget_percentage,
        canonical_model=lambda key: lookup.aliases_of(key)[0],
    )
