"""The models of this app, one file per idea."""

from sessions_app.models.compartment import Compartment, CompartmentEvent, M0Mutation
from sessions_app.models.directive import Directive
from sessions_app.models.head import HeadState
from sessions_app.models.host_key import HostKey
from sessions_app.models.message import RawMessage, ServedForm
from sessions_app.models.receipt import EventReceipt, RequestReceipt, ToolReceipt
from sessions_app.models.record import Incident, Notice, Pass, UsageEvent
from sessions_app.models.session import Lineage, Session
from sessions_app.models.tag import PendingDrop, Tag

__all__ = [
    "Compartment",
    "CompartmentEvent",
    "Directive",
    "EventReceipt",
    "HeadState",
    "HostKey",
    "Incident",
    "Lineage",
    "M0Mutation",
    "Notice",
    "Pass",
    "PendingDrop",
    "RawMessage",
    "RequestReceipt",
    "ServedForm",
    "Session",
    "Tag",
    "ToolReceipt",
    "UsageEvent",
]
