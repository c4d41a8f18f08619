"""Send bytes to the api as they are, read what it answers, and never wait for ever."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: Seconds after which a client gives up, whatever it has got by then.
PATIENCE_S = 40.0
#: Where hostile clients are, and from there on: not where the one is that looks after the service.
FIRST = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back on one connection."""

    status: int  #: 0: nothing came
    text: str  #: of the whole answer, its head too
    is_late: bool = False  #: the client gave up


async def send(
    port: int,
    pieces: Iterable[bytes],
    *,
    hold_s: float | None = None,
    pause_s: float = 0.0,
    address: str = f"127.0.0.{FIRST}",
) -> Answer:
    """Send pieces on a connection of their own; read until the other side ends, or `hold_s`."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    except OSError:
        return Answer(0, "")
    reading = asyncio.create_task(_read(reader))
    try:
        async with asyncio.timeout(PATIENCE_S if hold_s is None else hold_s):
            await _write(writer, pieces, pause_s)
            await asyncio.shield(reading)
    except TimeoutError:
        return _answer(await _given_up(reading), is_late=hold_s is None)
    finally:
        writer.transport.abort()
    return _answer(reading.result())


async def send_all(
    port: int, sent: Sequence[Iterable[bytes]], *, addresses: int = 1, **how: float
) -> list[Answer]:
    """Send each on a connection of its own, all at the same time, from so many addresses."""
    hold_s, pause_s = how.get("hold_s"), how.get("pause_s", 0.0)
    sending = (
        send(
            port, each, hold_s=hold_s, pause_s=pause_s, address=f"127.0.0.{FIRST + at % addresses}"
        )
        for at, each in enumerate(sent)
    )
    return list(await asyncio.gather(*sending))


async def _write(writer: asyncio.StreamWriter, pieces: Iterable[bytes], pause_s: float) -> None:
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)
    except ConnectionError:
        return  # it was refused; why is being read


async def _read(reader: asyncio.StreamReader) -> bytes:
    taken = bytearray()
    try:
        while data := await reader.read(2**16):
            taken += data[: 2**20 - len(taken)]
    except ConnectionError:
        pass
    return bytes(taken)


async def _given_up(reading: "asyncio.Task[bytes]") -> bytes:
    if not reading.done():
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        return b""
    return reading.result()


def _answer(data: bytes, *, is_late: bool = False) -> Answer:
    words = data[:64].split(b" ", 2)
    status = int(words[1]) if words[0] == b"HTTP/1.1" and words[1][:3].isdigit() else 0
    return Answer(status, data.decode(errors="replace"), is_late)
