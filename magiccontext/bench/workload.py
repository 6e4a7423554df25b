"""Conversations of a given size, the same on every machine."""

from __future__ import annotations

import json
from collections.abc import Iterator

VOCABULARY = """
the session keeps its prefix while the agent reads files and runs tests def return self import value error
line path result expected assert message token window cache model request answer state commit
"""
WORDS = VOCABULARY.split()


def prose(seed: int, characters: int) -> str:
    """Deterministic prose of about ``characters`` characters."""
    words: list[str] = []
    length = 0
    state = seed * 2654435761 % 2**32 or 1
    while length < characters:
        state = (state * 1103515245 + 12345) % 2**31
        word = WORDS[state % len(WORDS)]
        words.append(word if state % 11 else f"{word}_{state % 1000}\n")
        length += len(words[-1]) + 1
    return " ".join(words)


def messages(count: int, *, characters: int = 850) -> Iterator[bytes]:
    """``count`` Anthropic messages of about ``characters`` each: a prompt, then steps of call and result."""
    yield json.dumps({"role": "user", "content": prose(1, characters)}, separators=(",", ":")).encode()
    for index in range(1, count):
        step = (index + 1) // 2
        if index % 2:
            content: list[dict[str, object]] = [
                {"type": "text", "text": prose(index, characters // 8)},
                {
                    "type": "tool_use",
                    "id": f"call_{step}",
                    "name": ("read", "bash", "grep", "edit")[step % 4],
                    "input": {"path": f"src/module_{step}.py", "note": prose(index + 7, characters // 8)},
                },
            ]
            role = "assistant"
        else:
            output = prose(index, characters * 2 - characters // 4)
            content = [{"type": "tool_result", "tool_use_id": f"call_{step}", "content": output}]
            role = "user"
        yield json.dumps({"role": role, "content": content}, separators=(",", ":")).encode()


def tail(start: int, count: int, *, characters: int = 850) -> list[bytes]:
    """Messages ``start`` to ``start + count`` of the same endless conversation."""
    wanted: list[bytes] = []
    for index, raw in enumerate(messages(start + count, characters=characters)):
        if index >= start:
            wanted.append(raw)
    return wanted
