"""A TCP proxy that can stall or delay traffic, to simulate a slow dependency."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cli.stack.ports import free_port

CHUNK = 2**16


class Proxy:
    """Passes bytes on between its port and another. `hold`, `delay` and `open` take any thread."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self.port = free_port()
        self._loop = asyncio.new_event_loop()
        self._may_pass = asyncio.Event()
        self._may_pass.set()
        self._delay_s = 0.0
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.start()
        self._is_up.wait(10.0)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)

    def hold(self) -> None:
        """Pass nothing on: connections stay, and nobody answers."""
        self._loop.call_soon_threadsafe(self._may_pass.clear)

    def delay(self, seconds: float) -> None:
        """Pass everything on, each piece that is sent to the other side so much later."""
        self._delay_s = seconds
        self._loop.call_soon_threadsafe(self._may_pass.set)

    def open(self) -> None:
        """Pass everything on at once."""
        self.delay(0.0)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        starting = asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self._loop.run_until_complete(starting)
        self._is_up.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            await asyncio.gather(
                self._pump(reader, far_writer, is_asking=True),
                self._pump(far_reader, writer, is_asking=False),
            )

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_asking: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                if is_asking:
                    await asyncio.sleep(self._delay_s)
                await self._may_pass.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@contextmanager
def stalling(target: str) -> Iterator[Proxy]:
    """Run a proxy before `host:port`."""
    proxy = Proxy(target)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
