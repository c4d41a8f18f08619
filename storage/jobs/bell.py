"""Wake one task when something has happened, or after a while."""

import asyncio


class Bell:
    """Rings for one task of one event loop, which waits without a task of its own."""

    def __init__(self) -> None:
        self._is_rung = False
        self._waiting: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake who waits, or who will."""
        self._is_rung = True
        self._wake()

    def clear(self) -> None:
        """Forget that it rang."""
        self._is_rung = False

    async def rung(self, timeout_s: float) -> bool:
        """Wait until it rings, but no longer than that; tell whether it did."""
        if not self._is_rung:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            timer = loop.call_later(timeout_s, self._wake)
            try:
                await self._waiting
            finally:
                timer.cancel()
                self._waiting = None
        return self._is_rung

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
