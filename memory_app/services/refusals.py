"""What a write to the memory store is refused for."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """Kinds of refusal (memory-search.md section 3)."""

    MISSING_CONTENT = "missing_content"
    BAD_CONTENT = "bad_content"
    MISSING_CATEGORY = "missing_category"
    UNKNOWN_CATEGORY = "unknown_category"
    BAD_IDS = "bad_ids"
    NOT_FOUND = "not_found"
    INACTIVE = "inactive"
    DUPLICATE = "duplicate"
    MIXED_CATEGORIES = "mixed_categories"
    BAD_VALUE = "bad_value"


class MemoryRefused(ValueError):
    """A write that was not done; nothing of it is stored.

    ``field`` names the argument at fault, ``other_id`` the memory a duplicate would repeat, ``ids`` what
    was not found or not active.  A foreign row is ``not_found`` like a missing one.
    """

    def __init__(
        self,
        code: Code,
        detail: str,
        *,
        field: str = "",
        other_id: int | None = None,
        ids: tuple[int, ...] = (),
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.field = field
        self.other_id = other_id
        self.ids = ids


def storable(text: str, field: str, limit: int | None = None) -> str:
    """``text`` itself.  Raises MemoryRefused for what no database can keep, and for more than ``limit``
    characters.
    """
    if "\x00" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise MemoryRefused(Code.BAD_CONTENT, "holds a NUL or half a character", field=field)
    if limit is not None and len(text) > limit:
        raise MemoryRefused(Code.BAD_CONTENT, f"has more than {limit} characters", field=field)
    return text
