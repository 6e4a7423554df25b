"""How large what is served is, in local tokens and bytes.

Fixed at first sight per message and per tag; a drop subtracts what its tag accounts for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from magiccontext.engine.draft import Draft
from magiccontext.engine.state import Msg, Tag, TagStatus, TagType
from magiccontext.engine.view import Form

PLACEHOLDER_TOKENS = 6


def served_tokens(draft: Draft, message: Msg, form: Form | None = None) -> int:
    """Local tokens of ``message`` as it is (or with ``form`` will be) served; 0 when it is left out."""
    current = form or message.form
    if current is None or not current.edits:
        return message.tokens  # whatever was decided since, it goes out whole
    if current.body is None:
        return 0
    gone = sum(
        _gone(tag, message.mid) for tag in draft.tags_of(message.mid) if tag.status is TagStatus.DROPPED
    )
    return max(0, message.tokens - gone)


def _gone(tag: Tag, mid: str) -> int:
    """Tokens that the drop of ``tag`` takes out of message ``mid``."""
    if tag.type is not TagType.TOOL:
        return max(0, tag.token_count - PLACEHOLDER_TOKENS)
    gone = 0
    if tag.result_mid == mid:
        gone += tag.token_count - (PLACEHOLDER_TOKENS if tag.drop_mode.is_skeleton else 0)
    if tag.mid == mid and not tag.drop_mode.is_skeleton:
        gone += tag.input_token_count
    return max(0, gone)


def totals(draft: Draft, messages: Iterable[Msg], formed: Mapping[str, Form]) -> tuple[int, int, int]:
    """(local tokens served, raw bytes, served bytes) of ``messages`` under the forms of this pass."""
    tokens = raw = served = 0
    for message in messages:
        form = formed.get(message.mid) or message.form
        tokens += served_tokens(draft, message, form)
        raw += len(message.raw)
        body = message.raw if form is None else form.body
        served += len(body) if body is not None else 0
    return tokens, raw, served
