"""The decision tables as a page, so that a person can lay them beside the specs (design section 3).

``docs/tables.md`` is made from the tables themselves (`manage.py tables`); a test holds it up to date.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from magiccontext.engine import permission, recovery, schedule, session_kinds
from magiccontext.engine.lanes import drops, eligibility, emergency
from magiccontext.engine.view import Op

HEAD = """# Decision tables

Made from the code by `manage.py tables`; do not edit. Rows are tried from the top where a table says "first".
"""


def _table(title: str, note: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"## {title}", "", note, "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "—" if value in (None, "") else str(value).replace("|", "\\|")


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join([HEAD, *_pass_tables(), *_lane_tables()])


def _pass_tables() -> list[str]:
    kinds = {permission.BOTH: "both", permission.PRIMARY: "primary"}
    rulings = [
        ("any" if value is None else value for value in (*ruling[1:5], ruling.name, ruling.permitted))
        for ruling in permission.PERMISSION
    ]
    return [
        _table(
            "Scheduler",
            "`engine/schedule.py`, reclaim-core 4.4; first row that holds.",
            ("rule", "decision"),
            [(rule.name, rule.decision) for rule in schedule.SCHEDULER],
        ),
        _table(
            "Signals",
            "`engine/permission.py`, reclaim-core 5.2; all rows that hold, the highest level counts.",
            ("signal", "sessions", "highest level"),
            [(s.name, kinds.get(s.kinds, "subagent"), s.level.word) for s in permission.SIGNALS],
        ),
        _table(
            "Bypass of the historian's veto",
            "`engine/permission.py`, reclaim-core 5.3; any row.",
            ("because",),
            [(test.name,) for test in permission.BYPASS],
        ),
        _table(
            "Permission",
            "`engine/permission.py`, reclaim-core 5.3.",
            ("compaction off", "bust", "hold", "veto", "ruling", "permitted"),
            [list(row) for row in rulings],
        ),
        _table(
            "Queue exception",
            "`engine/permission.py`, reclaim-core 5.4; first row that holds.",
            ("situation", "the execute pass does"),
            [(row.rule, row.action) for row in permission.QUEUE],
        ),
        _table(
            "Routine lanes",
            "`engine/permission.py`, reclaim-core 5.5; first row that holds.",
            ("situation", "run"),
            [(row.name, "only if paid" if row.runs is None else row.runs) for row in permission.ROUTINE],
        ),
        _table(
            "Lanes by session kind",
            "`engine/session_kinds.py`, reclaim-core 5.5.",
            ("lane", "primary", "subagent", "compaction off"),
            [
                (lane, row.primary, row.subagent, row.compaction_off)
                for lane, row in session_kinds.LANES.items()
            ],
        ),
        _table(
            "Final check",
            "`engine/recovery.py`, reclaim-core 8.4; first row that holds.",
            ("situation", "code of the refusal", "disarms the recovery"),
            [(name, ending.code, ending.disarm) for name, _, ending in recovery.FINAL],
        ),
    ]


def _lane_tables() -> list[str]:
    return [
        _table(
            "Drop modes",
            "`engine/lanes/drops.py`, reclaim-core 3; first row that holds.",
            ("situation", "leaves"),
            [
                (name, "nothing" if outcome == drops.REMOVE else "a skeleton")
                for name, _, outcome in drops.DROP_MODES
            ],
        ),
        _table(
            "What holds a drop back",
            "`engine/lanes/eligibility.py`, reclaim-core 2.1; any row.",
            ("reason", "released at 95 %"),
            [(reason, released) for reason, _, released in eligibility.HOLDS],
        ),
        _table(
            "Emergency tool drop: why it does nothing",
            "`engine/lanes/emergency.py`, reclaim-core 7; first row.",
            ("outcome",),
            [(outcome,) for outcome, _ in emergency.REFUSALS],
        ),
        _table(
            "Emergency tiers",
            "`engine/lanes/emergency.py`, reclaim-core 7; in this order.",
            ("tier", "tools", "newest kept"),
            [
                (tier.name, ", ".join(sorted(tier.tools)) or "every other", f"{tier.reserve:.0%}")
                for tier in emergency.TIERS_IN_ORDER
            ],
        ),
        _table(
            "Emergency latch",
            "`engine/lanes/emergency.py`, reclaim-core 7.",
            ("moment", "because"),
            [(move.when, move.why) for move in emergency.LATCH],
        ),
        _table(
            "Edits",
            "`engine/view.py`, hosts 10.3; order of application within a message.",
            ("operation",),
            [(op,) for op in Op],
        ),
    ]
