"""Hand webhooks that are due to the CPU workers, few at a time of receivers that hang."""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence, Set
from functools import partial
from urllib.parse import urlsplit

from storage.jobs.outbox import SETTLE_S, Deliveries, Delivery
from tasks.upkeep.webhook_window import OF_HOST, OF_TENANT, HandedOut, WebhookWindow

#: Deliveries that may wait for a CPU worker: they come back every minute while nobody takes them.
MAX_POSTING = 1000
#: Taken from the outbox in one round: those of a receiver that hangs are held, and hide nobody.
MAX_TAKEN = 500
#: One may wait here for so long: an attempt fits in before the outbox hands it out again.
HOLD_S = SETTLE_S - 15.0

#: Puts one delivery on the queue of the CPU workers.
Send = Callable[[Delivery], None]
Windows = defaultdict[str, WebhookWindow]


class WebhookPosting:
    """Sends deliveries on their way while CPU workers, their hosts and tenants have room."""

    def __init__(
        self,
        outbox: Deliveries,
        *,
        send: Send,
        waiting: Callable[[], Awaitable[int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Post from an outbox; `waiting` counts the deliveries that no CPU worker has taken."""
        self._outbox = outbox
        self._send = send
        self._waiting = waiting
        self._clock = clock
        #: What waits for room, by tenant and host.
        self._lanes: defaultdict[tuple[str, str], deque[HandedOut]] = defaultdict(deque)
        self._tenants: Windows = defaultdict(partial(WebhookWindow, OF_TENANT))
        self._hosts: Windows = defaultdict(partial(WebhookWindow, OF_HOST))

    async def run(self) -> None:
        """Hand out what is due; what the CPU workers do not settle comes back."""
        await self._outbox.trim()  # also while nobody takes any
        num_waiting = await self._waiting()
        if num_waiting >= MAX_POSTING:
            return
        now = self._clock()
        await self._see_settled(now, are_threads_free=not num_waiting)
        for delivery in await self._outbox.due(limit=MAX_TAKEN):
            lane = self._lanes[delivery.tenant, _host_of(delivery)]
            lane.append(HandedOut(delivery=delivery, at=now))
        for delivery in self._let_go(now):
            if delivery.event != "completed":  # it would be out of date, and come back for ever
                await self._outbox.done(delivery.id, "dropped")
        for delivery in self._next(now):
            await asyncio.to_thread(self._send, delivery)

    async def _see_settled(self, now: float, *, are_threads_free: bool) -> None:
        """Tell windows what was settled since the last round; forget those that are idle."""
        on_way = [each for window in self._hosts.values() for each in window.on_way]
        unsettled = await self._outbox.current(on_way)
        tenants = {tenant for tenant, _ in self._lanes}
        hosts = {host for _, host in self._lanes}
        see = partial(_see, unsettled, now, are_threads_free=are_threads_free)
        see(self._tenants, tenants)
        see(self._hosts, hosts)

    def _next(self, now: float) -> Iterator[Delivery]:
        """Take from one lane after another while its host and its tenant have room."""
        going = list(self._lanes)
        while going:
            going = [key for key in going if self._may_go(*key)]
            for tenant, host in going:
                windows = self._tenants[tenant], self._hosts[host]
                if all(window.has_room for window in windows):  # a lane before took the last
                    delivery = self._lanes[tenant, host].popleft().delivery
                    for window in windows:
                        window.send(delivery, now)
                    yield delivery
        self._lanes = defaultdict(deque, {key: held for key, held in self._lanes.items() if held})

    def _let_go(self, now: float) -> Sequence[Delivery]:
        """Forget what was held too long for want of room."""
        late: list[Delivery] = []
        for lane in self._lanes.values():
            while lane and now - lane[0].at >= HOLD_S:
                late.append(lane.popleft().delivery)
        return late

    def _may_go(self, tenant: str, host: str) -> bool:
        """Tell whether a lane holds what may go now."""
        is_held = bool(self._lanes[tenant, host])
        return is_held and self._tenants[tenant].has_room and self._hosts[host].has_room


def _see(
    unsettled: Set[str],
    now: float,
    windows: Windows,
    held: Collection[str],
    *,
    are_threads_free: bool,
) -> None:
    for name, window in list(windows.items()):
        has_more = name in held
        window.see(unsettled, now, has_more=has_more, are_threads_free=are_threads_free)
        if not (window.on_way or has_more):
            del windows[name]


def _host_of(delivery: Delivery) -> str:
    return urlsplit(delivery.url).hostname or delivery.url
