"""Usage of the newest response, and what it says about the request at hand (reclaim-core section 4.1).

A figure is only worth something for the array it was measured on.  It stands for the present array while
that one extends the measured one, under the same limit and model; otherwise it counts as zero.  A restart
changes none of this: everything compared is stored.

Two estimates complete it.  The *trusted* one starts from the measured figure and adds what came since at
the calibrated rate.  The *lower bound* is what the request cannot be below; only it proves anything
(reclaim-core section 8.4: a conservative estimate alone is not proof).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from magiccontext.engine.request import UsageReport
from magiccontext.engine.schedule import EMERGENCY
from magiccontext.engine.state import Vars
from magiccontext.engine.window import Window

ESTIMATE_SHARE = 0.85
"""A host's own estimate of its request counts against this share of the limit (section 4.1)."""

LOWER_ADDED = 0.6
"""Least provider tokens per local token: no tokenizer in use packs text denser than this against ours."""

LOWER_REMOVED = 1.6
"""Most provider tokens that one removed local token may have stood for."""


def record(vars: Vars, report: UsageReport, limit: int) -> Vars:
    """``vars`` after a response.  An older response, or one without prompt tokens, changes nothing.

    ``limit`` is the usable soft window it was measured against, in tokens.
    """
    if report.pressure <= 0 or report.completed_ms < vars.last_response_ms or _known(vars, report):
        return vars
    model = report.model or vars.model
    bound_here = report.measured_mid is None and (report.pass_id in (0, vars.last_pass_id))
    mid = vars.last_pass_mid if bound_here else (report.measured_mid or "")
    wire = vars.last_pass_wire_tokens if bound_here else (report.measured_wire or 0)
    vars = replace(
        vars,
        usage_input_tokens=report.pressure,
        usage_limit=limit,
        usage_model=model,
        usage_pass_id=report.pass_id,
        usage_message_id=report.message_id,
        usage_mid=mid,
        usage_wire_tokens=wire,
        last_response_ms=report.completed_ms,
        proven_safe_input=max(vars.proven_safe_input, report.pressure),
    )
    if vars.detected_limit and vars.detected_model == model and report.pressure > vars.detected_limit:
        vars = replace(vars, detected_limit=0, detected_model="", detected_provenance="")
    return vars


def _known(vars: Vars, report: UsageReport) -> bool:
    """The response recorded last, reported once more: by an event and by the next request."""
    if report.pass_id and report.pass_id == vars.usage_pass_id:
        return True
    return bool(report.message_id) and report.message_id == vars.usage_message_id


def switch_model(vars: Vars, model: str, limit: int) -> Vars:
    """``vars`` for a request that goes to another model than the stored usage came from (section 4.1).

    Arms the recovery when what the other model accepted does not fit this one (section 8.2, proactive).
    """
    measured = vars.usage_input_tokens
    foreign_limit = vars.detected_model != model
    vars = replace(
        vars,
        usage_input_tokens=0,
        usage_limit=0,
        usage_model="",
        usage_mid="",
        usage_wire_tokens=0,
        proven_safe_input=0,
        emergency_sample=0,
        detected_limit=0 if foreign_limit else vars.detected_limit,
        detected_provenance="" if foreign_limit else vars.detected_provenance,
        detected_model="" if foreign_limit else vars.detected_model,
        recovery_armed=vars.recovery_armed and not foreign_limit,
        recovery_origin="" if foreign_limit else vars.recovery_origin,
    )
    if measured > limit:
        vars = replace(
            vars, recovery_armed=True, recovery_origin="proactive_model_shrink", recovery_no_head=0
        )
    return vars


@dataclass(frozen=True, slots=True)
class Gauge:
    """How full the window is, for the decisions of one pass."""

    percentage: float  # of the usable soft window
    emergency_percentage: float  # of the usable hard window
    input_tokens: int  # the figure behind it; 0 when unknown
    measured: bool  # taken from a response that stands for this array
    lower: int  # the request cannot be below this
    trusted: int


def gauge(
    vars: Vars,
    window: Window,
    *,
    extends_measured: bool,
    wire_tokens: int,
    overhead_tokens: int,
    ratio: float,
    host_estimate: int | None,
    armed: bool,
) -> Gauge:
    """Measure the request before any lane ran.

    ``extends_measured``: the array holds the last message of the measured one in its place.
    ``armed``: the recovery latch makes this at least an emergency (section 8.3).
    """
    limit = window.usable_soft
    known = (
        extends_measured
        and vars.usage_input_tokens > 0
        and vars.usage_limit == limit
        and bool(vars.usage_mid)
    )
    trusted, lower = estimates(
        vars, known, wire_tokens=wire_tokens, overhead_tokens=overhead_tokens, ratio=ratio
    )
    tokens = vars.usage_input_tokens if known else 0
    percentage = tokens / limit * 100
    emergency = tokens / window.usable_hard * 100
    if host_estimate:
        percentage = max(percentage, host_estimate / (limit * ESTIMATE_SHARE) * 100)
        emergency = max(emergency, host_estimate / (window.usable_hard * ESTIMATE_SHARE) * 100)
    if lower > window.usable_hard:
        # What arrived since the last response, or an unmeasured history, cannot fit: handle it now.
        percentage = max(percentage, trusted / limit * 100)
        emergency = max(emergency, trusted / window.usable_hard * 100, EMERGENCY)
        tokens = max(tokens, trusted)
    if armed:
        percentage, emergency = max(percentage, EMERGENCY), max(emergency, EMERGENCY)
    return Gauge(percentage, emergency, tokens, known, lower, trusted)


def estimates(
    vars: Vars, known: bool, *, wire_tokens: int, overhead_tokens: int, ratio: float
) -> tuple[int, int]:
    """(trusted, lower bound) of a request whose served messages are ``wire_tokens`` local tokens."""
    if known:
        delta = wire_tokens - vars.usage_wire_tokens
        lower = delta * (LOWER_ADDED if delta > 0 else LOWER_REMOVED)
        return round(vars.usage_input_tokens + delta * ratio), round(vars.usage_input_tokens + lower)
    total = wire_tokens + overhead_tokens
    return round(total * ratio), round(total * LOWER_ADDED)
