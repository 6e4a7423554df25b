"""Slices keep their bytes even where the fast decoder refuses the document."""

import msgspec
import pytest

from magiccontext.replay.raw_json import decode_slices

ITEMS = (
    rb'"caf\u00e9"',
    rb'{"a": "\ud83d", "b":"\ud83d\ude00"}',
    rb'"\\ud83d"',
    rb'"\uDC00 \ue000"',
    rb"1.50",
)


def test_lone_surrogates_keep_their_bytes() -> None:
    data = b"[" + b" , ".join(ITEMS) + b"]"
    slices, restore = decode_slices(data, list[msgspec.Raw])
    assert tuple(restore(raw) for raw in slices) == ITEMS


@pytest.mark.parametrize("data", [b"[", rb'["\ud83d"', b"nothing", b'{"a":1}'])
def test_what_is_broken_stays_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode_slices(data, list[msgspec.Raw])
