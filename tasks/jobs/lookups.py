"""Look strangers' names up in a few threads of their own: the servers of some never answer.

Nothing ends a look-up but the system's resolver, half a minute later or more: whoever gives it up
leaves its thread behind. In threads that others need (uvloop has two for look-ups), two such names
would hold up every connection by name, to the store and the scheduler too.
"""

import asyncio
import socket
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from threading import Thread
from typing import Final

from worker.futures import resolve as answer

#: Look-ups at a time, and those of one tenant; others wait for them.
MAX_LOOKUPS: Final = 8
MAX_OF_TENANT: Final = 2

#: Takes a host name and a port, returns its addresses; blocks.
LookUp = Callable[[str, int], Sequence[str]]


def look_up(host: str, port: int) -> Sequence[str]:
    """Look a name up with the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class Lookups:
    """The look-ups of one process that are under way."""

    def __init__(self, look_up: LookUp = look_up) -> None:
        self._look_up = look_up
        self._free = asyncio.Semaphore(MAX_LOOKUPS)
        self._own = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(MAX_OF_TENANT))

    async def resolve(self, tenant: str, host: str, port: int) -> Sequence[str]:
        """Wait for a turn of the tenant's and look a name up; raises as the resolver does.

        The turn lasts until the look-up has ended, though its caller has given up before.
        """
        with ExitStack() as turn:
            for free in (self._own[tenant], self._free):
                await free.acquire()
                turn.callback(free.release)
            looking = asyncio.wrap_future(_in_thread(partial(self._look_up, host, port)))
            looking.add_done_callback(partial(_end, turn.pop_all()))
        return await asyncio.shield(looking)


def _in_thread(call: Callable[[], Sequence[str]]) -> Future[Sequence[str]]:
    """Call in a thread that does not keep a process which ends, as those of a pool would."""
    found: Future[Sequence[str]] = Future()
    Thread(target=answer, args=(found, call), name="lookup", daemon=True).start()
    return found


def _end(turn: ExitStack, looking: asyncio.Future[Sequence[str]]) -> None:
    turn.close()
    looking.exception()  # it counts as seen, whoever has left meanwhile
