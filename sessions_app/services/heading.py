"""From rows and request to what the engine makes a head from (history-render sections 4 to 7).

Reading the source of a head costs many queries, and most passes only replay.  So a source is kept per
session while its stamp holds: the revision of the owner's knowledge, and the session's own history, which
nobody changes without raising the session's version.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import msgspec

from magiccontext import config
from magiccontext.config import Config
from magiccontext.engine.head.model import HeadSource, ProjectDocs
from magiccontext.engine.request import HeadRequest
from magiccontext.engine.state import SessionState
from memory_app.models import ProjectState
from sessions_app import models
from sessions_app.services import head_source, project_docs
from sessions_app.services.calls import TransformCall
from sessions_app.services.clock import to_ms
from sessions_app.services.head_source import Options
from sessions_app.services.sessions import SessionKey, known_project, project_identity

MOST_SOURCES = 256

_DATE_LINE = re.compile(rb"(Today's date: )[^\\\"\n]*")


@dataclass(frozen=True, slots=True)
class Stamp:
    """Equal stamps and options, equal sources."""

    project: str
    revision: int
    history: tuple[int, int]
    lineage: int


class SourceCache:
    """The newest source of recently used sessions.  Only a cache: a stamp that differs reads again."""

    def __init__(self, most: int = MOST_SOURCES) -> None:
        self._most = most
        self._kept: OrderedDict[int, tuple[Stamp, Options, HeadSource]] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, session_id: int, stamp: Stamp, options: Options) -> HeadSource | None:
        with self._guard:
            found = self._kept.get(session_id)
            if found is None or found[:2] != (stamp, options):
                return None
            self._kept.move_to_end(session_id)
            return found[2]

    def put(self, session_id: int, stamp: Stamp, options: Options, source: HeadSource) -> None:
        with self._guard:
            self._kept[session_id] = (stamp, options, source)
            self._kept.move_to_end(session_id)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        with self._guard:
            self._kept.clear()


sources = SourceCache()


def knowledge_revision(owner_id: int) -> int:
    """Grows with every write to the owner's memories, profile and workspaces.  One query."""
    rows = ProjectState.objects.filter(owner_id=owner_id, project=None)
    return rows.values_list("revision", flat=True).first() or 0


def request_for(
    key: SessionKey, session: models.Session | None, state: SessionState, call: TransformCall, subagent: bool
) -> tuple[HeadRequest | None, int]:
    """What the pass makes its head from, and the revision it was read at.

    None for a session without a head: a subagent, unless compaction is off (reclaim-core section 5.5).
    """
    current = config.load().config
    compaction = current.compaction.enabled and current.enabled
    if not current.enabled or (subagent and compaction):
        return None, 0
    options = _options(current, session, call, compaction)
    identity = project_identity(call.project)
    if session is not None and session.project is not None:
        identity = session.project.identity
    revision = knowledge_revision(key.owner.pk) if session is None else session.knowledge_revision or 0
    stamp = Stamp(identity, revision, state.history, state.vars.lineage)
    source = sources.get(session.pk, stamp, options) if session is not None else None
    if source is None:
        row = session or models.Session(owner=key.owner, project=known_project(key.owner, identity))
        source = head_source.read(row, options, identity)
        if session is not None:
            sources.put(session.pk, stamp, options, source)
    compacted = session.host_compacted if session is not None else None
    request = HeadRequest(
        source, _system_hash(call.system), _fingerprint(call), 0 if compacted is None else to_ms(compacted)
    )
    return request, revision


def _documents(current: Config, session: models.Session | None, call: TransformCall) -> ProjectDocs:
    """The texts the host sent, else those of the project's directory where the server may read it."""
    member = call.project or {}
    sent = member.get("docs") or {}
    if sent or not current.dreamer.inject_docs:
        return ProjectDocs(tuple(sorted(sent.items())))
    directory = str(member.get("directory") or "")
    if not directory and session is not None and session.project is not None:
        directory = session.project.directory
    return ProjectDocs(project_docs.read(directory, current.project_docs_root))


def _options(
    current: Config, session: models.Session | None, call: TransformCall, compaction: bool
) -> Options:
    return Options(
        memory_enabled=current.memory.enabled,
        inject_docs=current.dreamer.inject_docs,
        mural_enabled=current.mural.enabled,
        temporal_awareness=current.temporal_awareness,
        images_accepted=bool(call.capabilities.get("images")),
        compaction_on=compaction,
        docs=_documents(current, session, call),
    )


def _system_hash(system: bytes) -> str:
    """MD5 of the system prompt without cache markers and today's date (replay-lanes section 13.3)."""
    if not system:
        return ""
    stable = _DATE_LINE.sub(rb"\1", _prompt(system))
    return hashlib.md5(stable, usedforsecurity=False).hexdigest()


def _prompt(system: bytes) -> bytes:
    """The texts of the prompt.  Neither a marker nor the spelling of the JSON around them is part of it."""
    try:
        value = json.loads(system)
    except (ValueError, RecursionError):
        return system
    parts = value if isinstance(value, list) else [value]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    joined = "\n".join(text if isinstance(text, str) else json.dumps(text) for text in texts)
    return joined.encode("utf-8", "surrogatepass")


def _fingerprint(call: TransformCall) -> str:
    """Names and descriptions of the request's own tools, in any order; "" where the host does not say."""
    if not call.capabilities.get("own_tools") or not call.tools:
        return ""
    try:
        tools = msgspec.json.decode(call.tools, type=list[dict[str, Any]])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    named = sorted((str(t.get("name", "")), str(t.get("description", ""))) for t in map(_inner, tools))
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def _inner(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    return function if isinstance(function, dict) else tool


def store(session: models.Session, changes: Any) -> None:
    """Write the pair of a pass, in its transaction; take what was published."""
    if changes.head is None and not changes.published_taken:
        return
    head, _ = models.HeadState.objects.get_or_create(session=session)
    if changes.head is not None:
        head.store_pair(changes.head)
        head.time_zone = head.time_zone or Options().time_zone
    if changes.published_taken:
        head.published_pending = False
    head.save()
