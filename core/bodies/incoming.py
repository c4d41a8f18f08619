"""Bound bodies as they come: how long each is waited for, and how many bytes of all are held.

Bytes buy time, but never a longer silence than at first. A client may be a proxy with all of its
own behind it: so whoever holds more than a share is refused only where others would not find one.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from core.errors import TooManyRequests, TooSlow

#: Seconds that a body may be silent, and bytes that buy a second of those back.
BODY_S: Final = 20.0
MIN_RATE: Final = 16 * 2**10
#: Shares of the memory for bodies: one is kept for those who have less than one.
SHARES: Final = 4
#: Seconds after which a body may be sent again.
RETRY_S: Final = 1.0

Part = TypeVar("Part")


class BodyClock:
    """The time that one body has left."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self.left_s = BODY_S

    async def wait_for(self, coming: Awaitable[Part]) -> Part:
        """Wait for what comes next of the body.

        Raises:
            TooSlow: it did not come in the time that was left.
        """
        began = self._now()
        try:
            async with asyncio.timeout(self.left_s):
                return await coming
        except TimeoutError as error:
            raise TooSlow(
                f"the body must come at {MIN_RATE} bytes a second, without a pause of {BODY_S:g} s"
            ) from error
        finally:
            self.left_s -= self._now() - began

    def add(self, size_bytes: int) -> None:
        """Give the time that bytes buy which have come."""
        self.left_s = min(BODY_S, self.left_s + size_bytes / MIN_RATE)


class HeldBytes:
    """Bytes of bodies that are in memory."""

    def __init__(self, most_bytes: int, largest_bytes: int) -> None:
        """Hold so many, and in any case two bodies of the largest."""
        self._most = max(most_bytes, 2 * largest_bytes)
        self._share = self._most // SHARES
        self._of_client = Counter[str]()
        self.total_bytes = 0

    def hold(self, client: str, more_bytes: int) -> None:
        """Count what has come from a client.

        Raises:
            TooManyRequests: there is no room for it; it is not counted.
        """
        total, own = self.total_bytes + more_bytes, self._of_client[client] + more_bytes
        room = self._most if own <= self._share else self._most - self._share
        if more_bytes and total > room:
            raise TooManyRequests(
                f"bodies of {self._most} bytes in all are read at a time, and who has sent more "
                f"than {self._share} leaves as many to others: send this one again",
                RETRY_S,
            )
        self.total_bytes, self._of_client[client] = total, own

    def release(self, client: str, size_bytes: int) -> None:
        """Give back what is in memory no more."""
        self.total_bytes -= size_bytes
        self._of_client[client] -= size_bytes
        if not self._of_client[client]:
            del self._of_client[client]
