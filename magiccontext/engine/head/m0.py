"""The bytes of m[0] (history-render section 1).

Each function makes one section; an empty section is the empty string and leaves no trace.  Everything that
was written by a model, a person or a file is escaped here, and nothing else is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from magiccontext.engine.head import escapes
from magiccontext.engine.head.model import Memory, Mural, Pair, ProfileEntry, ProjectDocs, Workspace

DOC_NAMES = ("ARCHITECTURE.md", "STRUCTURE.md")
MAX_DOC_BYTES = 256 * 1024

# Rendered in this order; every other category follows by name.
CATEGORIES = ("PROJECT_RULES", "ARCHITECTURE", "CONSTRAINTS", "CONFIG_VALUES", "NAMING")

MURAL_TEXT = """<memory-mural>
The project memory mural image follows.
It shows, as short cues grouped by category, further memories of this project that did not fit above.
Every cue begins with the memory's number: look the number up before relying on a cue.
</memory-mural>"""

_TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)
_MURAL = re.compile(r"\s*<memory-mural>\n.*?\n</memory-mural>", re.DOTALL)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def canonical_docs(docs: ProjectDocs) -> list[tuple[str, str]]:
    """The documents that count, in their order, as (name, canonical unescaped text).

    A text above 256 KiB of UTF-8 and a document without any text count as absent.
    """
    found = {name: text for name, text in docs.files if len(_bytes(text)) <= MAX_DOC_BYTES}
    canonical = []
    for name in DOC_NAMES:
        text = found.get(name, "").removeprefix("\ufeff").replace("\r\n", "\n")
        if text := _TRAILING.sub("", text).rstrip("\n"):
            canonical.append((name, text))
    return canonical


def project_docs(documents: Iterable[tuple[str, str]]) -> str:
    """The ``<project-docs>`` section of what :func:`canonical_docs` found."""
    files = "\n\n".join(
        f'<file name="{escapes.attr(name)}">\n{escapes.content(text)}\n</file>' for name, text in documents
    )
    return f"<project-docs>\n{files}\n</project-docs>" if files else ""


def docs_hash(documents: Iterable[tuple[str, str]]) -> str:
    """SHA-256 in hex of the texts rendered; empty when there are none."""
    pieces = [f"file:{name}\n{text}" for name, text in documents]
    return hashlib.sha256(_bytes("\n\n---\n\n".join(pieces))).hexdigest() if pieces else ""


def in_profile_order(entries: Iterable[ProfileEntry]) -> list[ProfileEntry]:
    return sorted(entries, key=lambda entry: (entry.promoted_ms, entry.id))


def profile(entries: Iterable[ProfileEntry], tag: str = "user-profile") -> str:
    """A profile section named ``tag`` of exactly these entries."""
    lines = [f"- {escapes.entry(entry.content)}" for entry in in_profile_order(entries)]
    return "\n".join([f"<{tag}>", *lines, f"</{tag}>"]) if lines else ""


def source_names(project: str, workspace: Workspace | None) -> dict[str, str]:
    """Display names by identity, of foreign members that have one."""
    members = workspace.members if workspace else ()
    return {m.identity: m.display_name for m in members if m.identity != project and m.display_name}


def memory_line(memory: Memory, names: dict[str, str]) -> str:
    """One memory; ``names`` are those of :func:`source_names`.  Importance is never on the wire."""
    name = names.get(memory.project, "")
    source = f" [{escapes.entry(name)}]" if name else ""
    return f"#{memory.id}{source}: {escapes.entry(memory.content)}"


def category_rank(category: str) -> tuple[int, str]:
    known = CATEGORIES.index(category) if category in CATEGORIES else len(CATEGORIES)
    return known, category


def memories(chosen: Iterable[Memory], names: dict[str, str], tag: str = "project-memory") -> str:
    """A memory section named ``tag`` of exactly these memories."""
    by_category: dict[str, list[Memory]] = {}
    for memory in chosen:
        by_category.setdefault(memory.category, []).append(memory)
    lines = []
    for category in sorted(by_category, key=category_rank):
        members = sorted(by_category[category], key=lambda memory: memory.id)
        name = escapes.attr(category)
        lines += [f"<{name}>", *(memory_line(memory, names) for memory in members), f"</{name}>"]
    return "\n".join([f"<{tag}>", *lines, f"</{tag}>"]) if lines else ""


def mural(image: Mural | None) -> str:
    """The text that announces the image; none without an image to announce."""
    return MURAL_TEXT if image is not None else ""


def assemble(*, docs: str, profile: str, history: str, memories: str, mural: str) -> str:
    """m[0] of its sections; ``history`` is never empty."""
    return "\n\n".join(part for part in (docs, profile, history, memories, mural) if part).strip()


def served_m0(pair: Pair) -> str:
    """The text of m[0] as it is sent: without an image beside it, no text announces one (section 3)."""
    return pair.m0 if pair.mural is not None else _MURAL.sub("", pair.m0)
