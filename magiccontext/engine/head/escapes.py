"""How foreign text is kept from being taken for structure (history-render, "Escapes", and section 1)."""

from __future__ import annotations

CONTINUATION = "  "
MAX_CONTENT = 64 * 1024  # characters of one memory or profile entry on the wire


def content(text: str) -> str:
    """Text between tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def attr(text: str) -> str:
    """Text inside a quoted attribute."""
    return content(text).replace('"', "&quot;").replace("'", "&apos;")


def entry(text: str) -> str:
    """Content of a one-line entry: capped, escaped, and further lines indented.

    The indentation keeps a text of several lines from forging an entry of its own.  Every character that
    some reader takes for the end of a line ends one here.
    """
    return ("\n" + CONTINUATION).join(content(text[:MAX_CONTENT]).splitlines())
