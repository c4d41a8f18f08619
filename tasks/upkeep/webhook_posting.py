"""Hand webhooks that are due to the CPU workers."""

import asyncio
from collections.abc import Awaitable, Callable

from storage.jobs.outbox import Deliveries, Delivery

#: Deliveries that may wait for a CPU worker: they come back every minute while nobody takes them.
MAX_POSTING = 1000

#: Puts one delivery on the queue of the CPU workers.
Send = Callable[[Delivery], None]


class WebhookPosting:
    """Sends deliveries on their way while CPU workers have room for them."""

    def __init__(
        self, outbox: Deliveries, *, send: Send, waiting: Callable[[], Awaitable[int]]
    ) -> None:
        """Post from an outbox; `waiting` counts the deliveries that no CPU worker has taken."""
        self._outbox = outbox
        self._send = send
        self._waiting = waiting

    async def run(self) -> None:
        """Hand out what is due; what the CPU workers do not settle comes back."""
        if await self._waiting() >= MAX_POSTING:
            return
        for delivery in await self._outbox.due():
            await asyncio.to_thread(self._send, delivery)
