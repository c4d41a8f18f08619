"""Run CPU work in processes that are replaced when they die or hang.

Each has one pipe and shares no semaphore with its parent: nothing stays behind of processes that
are killed.
"""

import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

from core.errors import EngineError, ProcessLost
from core.log import get_logger
from worker.awake_clock import AwakeClock
from worker.cpu import cpu_process
from worker.futures import resolve, tried

T = TypeVar("T")
log = get_logger(__name__)

#: A call that has lost its process so often is given up: it may be what kills them.
MAX_TRIES = 3
#: A process that has said nothing for so long is stopped, or worse; it may take longer to start.
SILENT_S, START_S = 15.0, 30.0
#: A call that takes longer hangs: a store that does not answer is given up before.
CALL_S = 180.0
#: How often processes are looked at.
LOOK_S = 0.5

_spawn = multiprocessing.get_context("spawn")
_starting = threading.Lock()  #: multiprocessing counts its children without one


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """One call on its way through a process."""

    work: Callable[[], Any]  #: picklable
    answer: "Future[Any]" = field(default_factory=Future)
    tries: int = 0  #: processes it was given to


class Processes:
    """A pool of CPU processes; one that dies or hangs is replaced and its call is made again."""

    def __init__(
        self, count: int, start: Callable[..., None], *args: object, silent_s: float = SILENT_S
    ) -> None:
        """Prepare `count` processes, each of which calls `start(*args)` first."""
        self._count = count
        self._start = (start, args)
        self._silent_s = silent_s
        self._calls: deque[Call] = deque()
        self._wake = threading.Condition()
        self._idle = 0  #: threads that wait for a call
        self._children: list[ProcessSlot] = []
        self._threads: list[threading.Thread] = []
        self._is_closed = threading.Event()
        self._watch = threading.Thread(target=self._look, name="cpu-watch", daemon=True)

    def run(self, function: Callable[..., T], *args: object) -> "Future[T]":
        """Call a function in one of the processes.

        Raises: nothing; the future gets what the function raises, or EngineError.
        """
        call = Call(work=partial(function, *args))
        with self._wake:
            if self._is_closed.is_set():
                call.answer.set_exception(EngineError("the worker is shutting down"))
                return call.answer
            self._calls.append(call)
            if self._idle < len(self._calls) and len(self._threads) < self._count:
                self._add()
            self._wake.notify()
        return call.answer

    def warm_up(self) -> None:
        """Return once a process is ready to work."""
        self.run(os.getpid).result()

    def close(self) -> None:
        """Let all calls end, then the processes."""
        with self._wake:
            self._is_closed.set()
            self._wake.notify_all()
        for thread in self._threads:
            thread.join()

    def _add(self) -> None:
        if not self._threads:
            self._watch.start()
        child = ProcessSlot(self._start)
        self._children.append(child)
        thread = threading.Thread(target=self._serve, args=(child,), name="cpu", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self, child: "ProcessSlot") -> None:
        """Give calls to one process after another, in a thread of their own."""
        while (call := self._next()) is not None:
            _make(call, child)
        child.end()

    def _next(self) -> Call | None:
        with self._wake:
            self._idle += 1
            self._wake.wait_for(lambda: self._calls or self._is_closed.is_set())
            self._idle -= 1
            return self._calls.popleft() if self._calls else None

    def _look(self) -> None:
        """Kill what has been silent for too long; its thread makes the call again."""
        clock = AwakeClock(2 * LOOK_S)
        while any(thread.is_alive() for thread in self._threads) or not self._is_closed.is_set():
            time.sleep(LOOK_S)
            now = clock.look(time.monotonic())
            for child in tuple(self._children):
                child.check(now, self._silent_s)


class ProcessSlot:
    """One process after another, as the thread sees them that gives them calls."""

    def __init__(self, start: tuple[Callable[..., None], tuple[object, ...]]) -> None:
        self._start = start
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._has_begun = False  #: it has said something
        self._began: int = 0  #: number of the call at hand; 0: none
        self._calls = 0
        self._beats = 0  #: what it has said in all
        self._seen = (0, 0)  #: call and beats at the last look
        self._called_at = self._heard_at = 0.0  #: when each of them was new

    def ask(self, data: bytes) -> bytes:
        """Have one call made. Raises: EOFError, OSError: the process was lost meanwhile."""
        pipe = self._pipe if self._pipe is not None else self._open()
        self._calls += 1
        self._began = self._calls
        try:
            pipe.send_bytes(data)
            while not (answer := pipe.recv_bytes()):
                self._beats += 1
                self._has_begun = True
            return answer
        finally:
            self._began = 0

    def check(self, now: float, silent_s: float) -> None:
        """Kill the process if it hangs in a call. `now`: s, of a clock that only the caller has."""
        called, beats = self._seen
        self._seen = (self._began, self._beats)
        if called != self._began:
            self._called_at = self._heard_at = now
        if beats != self._beats:
            self._heard_at = now
        allowed_s = silent_s if self._has_begun else START_S
        is_stuck = now - self._heard_at > allowed_s or now - self._called_at > CALL_S
        if self._began and is_stuck:
            log.warning("cpu_process_hung", seconds=round(now - self._called_at, 1))
            self.kill()

    def kill(self) -> None:
        """End the process, also one that is stopped."""
        process = self._process
        if process is not None:
            process.kill()

    def lose(self) -> None:
        """Let go of a process that has died."""
        self.kill()
        self.end()

    def end(self) -> None:
        """Let the process end, once it has done what it does."""
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.join()
        self._pipe = self._process = None

    def _open(self) -> Connection:
        ours, theirs = _spawn.Pipe()
        process = _spawn.Process(target=cpu_process.serve, args=(theirs, *self._start), daemon=True)
        with _starting:
            process.start()
        theirs.close()
        self._pipe, self._process, self._has_begun = ours, process, False
        return ours


def _make(call: Call, child: ProcessSlot) -> None:
    """Have a call made, by another process if one is lost over it."""
    data = tried(lambda: bytes(ForkingPickler.dumps(call.work)))  # pickling runs any code
    if isinstance(data, Exception):
        call.answer.set_exception(data)
        return
    while call.tries < MAX_TRIES:
        call.tries += 1
        try:
            answer = child.ask(data)
        except (EOFError, OSError) as error:
            log.warning("cpu_process_died", reason=repr(error))
            child.lose()
        else:
            resolve(call.answer, partial(_read, answer))
            return
    call.answer.set_exception(ProcessLost("its CPU process died or hung, again and again"))


def _read(answer: bytes) -> object:
    """Give what a call has returned. Raises: what it has raised, or what reading that does."""
    value, error = ForkingPickler.loads(answer)
    if error is not None:
        raise error
    return value
