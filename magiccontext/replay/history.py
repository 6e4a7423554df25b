"""What was published, what of it an answer shows, and whether the messages it stands for left with it.

The rule that matters most: a message may only leave the prompt when the model can read, or could read before
it faded, the compartment that we published for it (history-render section 7). The server says nothing here
that is believed: ranges, titles and texts are compared with our own, and the cut is where the newest shown
compartment ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from magiccontext.replay.compartments import Prepared
from magiccontext.replay.facts import Facts
from magiccontext.replay.head import Head
from magiccontext.replay.problems import Problem
from magiccontext.replay.tail import core, holds, places

Range = tuple[int, int]


class History:
    """The compartments of one session: published ones, and those an answer showed already."""

    def __init__(self) -> None:
        self._published: dict[Range, Prepared] = {}
        self._shown: set[Range] = set()

    def publish(self, rows: Sequence[Prepared]) -> None:
        self._published.update(((row.start, row.end), row) for row in rows)

    @property
    def unserved(self) -> int:
        """How many published compartments no answer has shown yet."""
        return len(self._published.keys() - self._shown)

    @property
    def served(self) -> bool:
        return bool(self._shown)

    def news(self, head: Head | None) -> list[Prepared]:
        """What m[1] would have to show beside this m[0]: everything newer than it, each in full."""
        baseline = {(row.start, row.end) for row in head.baseline} if head is not None else set()
        newest = max((end for _, end in baseline), default=0)
        return [row for (start, _), row in self._published.items() if start > newest]

    def show(self, call: int, head: Head | None) -> list[Problem]:
        """Take what an answer shows; every compartment in it must be one of ours, and only once."""
        problems = []
        seen: set[Range] = set()
        for row in head.rows if head is not None else ():
            key = (row.start, row.end)
            prepared = self._published.get(key)
            where = f"compartment {row.start}-{row.end}"
            if key in seen:
                problems.append(Problem("compartment_twice", call, where))
            elif prepared is None:
                problems.append(Problem("unknown_compartment", call, f"{where} was never published"))
            elif head is not None and not row.says(
                prepared, prepared.tiers if row in head.baseline else prepared.tiers[:1]
            ):
                problems.append(Problem("false_summary", call, f"{where} does not say what was published"))
            else:
                self._shown.add(key)
            seen.add(key)
        return problems

    def covered(self, head: Head | None) -> set[int]:
        """The ordinals this head stands for: what it shows, and older ones that were shown and faded."""
        ours = (
            [(row.start, row.end) for row in head.rows if (row.start, row.end) in self._shown] if head else []
        )
        cut = max((end for _, end in ours), default=0)
        return {ordinal for start, end in self._shown if end <= cut for ordinal in range(start, end + 1)}


def live_from(raw: Sequence[Facts]) -> int:
    """Index at which the newest prompt begins, with the calls whose results stand in the same message."""
    newest = max((at for at, message in enumerate(raw) if message.from_user), default=0)
    answered = set(raw[newest].results)
    while newest > 0 and answered.intersection(raw[newest - 1].calls):
        newest -= 1
    return newest


def check_tail(
    call: int, raw: Sequence[Facts], sent: Sequence[Facts], covered: set[int], live: int
) -> list[Problem]:
    """Whether what follows the head is the conversation: nothing invented, nothing that a summary replaced,
    and everything somebody said that none replaced.

    `live`: where the newest prompt began (`live_from`) when the array was last rebuilt; it and what follows
    it may stay although it is covered.
    """
    problems = []
    for number, at in enumerate(places(raw, sent)):
        if at is None:
            text = sent[number].prompt[:60]
            problems.append(Problem("invented_message", call, f"message {number} of the tail: {text!r}"))
        elif at + 1 in covered and at < live:
            problems.append(Problem("covered_and_sent", call, f"raw message {at + 1} has its summary"))
    return problems + _missing_texts(call, raw, sent, covered)


def _missing_texts(
    call: int, raw: Sequence[Facts], sent: Sequence[Facts], covered: set[int]
) -> list[Problem]:
    """Texts that are gone without a summary, in order (hosts section 2.2 item 7)."""
    given = [(message.role, core(text)) for message in sent for text in message.texts]
    position = 0
    problems = []
    for number, message in enumerate(raw):
        if number + 1 in covered or message.role not in ("user", "assistant"):
            continue
        for wanted in filter(None, map(core, message.texts)):
            found = next(
                (
                    i
                    for i in range(position, len(given))
                    if given[i][0] == message.role and holds(given[i][1], wanted)
                ),
                None,
            )
            if found is None:
                code = f"{message.role}_text_missing"
                problems.append(Problem(code, call, f"raw message {number + 1}: {wanted[:60]!r}"))
            else:
                position = found + 1
    return problems
