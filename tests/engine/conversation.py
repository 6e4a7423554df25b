"""Conversations as raw bytes, and a session that is driven through the engine call by call.

Messages are written once, in a neutral form, and become the bytes of either wire format.  The session
stands for host and server together: it keeps the host's array, asks for a pass, commits it, and remembers
what was served.  Tokens are counted as a quarter of the characters, so that sizes can be read off a test.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from magiccontext.engine.draft import Draft, Route
from magiccontext.engine.identity import digest_of
from magiccontext.engine.measure import totals
from magiccontext.engine.passes import run_pass
from magiccontext.engine.request import PassRequest, Settings, UsageReport
from magiccontext.engine.result import Outcome, PassResult
from magiccontext.engine.state import Arrival, Msg, PendingDrop, SessionState, Tag, TagType
from magiccontext.engine.transcript import Kind, Parsed, Role
from magiccontext.engine.view import Edit
from magiccontext.engine.wire import codec_for
from magiccontext.engine.wire.base import Codec

START_MS = 1_700_000_000_000
SECOND = 1_000
MINUTE = 60 * SECOND
PIXEL = "iVBORw0KGgo="


def count(texts: Sequence[str]) -> list[int]:
    return [len(text) // 4 for text in texts]


def words(tokens: int, seed: str = "word") -> str:
    """A text of that many tokens."""
    return (f"{seed} " * (4 * tokens // (len(seed) + 1) + 1))[: 4 * tokens]


def dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Call:
    id: str
    name: str = "bash"
    arguments: dict[str, Any] = field(default_factory=lambda: {"command": "ls"})


@dataclass(frozen=True)
class Result:
    id: str
    text: str | None = "ok"  # None: a result without output
    error: bool = False
    images: int = 0


class Anthropic:
    format = "anthropic"

    def user(self, *texts: str, images: int = 0, results: Sequence[Result] = ()) -> list[bytes]:
        """One user message: results first, then texts, then images."""
        blocks = [self._result(result) for result in results]
        blocks += [{"type": "text", "text": text} for text in texts]
        blocks += [self._image()] * images
        if len(blocks) == 1 and texts:
            return [dump({"role": "user", "content": texts[0]})]
        return [dump({"role": "user", "content": blocks})]

    def assistant(self, *texts: str, calls: Sequence[Call] = (), thinking: str = "") -> list[bytes]:
        blocks: list[dict[str, Any]] = []
        if thinking:
            blocks.append({"type": "thinking", "thinking": thinking, "signature": "sig"})
        blocks += [{"type": "text", "text": text} for text in texts]
        blocks += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in calls]
        return [dump({"role": "assistant", "content": blocks})]

    def results(self, *results: Result) -> list[bytes]:
        return self.user(results=results)

    def _result(self, result: Result) -> dict[str, Any]:
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.id}
        if result.text is not None:
            block["content"] = result.text
            if result.images:
                block["content"] = [{"type": "text", "text": result.text}, *[self._image()] * result.images]
        if result.error:
            block["is_error"] = True
        return block

    def _image(self) -> dict[str, Any]:
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


class OpenAIChat:
    format = "openai-chat"

    def user(self, *texts: str, images: int = 0, results: Sequence[Result] = ()) -> list[bytes]:
        items: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
        items += [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}] * images
        content: Any = texts[0] if len(texts) == 1 and not images else items
        own = [dump({"role": "user", "content": content})] if items else []
        return [message for result in results for message in self.results(result)] + own

    def assistant(self, *texts: str, calls: Sequence[Call] = (), thinking: str = "") -> list[bytes]:
        message: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts) if texts else None}
        if thinking:
            message["reasoning_content"] = thinking
        if calls:
            message["tool_calls"] = [
                {
                    "id": c.id,
                    "type": "function",
                    "function": {"name": c.name, "arguments": json.dumps(c.arguments)},
                }
                for c in calls
            ]
        return [dump(message)]

    def results(self, *results: Result) -> list[bytes]:
        return [
            dump({"role": "tool", "tool_call_id": r.id, "content": "" if r.text is None else r.text})
            for r in results
        ]

    def system(self, text: str) -> bytes:
        return dump({"role": "system", "content": text})


WRITERS = {writer.format: writer for writer in (Anthropic(), OpenAIChat())}


class IdCodec:
    """A format whose messages carry the host's id: Anthropic messages with a member ``id``."""

    format = "with-ids"
    has_ids = True

    def __init__(self) -> None:
        self._inner = codec_for("anthropic")

    def undecorate(self, raw: bytes) -> bytes:
        return self._inner.undecorate(raw)

    def parse(self, raw: bytes) -> Parsed:
        return replace(self._inner.parse(raw), host_id=json.loads(raw)["id"])

    def encode(self, raw: bytes, edits: Sequence[Edit]) -> bytes | None:
        return self._inner.encode(raw, edits)

    def is_leading_system(self, parsed: Parsed) -> bool:
        return False


def with_id(mid: str, message: bytes) -> bytes:
    return dump({"id": mid, **json.loads(message)})


def reloaded(state: SessionState) -> SessionState:
    """The snapshot another process would load from the stored rows: nothing shared with ``state``."""
    copies = [replace(m, parsed=None) for m in state.messages.values()]
    line = None if state.line is state.path else [m.mid for m in state.line]
    return SessionState(
        state.vars,
        copies,
        [m.mid for m in state.path],
        line,
        [state.tags[number] for number in sorted(state.tags)],
        state.pending.values(),
        state.head,
        state.head_bodies,
        state.published,
        state.history,
    )


