"""``usage`` objects, wherever they occur (hosts section 10.1)."""

from __future__ import annotations

import msgspec

from magiccontext.api.body import invalid, milliseconds
from magiccontext.engine.request import UsageReport

MOST_TOKENS = 100_000_000


class Usage(msgspec.Struct):
    """Tokens of one finished response; ``input_tokens`` is the uncached part of the prompt."""

    input_tokens: int = 0
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int = 0
    completed_at: str | None = None
    message_id: str | None = None
    pass_id: int | None = None

    @property
    def reports_cache(self) -> bool:
        return self.cache_read_input_tokens is not None or self.cache_creation_input_tokens is not None

    def report(self, field: str, now_ms: int, model: str) -> UsageReport:
        """As the engine takes it.  A response cannot be finished later than now."""
        for name in (
            "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens",
        ):  # fmt: skip
            value = getattr(self, name) or 0
            if not 0 <= value <= MOST_TOKENS:
                raise invalid(f"{field}.{name}", f"must be 0 to {MOST_TOKENS}")
        if self.pass_id is not None and not 0 <= self.pass_id < 2**63:
            raise invalid(f"{field}.pass_id", "is not the id of a pass")
        if self.message_id is not None and (len(self.message_id) > 255 or "\x00" in self.message_id):
            raise invalid(f"{field}.message_id", "must have at most 255 characters and no NUL")
        completed = (
            now_ms if self.completed_at is None else milliseconds(self.completed_at, f"{field}.completed_at")
        )
        return UsageReport(
            input_tokens=self.input_tokens,
            cache_read_input_tokens=self.cache_read_input_tokens or 0,
            cache_creation_input_tokens=self.cache_creation_input_tokens or 0,
            output_tokens=self.output_tokens,
            completed_ms=min(completed, now_ms),
            message_id=self.message_id or "",
            pass_id=self.pass_id or 0,
            model=model,
        )
