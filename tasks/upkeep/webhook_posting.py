"""Hand webhooks that are due to the CPU workers, few at a time of a receiver that hangs."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from storage.jobs.outbox import Deliveries, Delivery
from tasks.upkeep.webhook_receiver import WebhookReceiver

#: Deliveries that may wait for a CPU worker: they come back every minute while nobody takes them.
MAX_POSTING = 1000
#: Taken from the outbox in one round: those of a receiver that hangs are held, and hide nobody.
MAX_TAKEN = 500

#: Puts one delivery on the queue of the CPU workers.
Send = Callable[[Delivery], None]


class WebhookPosting:
    """Sends deliveries on their way while CPU workers and their receivers have room for them."""

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
        self._receivers: defaultdict[str, WebhookReceiver] = defaultdict(WebhookReceiver)

    async def run(self) -> None:
        """Hand out what is due; what the CPU workers do not settle comes back."""
        num_waiting = await self._waiting()
        if num_waiting >= MAX_POSTING:
            return
        now = self._clock()
        await self._see_settled(now, are_threads_free=not num_waiting)
        for delivery in await self._outbox.due(limit=MAX_TAKEN):
            self._receivers[_host_of(delivery)].hold(delivery, now)
        for receiver in self._receivers.values():
            for delivery in receiver.send(now):
                await asyncio.to_thread(self._send, delivery)

    async def _see_settled(self, now: float, *, are_threads_free: bool) -> None:
        """Tell receivers what was settled since the last round; forget those that are idle."""
        on_way = [each for receiver in self._receivers.values() for each in receiver.on_way]
        unsettled = await self._outbox.current(on_way)
        for host, receiver in list(self._receivers.items()):
            receiver.see(unsettled, now, are_threads_free=are_threads_free)
            if receiver.is_idle:
                del self._receivers[host]


def _host_of(delivery: Delivery) -> str:
    return urlsplit(delivery.url).hostname or delivery.url
