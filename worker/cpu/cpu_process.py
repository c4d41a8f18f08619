"""Make the calls of the parent in a CPU process, and say meanwhile that it runs.

It does not outlive its parent, and imports what its calls need, never torch.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from pickle import PicklingError
from typing import Any

from core.errors import EngineError
from worker.futures import tried

#: A process with a call says so often that it lives.
BEAT_S = 1.0

PR_SET_PDEATHSIG = 1


def serve(pipe: Connection, start: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Make calls until the parent closes the pipe."""
    beat = _Beat(pipe)
    _die_with_parent()
    follow_parent()
    beat.start()
    start(*args)
    while True:
        try:
            data = pipe.recv_bytes()
        except EOFError:
            return
        beat.is_wanted.set()
        answer = _answer(data)
        beat.is_wanted.clear()
        beat.send(answer)


def _answer(data: bytes) -> bytes:
    answer = tried(lambda: bytes(ForkingPickler.dumps((ForkingPickler.loads(data)(), None))))
    if not isinstance(answer, Exception):
        return answer
    frames = "".join(traceback.format_exception(answer))  # they do not travel by themselves
    return _written(answer, frames)


def _written(error: Exception, frames: str) -> bytes:
    error.add_note(frames)
    try:
        return bytes(ForkingPickler.dumps((None, error)))
    except (PicklingError, TypeError, AttributeError):
        return bytes(ForkingPickler.dumps((None, EngineError(repr(error)))))


class _Beat:
    """Says in empty messages that this process runs, while somebody waits for an answer."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.is_wanted = threading.Event()
        self.is_wanted.set()  # it is started for a call
        self._sending = threading.Lock()

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def send(self, message: bytes) -> None:
        with self._sending:
            self._pipe.send_bytes(message)

    def _run(self) -> None:
        while self.is_wanted.wait():
            self.send(b"")
            time.sleep(BEAT_S)


def _die_with_parent() -> None:
    """Ask Linux to kill this process with its parent, also while it is stopped."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def follow_parent() -> None:
    """Leave signals to the parent of this process, but do not outlive it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
