"""A picture that is enlarged by a network, a window at a time: each window is a step. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

#: Pixels a side that a network reads at a time, at most.
WINDOW = 256
#: Of these, pixels on each side that it reads beside those it enlarges.
CONTEXT = 32

#: Where a window begins, and which pixels of the picture it gives: from, up to.
_Span = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Upscale:
    """What is enlarged. The picture is checked, and in the store."""

    image: str  #: its key: PNG, RGB, of the size of the job


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What one step reads of a picture, and the part that it gives enlarged. All in pixels."""

    top: int
    left: int
    rows: tuple[int, int]  #: of the picture, that it gives: from, up to
    columns: tuple[int, int]  #: likewise


def windows_of(width: int, height: int) -> tuple[Window, ...]:
    """Cover a picture: every pixel is given once. All windows of a picture are of one size."""
    return tuple(
        Window(top=top, left=left, rows=(y, below), columns=(x, beyond))
        for (top, y, below), (left, x, beyond) in product(_spans(height), _spans(width))
    )


def side_of(length: int) -> int:
    """Say how many pixels of a side windows read."""
    return min(length, WINDOW)


def _spans(length: int) -> Iterator[_Span]:
    if length <= WINDOW:
        yield 0, 0, length
        return
    given = WINDOW - 2 * CONTEXT
    for first in range(0, length, given):
        begin = min(max(0, first - CONTEXT), length - WINDOW)
        yield begin, first, min(first + given, length)
