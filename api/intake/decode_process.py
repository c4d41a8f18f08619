"""Decode pictures for the api, one after another, with little memory: a process of its own.

Reads calls from standard input and writes answers to standard output, each behind its length. Ends
with its input. What is decoded may be made to harm: nothing else happens in this process.
"""

import os
import pickle
import resource
import signal
import sys
import time
import warnings
from math import ceil
from typing import BinaryIO, Final

import msgspec

from api.intake.decode_images import Picture, Read
from core.errors import ImageRefused

#: Bytes of the length before a call and before an answer.
LENGTH_BYTES: Final = 8
#: Memory for one picture: enough for 16 million pixels in colour with transparency, on white.
MAX_MEMORY_BYTES: Final = 352 * 2**20
#: Seconds of CPU time for one picture, whoever else is busy here; 16 million pixels take three.
MAX_CPU_S: Final = 10
#: Behind the api itself, which shares the cores.
NICE: Final = 10

#: What is said of a picture that takes more.
TOO_MUCH: Final = (
    f"cannot be read with {MAX_MEMORY_BYTES // 2**20} MiB of memory in {MAX_CPU_S} s: "
    "make it smaller, or save it anew"
)


class DecodeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a call."""

    picture: Picture | None = None
    refused: str = ""  #: why there is none


#: Made here: threads that make one of the same type at once end the process (`core/codec`).
_decoder = msgspec.msgpack.Decoder(DecodeAnswer)


def write_call(how: Read, data: bytes, max_pixels: int) -> bytes:
    """Write a call as a decoder reads it."""
    return _framed(pickle.dumps((how, data, max_pixels)))


def read_answer(data: bytes) -> DecodeAnswer:
    """Read an answer; what a decoder says is not believed to be more than data."""
    return _decoder.decode(data)


def main() -> None:
    """Answer calls until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(NICE)
    warnings.simplefilter("ignore")  # one file can cause thousands, in the log of the api
    calls, answers = sys.stdin.buffer, sys.stdout.buffer
    while call := _next(calls):
        _allow_time()
        answers.write(_framed(msgspec.msgpack.encode(_answer(call))))
        answers.flush()


def _next(calls: BinaryIO) -> bytes:
    return calls.read(int.from_bytes(calls.read(LENGTH_BYTES), "little"))


def _answer(call: bytes) -> DecodeAnswer:
    how, data, max_pixels = pickle.loads(call)
    try:
        return DecodeAnswer(picture=how(data, max_pixels))
    except ImageRefused as error:
        is_of_memory = isinstance(error.__cause__, MemoryError)
        return DecodeAnswer(refused=TOO_MUCH if is_of_memory else str(error))
    except MemoryError:
        return DecodeAnswer(refused=TOO_MUCH)


def _allow_time() -> None:
    """Let the system end this process if the next picture takes more than its time."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (ceil(time.process_time()) + MAX_CPU_S, hard))


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(LENGTH_BYTES, "little") + data


if __name__ == "__main__":
    main()
