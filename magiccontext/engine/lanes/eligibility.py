"""What holds a drop back (reclaim-core section 2.1).

One table for every lane: a reason, who it stops, and whether an emergency releases it.  An agent's mark on
a held target stays queued and lands once the reason is gone; an automatic lane passes the target by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from magiccontext.engine.draft import Draft
from magiccontext.engine.lanes.protection import ToolTag, held_by_tool, in_window, window_cutoff
from magiccontext.engine.state import Tag, TagStatus, TagType
from magiccontext.engine.toolnames import tool_key

USER_ANSWER_TOOLS = frozenset({"question", "askuserquestion", "ask_user_question", "ask"})
"""Tools whose result is a person's answer."""


@dataclass(frozen=True, slots=True)
class Held:
    """Facts of one target."""

    in_window: bool
    protected_tool: bool
    no_result: bool
    user_answer: bool


HOLDS: tuple[tuple[str, Callable[[Held], bool], bool], ...] = (
    # reason, applies, released at or above 95 %
    ("protection window", lambda h: h.in_window, True),
    ("protected tool", lambda h: h.protected_tool, False),
    ("call without result", lambda h: h.no_result, False),
    ("a person's answer", lambda h: h.user_answer, False),
)


class Eligibility:
    """Answers "may this be dropped now?" for the tags of one pass.

    Computed once from the draft: ``cutoff`` is the lowest protected tool number (None without tools).
    """

    def __init__(self, draft: Draft, *, emergency: bool) -> None:
        tools = [
            ToolTag(tag.number, tag.mid, tag.tool_name, tag.token_count, tag.status is TagStatus.ACTIVE)
            for tag in draft.tags()
            if tag.type is TagType.TOOL
        ]
        self.emergency = emergency
        self.cutoff = window_cutoff(tools, draft.vars.protected_tokens, draft.vars.ratios[1])
        self.protected = held_by_tool(tools, dict(draft.vars.protected_tools))

    def reason(self, tag: Tag) -> str:
        """Why ``tag`` may not be dropped now; "" when it may."""
        if tag.type is not TagType.TOOL:
            return ""
        held = Held(
            in_window=in_window(tag.number, self.cutoff),
            protected_tool=tag.number in self.protected,
            no_result=not tag.result_mid,
            user_answer=tool_key(tag.tool_name) in USER_ANSWER_TOOLS,
        )
        for reason, applies, released in HOLDS:
            if applies(held) and not (released and self.emergency):
                return reason
        return ""
