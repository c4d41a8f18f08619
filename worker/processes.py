"""Where does CPU work go that must not stand between two steps? Into processes that are replaced.

Children import this module and what their work needs, never torch.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import wait
from typing import Any, TypeVar

from core.errors import EngineError
from core.log import get_logger

T = TypeVar("T")
log = get_logger(__name__)

#: A call that has lost its process so often is given up: it may be what kills them.
MAX_TRIES = 3


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """One call on its way through a process."""

    work: Callable[[], Any]  #: picklable
    answer: "Future[Any]" = field(default_factory=Future)
    tries: int = 0  #: processes it was given to


class Processes:
    """A pool of CPU processes; one that dies is replaced and its calls are made again."""

    def __init__(self, count: int, start: Callable[..., None], *args: object) -> None:
        """Prepare `count` processes, each of which calls `start(*args)` first."""
        self._count = count
        self._start = (start, args)
        self._lock = threading.Lock()
        self._executor = self._open()

    def run(self, function: Callable[..., T], *args: object) -> "Future[T]":
        """Call a function in one of the processes.

        Raises: nothing; the future gets what the function raises, or EngineError.
        """
        call = Call(work=partial(function, *args))
        self._send(call)
        return call.answer

    def warm_up(self) -> None:
        """Return once a process is ready to work."""
        self.run(os.getpid).result()

    def close(self) -> None:
        """Let all calls end, then the processes."""
        self._executor.shutdown(wait=True)

    def _open(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._count,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=self._start,
        )

    def _send(self, call: Call) -> None:
        executor = self._executor
        call.tries += 1
        try:
            future = executor.submit(call.work)
        except BrokenProcessPool as error:
            self._send_again(call, executor, error)
        except RuntimeError as error:  # shut down
            call.answer.set_exception(EngineError(str(error)))
        else:
            future.add_done_callback(partial(self._receive, call, executor))

    def _receive(self, call: Call, executor: ProcessPoolExecutor, future: "Future[Any]") -> None:
        if future.cancelled():
            call.answer.set_exception(EngineError("the worker is shutting down"))
            return
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            self._send_again(call, executor, error)
        elif error is not None:
            call.answer.set_exception(error)
        else:
            call.answer.set_result(future.result())

    def _send_again(
        self, call: Call, executor: ProcessPoolExecutor, error: BrokenProcessPool
    ) -> None:
        if call.tries == MAX_TRIES:
            call.answer.set_exception(EngineError(f"its CPU process died: {error}"))
            return
        self._replace(executor)
        self._send(call)

    def _replace(self, broken: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._executor is not broken:  # another call has done it
                return
            log.warning("cpu_process_died")
            self._executor = self._open()
        broken.shutdown(wait=False)


def _begin(start: Callable[..., None], args: tuple[Any, ...]) -> None:
    follow_parent()
    start(*args)


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