@dataclass
class Sent:
    """A committed pass: what was decided and what went out."""

    result: PassResult
    mids: list[str]
    bodies: dict[str, bytes | None]

    @property
    def served(self) -> list[bytes]:
        return [body for mid in self.mids if (body := self.bodies[mid]) is not None]

    @property
    def level(self) -> str:
        return self.result.level.word

    @property
    def lanes(self) -> dict[str, int]:
        return self.result.lanes

    @property
    def reasons(self) -> tuple[str, ...]:
        return self.result.reasons


class Session:
    """One session: ``raw`` is the host's array, ``send`` is one model request."""

    def __init__(
        self,
        format: str = "anthropic",
        model: str = "anthropic/claude-sonnet-4-5",
        context_limit: int = 100_000,
        *,
        subagent: bool = False,
        codec: Codec | None = None,
        **settings: Any,
    ) -> None:
        self.write = WRITERS.get(format, WRITERS["anthropic"])
        self.codec: Codec = codec or codec_for(format)
        self.model = model
        self.context_limit = context_limit
        self.subagent = subagent
        self.settings = Settings(count, **settings)
        self.state = SessionState()
        self.raw: list[bytes] = []
        self.now = START_MS
        self.passes = 0

    # the host's array

    def add(self, *messages: list[bytes]) -> Session:
        for message in messages:
            self.raw += message
        return self

    def ask(self, text: str = "go on") -> Session:
        return self.add(self.write.user(text))

    def step(self, id: str, result: str | Result = "ok", call: Call | None = None, text: str = "") -> Session:
        """One assistant message with one call, and its result."""
        answer = result if isinstance(result, Result) else Result(id, result)
        said = [text] if text else []
        self.add(self.write.assistant(*said, calls=[call or Call(id)]))
        return self.add(self.write.results(answer))

    def steps(
        self, number: int, tokens: int, *, first: int = 0, name: str = "bash", size: int = 2
    ) -> Session:
        """That many tool steps, each result of ``tokens`` tokens; arguments of ``size`` string bytes."""
        for index in range(first, first + number):
            call = Call(f"c{index}", name, {"command": f"{index:04d}".ljust(size, "x")})
            self.step(f"c{index}", words(tokens, f"r{index}"), call)
        return self

    # passes

    def request(self, **changes: Any) -> PassRequest:
        ids = [self.codec.parse(raw).host_id for raw in self.raw] if self.codec.has_ids else None
        values: dict[str, Any] = {
            "codec": self.codec,
            "now_ms": self.now,
            "slices": list(self.raw),
            "digests": [digest_of(raw) for raw in self.raw],
            "host_ids": ids,
            "model": self.model,
            "context_limit": self.context_limit,
            "subagent": self.subagent,
        }
        return PassRequest(**{**values, **changes})

    def usage(self, tokens: int, **values: Any) -> UsageReport:
        """Usage of the response to the last pass."""
        return UsageReport(tokens, completed_ms=self.now, model=self.model, **values)

    def send(self, *, used: int | None = None, percent: float | None = None, **changes: Any) -> Sent:
        """One request.  ``used`` and ``percent`` report the usage of the response before it."""
        if percent is not None:
            used = round(self.state.vars.last_limit * percent / 100)
        if used is not None:
            changes["usage"] = self.usage(used)
        result = self.run(**changes)
        return self.commit(result)

    def run(self, **changes: Any) -> PassResult:
        return run_pass(self.state, self.request(**changes), self.settings)

    def commit(self, result: PassResult) -> Sent:
        self.state = self.state.advanced(result.changes)
        if result.outcome in (Outcome.SERVE, Outcome.PASSTHROUGH):
            self.passes += 1
            self.state.vars = replace(self.state.vars, last_pass_id=self.passes)
        return Sent(result, [m.mid for m in self.state.path], {m.mid: m.body for m in self.state.path})

    def restart(self) -> None:
        self.state = reloaded(self.state)

    # what happens beside passes

    def queue(self, *numbers: int) -> None:
        for number in numbers:
            self.state.pending[number] = PendingDrop(number, self.now)

    def flush(self, kind: str = "explicit") -> None:
        self.state.vars = replace(self.state.vars, flush=kind)

    def idle(self, minutes: float = 10) -> None:
        self.now += int(minutes * MINUTE)

    # questions

    def tool(self, call_id: str) -> Tag:
        """The newest tag with this call id."""
        return [t for t in self.state.tags.values() if t.call_id == call_id and t.type is TagType.TOOL][-1]

    def message(self, index: int) -> Msg:
        return self.state.path[index]

    def text_tag(self, index: int) -> Tag:
        """The tag of the first text of the message at ``index``."""
        mid = self.state.path[index].mid
        return next(t for t in self.state.tags_of(mid) if t.type is TagType.MESSAGE)

    def totals(self) -> tuple[int, int, int]:
        """Tokens, raw and served bytes of the array, computed from nothing but the stored rows."""
        state = reloaded(self.state)
        draft = Draft(state, Arrival(), self.codec, Route.of(self.model), self.now)
        return totals(draft, state.path, {})


def parts(codec: Codec, served: Sequence[bytes]) -> list[tuple[Role, Kind, str, str]]:
    """(role, kind, text, call id) of every part of a served array, in order."""
    found = []
    for raw in served:
        parsed = codec.parse(raw)
        found += [(parsed.role, part.kind, part.text, part.call_id) for part in parsed.parts]
    return found


def result_texts(sent: Sent, codec: Codec) -> dict[str, str]:
    """Served text of each tool result by call id."""
    return {call: text for _, kind, text, call in parts(codec, sent.served) if kind is Kind.TOOL_RESULT}


def call_ids(sent: Sent, codec: Codec) -> list[str]:
    return [call for _, kind, _, call in parts(codec, sent.served) if kind is Kind.TOOL_CALL]
