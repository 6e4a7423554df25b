"""``ctx_expand``: read the raw store back (memory-search section 12)."""

from __future__ import annotations

from django.db import transaction

from magiccontext.engine.expand import ExpandError, History, choose, expand
from magiccontext.engine.wire import codec_for
from magiccontext.tokenizer import count_many
from sessions_app import models
from sessions_app.services.cache import states
from sessions_app.services.retries import Reply
from sessions_app.services.tool_call import ToolAnswer, ToolCall


def ctx_expand(session: models.Session, call: ToolCall) -> Reply:
    """Show a range, a message or a tagged item of the current lineage.  Hold the session's turn.

    Changes nothing but the call's receipts.
    """
    state = states.get(session)
    try:
        history = History(state.line, codec_for(session.format), count_many)
        found = expand(choose(call.arguments), history, state.tags.get, state.messages.get)
        answer = ToolAnswer(found.text, data=found.data)
    except ExpandError as error:
        answer = ToolAnswer(error.text, is_error=True)
    reply = answer.reply
    with transaction.atomic():
        call.keep(session, reply)
    return reply
