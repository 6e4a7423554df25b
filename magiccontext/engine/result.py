"""What a pass answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from magiccontext.engine.permission import Clause
from magiccontext.engine.recovery import Ending
from magiccontext.engine.schedule import Decision
from magiccontext.engine.state import Changes
from magiccontext.engine.view import Level
from magiccontext.engine.window import Window


class Outcome(StrEnum):
    """Reclaim-core section 9.1.  ``replay`` is not decided here: it is what a caller does without a pass."""

    SERVE = "serve"
    REFUSE = "refuse"
    FAULT = "fault"
    PASSTHROUGH = "passthrough"


class NotReady(Exception):
    """The array is not complete yet: the host calls again.  ``code`` is one of hosts section 10.5."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class NoticeText:
    """A text for the person (hosts section 10.2)."""

    level: str
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class PassResult:
    """The decision of one pass and everything a person may ask about it.

    ``first_changed`` is the place in the array of the first already-sent message whose bytes differ, None
    on a defer pass.  Percentages are of the usable soft window; byte counts are of the messages alone.
    """

    outcome: Outcome
    changes: Changes
    level: Level
    permitted: Level
    scheduler: Decision
    reasons: tuple[str, ...]
    clauses: tuple[Clause, ...]
    lanes: dict[str, int]
    window: Window
    threshold: float
    percentage: float
    input_tokens: int
    emergency: bool
    dropped_tokens: int = 0
    first_changed: int | None = None
    ending: Ending = field(default_factory=Ending)
    notices: tuple[NoticeText, ...] = ()
    fault: str = ""
