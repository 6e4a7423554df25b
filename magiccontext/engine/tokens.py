"""How content is measured in tokens.

The engine does not count: a tokenizer loads a vocabulary, which is I/O.  It receives a counter as a value.
A count is in *local* tokens; what a provider bills for them is :mod:`magiccontext.engine.calibration`'s
matter.  Images have no text to count and cost by their size (replay-lanes section 9.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

# Local tokens of each text, in the order given.
TokenCounter = Callable[[Sequence[str]], list[int]]

IMAGE_TOKENS_UNKNOWN = 1_200
PIXELS_PER_TOKEN = 750
IMAGE_TOKENS = (256, 4_096)  # what an image costs at least and at most


def image_tokens(width: int | None, height: int | None) -> int:
    """Tokens of an image of ``width`` × ``height`` pixels; a size that is unknown costs the flat rate."""
    if not width or not height or width < 0 or height < 0:
        return IMAGE_TOKENS_UNKNOWN
    lowest, highest = IMAGE_TOKENS
    return min(max(math.ceil(width * height / PIXELS_PER_TOKEN), lowest), highest)
