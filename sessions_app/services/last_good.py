"""The last good request, when a pass cannot be completed (reclaim-core section 9.3).

The last served view is applied to the messages it covers; what it never saw goes raw.  A replay changes no
state.  Every reason to decline is a row of the table; the first that holds is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from magiccontext.engine.identity import arrive, digest_of
from magiccontext.engine.schedule import EMERGENCY
from magiccontext.engine.state import Msg, SessionState
from magiccontext.engine.transcript import InvalidMessage, Kind
from magiccontext.engine.view import Form
from magiccontext.engine.wire.base import Codec
from sessions_app.services.calls import TransformCall
from sessions_app.services.serving import with_forms


@dataclass(frozen=True, slots=True)
class Replay:
    """``decline`` is empty when ``messages`` may be sent; ``raw_from`` is the first that goes raw."""

    decline: str = ""
    messages: list[Msg] = field(default_factory=list)
    raw_from: int | str | None = None


@dataclass(frozen=True, slots=True)
class _Seam:
    state: SessionState
    call: TransformCall
    codec: Codec
    messages: Sequence[Msg]
    digests_known: bool
    covered: int

    @property
    def emergency(self) -> bool:
        vars = self.state.vars
        return vars.usage_limit > 0 and vars.usage_input_tokens / vars.usage_limit * 100 >= EMERGENCY

    @property
    def broken_tools(self) -> bool:
        """A result without its call, or a call answered twice, in what would be sent."""
        calls: set[str] = set()
        answered: set[str] = set()
        for message in self.messages:
            if message.form is not None and message.form.body is None:
                continue
            body = message.body or message.raw
            for part in self.codec.parse(body).parts:
                if part.kind is Kind.TOOL_CALL:
                    calls.add(part.call_id)
                    answered.discard(part.call_id)
                elif part.kind is Kind.TOOL_RESULT:
                    if part.call_id not in calls or part.call_id in answered:
                        return True
                    answered.add(part.call_id)
        return False

    @property
    def too_large(self) -> bool:
        limit = self.state.vars.last_limit
        size = sum(len(m.body or b"") for m in self.messages) + self.call.overhead_bytes
        return limit <= 0 or size / 4 > limit


CHECKS: tuple[tuple[str, Callable[[_Seam], bool]], ...] = (
    ("lkg_miss", lambda s: s.state.vars.view_version == 0),
    ("lkg_emergency_armed", lambda s: s.state.vars.recovery_armed or s.emergency),
    ("lkg_model_mismatch", lambda s: s.state.vars.model != s.call.model),
    ("lkg_invalidated_reshape", lambda s: s.covered == 0 or not s.digests_known),
    ("lkg_seam_invalid", lambda s: s.broken_tools),
    ("lkg_replay_does_not_fit", lambda s: s.too_large),
)


def named(state: SessionState, codec: Codec, plain: Sequence[bytes], base: int) -> list[Msg]:
    """The messages of a request under their known identities; unknown ones are new and unstored."""
    digests = [digest_of(bare) for bare in plain]
    host_ids = [codec.parse(bare).host_id for bare in plain] if codec.has_ids else None
    arrival = arrive(state, plain, digests, host_ids, base=base)
    path = [*state.path, *arrival.new] if arrival.path is None else arrival.path
    return list(path[base:])


def with_view(messages: Sequence[Msg], forms: Mapping[str, Form]) -> list[Msg]:
    """``messages`` in the forms of a view version."""
    return with_forms(messages, forms)


def replay(
    state: SessionState, call: TransformCall, codec: Codec, plain: Sequence[bytes], digests: Sequence[bytes]
) -> Replay:
    """What can be sent without a pass, or why nothing can."""
    if call.sync is not None:
        return Replay("lkg_needs_full_array")
    try:
        messages = named(state, codec, plain, 0)
    except InvalidMessage:
        return Replay("lkg_seam_invalid")
    covered = 0
    while covered < len(messages) and messages[covered].form is not None:
        covered += 1
    tail = messages[covered:]
    seam = _Seam(
        state,
        call,
        codec,
        messages,
        # Behind the first message nobody served, every further one must be new too.
        digests_known=all(m.form is None for m in tail) and [m.digest for m in messages] == list(digests),
        covered=covered,
    )
    for reason, holds in CHECKS:
        if holds(seam):
            return Replay(reason)
    raw_from: int | str | None = None
    if tail:
        raw_from = tail[0].mid if codec.has_ids else covered
    return Replay("", messages, raw_from)
