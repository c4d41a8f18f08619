"""Run a few calls in each turn of an event loop, client by client: a crowd does not hold others up.

Whatever is ready runs before the loop looks at its sockets again. Where a thousand requests come
at once, that is a thousand first steps in one turn.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

#: Calls in one turn.
MAX_IN_TURN: Final = 8


class FairQueue:
    """Calls that wait for their turn, in a line for each client; the lines take turns."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lines: dict[str | None, deque[Callable[[], None]]] = {}
        self._left = MAX_IN_TURN
        self._is_due = False

    def call(self, client: str | None, what: Callable[[], None]) -> None:
        """Call now if this turn of the loop has not had enough, otherwise in one that follows."""
        if not self._left or client in self._lines:
            self._lines.setdefault(client, deque()).append(what)
        else:
            self._left -= 1
            what()
        self._plan()

    def _plan(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_due, self._left = False, MAX_IN_TURN
        while self._lines and self._left:
            client, line = next(iter(self._lines.items()))
            del self._lines[client]
            what = line.popleft()
            if line:
                self._lines[client] = line  # behind the others
            self._left -= 1
            what()
        if self._lines or self._left < MAX_IN_TURN:
            self._plan()
