"""What a replay needs to know about one message on the wire: who speaks, which calls and results it holds.

Written without the engine's codecs on purpose: a fault in them must not hide itself from the checks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from magiccontext.replay.transcript import decode, encode

TAG = re.compile("§(\\d+)§ ")
IMAGE_TOKENS = 1_500
"""What one image or document is taken to cost, whatever its size."""


@dataclass(frozen=True, slots=True)
class Facts:
    """`texts`: what the speaker said, block by block; `outputs`: the text of each tool result, in the order
    of `results`; `tags`: tag numbers at the front of tool results (reclaim-core section 1.4).

    `prompt`: everything in the message that is text to the model, as one string; `media`: images and files.
    """

    role: str
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    tags: tuple[int, ...] = ()
    prompt: str = ""
    media: int = 0

    @property
    def is_prompt(self) -> bool:
        """A message in which only the user speaks: a conversation may start here."""
        return self.from_user and not self.results

    @property
    def from_user(self) -> bool:
        """A message in which the user says something, be it beside tool results."""
        return self.role == "user" and bool(self.texts or self.media)


def facts_of(raw: bytes) -> Facts:
    """Read one message. Raises ValueError when it is not an object with a role and a content."""
    message = decode(raw)
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise ValueError("a message is an object with a role")
    role: str = message["role"]
    content = message.get("content")
    if isinstance(content, str):
        return Facts(role, texts=(content,), prompt=content)
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise ValueError("the content of a message is text or a list of blocks")
    calls: list[str] = []
    results: list[str] = []
    outputs: list[str] = []
    texts: list[str] = []
    tags: list[int] = []
    prompt: list[str] = []
    media = 0
    for block in content:
        kind = block.get("type")
        if kind == "text":
            prompt.append(str(block.get("text", "")))
            texts.append(prompt[-1])
        elif kind == "tool_use":
            calls.append(str(block.get("id", "")))
            prompt.append(f"{block.get('name', '')} {encode(block.get('input')).decode()}")
        elif kind == "tool_result":
            results.append(str(block.get("tool_use_id", "")))
            inner, files = _output(block.get("content"))
            outputs.append("\n".join(inner))
            prompt.append(outputs[-1])
            media += files
            found = TAG.match(inner[0]) if inner else None
            if found:
                tags.append(int(found.group(1)))
        elif kind == "thinking":
            prompt.append(str(block.get("thinking", "")))
        elif kind in ("image", "document"):
            media += 1
        elif kind != "redacted_thinking":
            prompt.append(encode(block).decode())
    return Facts(
        role,
        calls=tuple(calls),
        results=tuple(results),
        outputs=tuple(outputs),
        texts=tuple(texts),
        tags=tuple(tags),
        prompt="\n".join(prompt),
        media=media,
    )


def _output(content: Any) -> tuple[list[str], int]:
    """Text of a tool result, and how many images or files it holds."""
    if isinstance(content, str):
        return [content], 0
    texts: list[str] = []
    files = 0
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and block.get("type") == "text":
            texts.append(str(block.get("text", "")))
        elif isinstance(block, dict) and block.get("type") in ("image", "document"):
            files += 1
        else:
            texts.append(encode(block).decode())
    return texts, files
