"""One call of a ctx tool, and what it gives back (hosts section 10.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from django.db import transaction

from sessions_app import models
from sessions_app.services.calls import Refused
from sessions_app.services.retries import Reply, Retry, answer_text


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What the agent reads, whether it is an error, and the same for programs."""

    content: str
    is_error: bool = False
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def reply(self) -> Reply:
        return Reply(200, answer_text(asdict(self)))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """``call_key`` names the call within its session where the host may repeat it; ``agent`` is the one of
    several agents under one session id that made it; both may be empty."""

    tool: str
    arguments: Mapping[str, Any]
    call_key: str
    agent: str
    now_ms: int
    retry: Retry

    def earlier(self, session: models.Session) -> Reply | None:
        """The first answer to this call.  Raises Refused when its key named a call of another tool."""
        if not self.call_key:
            return None
        receipt = models.ToolReceipt.objects.filter(session=session, call_key=self.call_key).first()
        if receipt is None:
            return None
        if receipt.tool != self.tool:
            raise Refused("idempotency_conflict", f"This call_key was used for a call of {receipt.tool}.")
        return Reply(200, receipt.answer)

    def keep(self, session: models.Session, reply: Reply) -> None:
        """Write the receipts, in the transaction of what the call did."""
        if self.call_key:
            with transaction.atomic():
                models.ToolReceipt.objects.create(
                    session=session,
                    call_key=self.call_key,
                    tool=self.tool,
                    answer=reply.text,
                )
        self.retry.keep(reply)
