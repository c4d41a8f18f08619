"""Slow down who tries keys: after some wrong ones an address waits for the rest of a minute.

Keys that were right from there before go on: behind one proxy, one broken client stops no other.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from core.errors import TooManyRequests

#: Wrong keys that an address may send in so many seconds.
MAX_WRONG: Final = 20
WINDOW_S: Final = 60.0
#: Addresses, and pairs of address and key, that are remembered; the oldest are forgotten.
REMEMBERED: Final = 10_000


class WrongKeys:
    """Wrong keys by address, in this process."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._wrong: OrderedDict[str, tuple[float, int]] = OrderedDict()  #: end of window, count
        self._right: OrderedDict[tuple[str, str], None] = OrderedDict()

    def check(self, address: str, digest: str) -> None:
        """Turn an address away that has sent too many.

        Raises:
            TooManyRequests: it has, and this key was never right from there.
        """
        ends_at, count = self._wrong.get(address, (0.0, 0))
        left_s = ends_at - self._now()
        if count >= MAX_WRONG and left_s > 0 and (address, digest) not in self._right:
            raise TooManyRequests(
                f"{MAX_WRONG} wrong keys came from {address}: wait, then send a right one", left_s
            )

    def note_wrong(self, address: str) -> None:
        """Count a key that nobody has."""
        ends_at, count = self._wrong.pop(address, (0.0, 0))
        if ends_at <= self._now():
            ends_at, count = self._now() + WINDOW_S, 0
        self._wrong[address] = (ends_at, count + 1)
        if len(self._wrong) > REMEMBERED:
            self._wrong.popitem(last=False)

    def note_right(self, address: str, digest: str) -> None:
        """Remember that a key is right."""
        if (address, digest) not in self._right:
            self._right[address, digest] = None
            if len(self._right) > REMEMBERED:
                self._right.popitem(last=False)
