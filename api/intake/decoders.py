"""Keep processes that decode pictures (`decode_process`), and end one that takes too long."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Final

from api.intake.decode_images import Picture, Read
from api.intake.decode_process import LENGTH_BYTES, TOO_MUCH, read_answer, write_call
from core.errors import ImageRefused
from core.log import get_logger

#: Decoded at a time, each in a process of its own.
MAX_DECODING: Final = 2
#: Seconds for one picture on the wall: for what takes no CPU time, which a decoder limits itself.
DECODE_S: Final = 60.0

COMMAND: Final = (sys.executable, "-m", "api.intake.decode_process")

log = get_logger(__name__)


class Decoders:
    """Reads pictures in processes of their own; the first picture starts the first."""

    def __init__(
        self,
        *,
        max_pixels: int,
        command: Sequence[str] = COMMAND,
        limit_s: float = DECODE_S,
    ) -> None:
        self._max_pixels = max_pixels
        self._command = command
        self._limit_s = limit_s
        self._free = asyncio.Semaphore(MAX_DECODING)
        self._idle: list[Process] = []

    async def read(self, how: Read, data: bytes) -> Picture:
        """Check a picture.

        Raises:
            ImageRefused: it is none that we take, or takes too long; the message says why.
        """
        call = write_call(how, data, self._max_pixels)
        async with self._free:
            try:
                async with asyncio.timeout(self._limit_s):
                    answer = read_answer(await self._ask(call))
            except TimeoutError as error:
                limit = f"takes longer than {self._limit_s:g} s to read"
                raise ImageRefused(f"{limit}: save it anew, or smaller") from error
            except (EOFError, OSError) as error:
                raise ImageRefused(TOO_MUCH) from error
        if answer.picture is None:
            raise ImageRefused(answer.refused)
        return answer.picture

    async def close(self) -> None:
        """End the processes."""
        while self._idle:
            await _end(self._idle.pop())

    async def _ask(self, call: bytes) -> bytes:
        """Have a process answer; it is kept for the next call only if it does."""
        process = self._idle.pop() if self._idle else await self._start()
        async with AsyncExitStack() as undo:
            undo.push_async_callback(_end, process)
            answer = await _ask(process, call)
            undo.pop_all()
        self._idle.append(process)
        return answer

    async def _start(self) -> Process:
        return await asyncio.create_subprocess_exec(*self._command, stdin=PIPE, stdout=PIPE)


async def _ask(process: Process, call: bytes) -> bytes:
    """Send a call and read its answer. Raises: EOFError or OSError if the process ends."""
    calls, answers = process.stdin, process.stdout
    assert calls is not None and answers is not None
    calls.write(call)
    await calls.drain()
    length = int.from_bytes(await answers.readexactly(LENGTH_BYTES), "little")
    return await answers.readexactly(length)


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    log.info("decoder_ended", status=await process.wait())
