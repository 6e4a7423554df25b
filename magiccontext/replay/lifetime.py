"""How long a provider is taken to keep a cached prefix (config section 10.2, built-in values)."""

from __future__ import annotations

import re

from magiccontext.replay.cost import DEFAULT_LIFETIME_MS

GPT = re.compile(r"gpt-(\d+)(?:\.(\d+))?", re.IGNORECASE)
LONG_LIFETIME_MS = 30 * 60 * 1000


def lifetime_ms(model: str) -> float:
    """Milliseconds: 30 minutes for GPT 5.6 and later, else five."""
    found = GPT.search(model)
    if found and (int(found.group(1)), int(found.group(2) or 0)) >= (5, 6):
        return LONG_LIFETIME_MS
    return DEFAULT_LIFETIME_MS
