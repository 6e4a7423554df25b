"""Decoding JSON into raw slices, lone surrogates included.

The fast decoder refuses half a surrogate pair even inside a slice it does not read, but hosts write them
(JavaScript cuts strings anywhere). On the slow way each such escape is replaced by an escape that occurs
nowhere in the document and has the same length; `restore` puts the original back into a slice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")

NULL = msgspec.Raw(b"null")
"""Default of an optional raw field: a union of Raw and None does not decode."""

PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
LONE = rb"(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
ESCAPES = re.compile(rb"|".join((PAIR, LONE, rb"\\.")), re.DOTALL)
ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
PRIVATE_USE = range(0xE000, 0xF900)


def decode_slices(data: bytes, kind: type[T]) -> tuple[T, Callable[[bytes], bytes]]:
    """`data` as `kind`, and the function that gives a raw slice of it its original bytes.

    Raises ValueError (msgspec's errors are such) or RecursionError.
    """
    try:
        return msgspec.json.decode(data, type=kind), bytes
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        lone = {match.group(1) for match in ESCAPES.finditer(data) if match.group(1)}
        unused = (escape for code in PRIVATE_USE if (escape := b"\\u%04x" % code) not in data)
        masks = dict(zip(sorted(lone), unused, strict=False))
        if not masks:
            raise
    masked = ESCAPES.sub(lambda match: masks.get(match.group(0), match.group(0)), data)
    originals = {mask: original for original, mask in masks.items()}

    def restore(part: bytes) -> bytes:
        return ESCAPE.sub(lambda match: originals.get(match.group(0), match.group(0)), bytes(part))

    return msgspec.json.decode(masked, type=kind), restore
