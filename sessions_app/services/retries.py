"""Answering a repeated request with its first answer (hosts section 10.1), for everything but passes.

Answers are kept as the text that went out: it is the same to the byte, and a database never has to take
what it cannot store as text (NUL, half a surrogate pair), because JSON escapes both.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from sessions_app.services import receipts


def answer_text(answer: Any) -> str:
    """An answer as the JSON text that goes out: ASCII, every other character escaped.

    Members are sorted, because what was stored and read back may have lost their order.
    """
    return json.dumps(answer, separators=(",", ":"), sort_keys=True)


@dataclass(frozen=True, slots=True)
class Reply:
    """HTTP status and JSON text."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class Retry:
    """The identity of one request.  With an empty ``key`` it is never known again."""

    owner: Any
    key: str
    digest: bytes

    def earlier(self) -> Reply | None:
        """The first answer.  Raises Refused ``idempotency_conflict`` for the key of another request."""
        if not self.key:
            return None
        receipt = receipts.find(self.owner, self.key, self.digest)
        return None if receipt is None else Reply(receipt.status, receipt.answer)

    def keep(self, reply: Reply) -> None:
        """Write the receipt, in the transaction of what the request did."""
        if self.key:
            with transaction.atomic():
                receipts.write_answer(self.owner, self.key, self.digest, reply.status, reply.text)

    def once(self, work: Callable[[], Reply]) -> Reply:
        """The first answer, or that of ``work``, which keeps its own receipt.

        When two copies of a request run at the same time, the one that loses rolls back and repeats what
        the other one answered.
        """
        earlier = self.earlier()
        if earlier is not None:
            return earlier
        try:
            return work()
        except IntegrityError:
            earlier = self.earlier()
            if earlier is None:
                raise
            return earlier
