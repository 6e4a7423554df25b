"""Wire formats: one codec per format, looked up by the name a request gives in ``format``."""

from __future__ import annotations

from magiccontext.engine.wire.anthropic import AnthropicCodec
from magiccontext.engine.wire.base import Codec
from magiccontext.engine.wire.openai_chat import OpenAIChatCodec

_CODECS: dict[str, Codec] = {codec.format: codec for codec in (AnthropicCodec(), OpenAIChatCodec())}

FORMATS: tuple[str, ...] = tuple(_CODECS)


def codec_for(format: str) -> Codec:
    """The codec of a wire format.  Raises KeyError for a format that is not in FORMATS."""
    return _CODECS[format]
