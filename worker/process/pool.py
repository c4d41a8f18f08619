"""Celery task pool over the job executor; no thread or process per task.

`on_apply` claims the job and hands it to the engine; when it has ended, Celery's own tracer runs
on the hub's thread, so events, revoke, time limits and Flower are right. Nothing here may raise
into the hub: an exception there ends the worker.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from billiard.einfo import ExceptionInfo
from billiard.exceptions import Terminated
from celery.concurrency.base import BasePool
from celery.worker import state

from core.errors import JobCanceled, JobStopped, LeaseLost
from core.log import get_logger, log_errors
from worker.jobs.claimed import JobEnding, leave

log = get_logger(__name__)

#: How long a shutdown waits for the store to take the jobs back; else their leases run out.
RELEASE_S = 5.0


class TimeLimit(JobStopped):
    """A Celery time limit has run out."""


class GivesBack(Protocol):
    """What a pool needs at a shutdown."""

    def let_go(self) -> int:
        """Give every job back to its queue; count them."""

    def let_go_late(self, within_s: float) -> set[str]:
        """Give back what takes longer than this; name those jobs."""


class TakesJobs(Protocol):
    """What a pool needs of the executor."""

    @property
    def hand_over(self) -> GivesBack:
        """Who gives back what is held."""

    def take(
        self,
        job_id: str,
        on_end: Callable[[JobEnding], None],
        rung: str = "",
        on_left: Callable[[], None] = lambda: None,
    ) -> str | None:
        """Claim the job whose turn it is and start making it; None: nothing is to be made here."""

    def refuse(self, job_id: str) -> None:
        """Cancel a job that nobody has claimed."""

    def stop(self, job_id: str, reason: JobStopped) -> None:
        """Stop a job for this reason."""

    def num_finishing(self) -> int:
        """Count jobs that need no slot any more and are not ended yet."""


@dataclass(slots=True, kw_only=True, eq=False, weakref_slot=True)
class Handle:
    """One task in the hands of the pool."""

    pid: int  #: stands in for a process id: Celery names tasks to terminate by it
    task_id: str  #: the job's id
    trace: Callable[..., Any]  #: Celery's tracer, which runs the task's body
    args: Sequence[Any]  #: its arguments
    callback: Callable[..., Any]  #: takes the tracer's result
    error_callback: Callable[..., Any]  #: takes what the tracer did not see
    timeout_callback: Callable[..., Any]
    pool: "TaskPool"
    job_id: str | None = None  #: what is made: the job that the message names, or one before it
    began: float = field(default_factory=time.monotonic)
    timers: list[Any] = field(default_factory=list)
    is_over: bool = False  #: Celery has been told how it ended

    def terminate(self, signal: object = None) -> None:
        """Have the pool stop this job."""
        self.pool.terminate_job(self.pid, signal)


class TaskPool(BasePool):  # type: ignore[misc]
    """Celery's side of the worker. Subclasses set `executor` and `grace_s`; see `pool_of`."""

    signal_safe = False
    body_can_be_buffer = True
    task_join_will_block = False

    executor: TakesJobs
    grace_s: float  #: how long a shutdown waits for what runs
    stand_for_queues: bool = False  #: messages, which name their job where they do not

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self._handles: dict[int, Handle] = {}
        self._pids = count(1)
        self._ended: deque[tuple[Handle, JobEnding]] = deque()
        self._has_ended = threading.Event()
        self._hub: Any = None

    def register_with_event_loop(self, loop: object) -> None:
        """Keep Celery's hub, on whose thread tasks are completed."""
        self._hub = loop

    @property
    def num_processes(self) -> int:
        """How many tasks Celery may hand over: a job that is decoded or stored takes no slot."""
        limit: int = self.limit
        return limit + min(self.executor.num_finishing(), limit)

    def on_apply(
        self,
        target: Callable[..., Any],
        args: Sequence[Any],
        kwargs: object = None,
        *,
        callback: Callable[..., Any],
        error_callback: Callable[..., Any],
        accept_callback: Callable[..., Any],
        timeout_callback: Callable[..., Any],
        soft_timeout: float | None = None,
        timeout: float | None = None,
        **_: object,
    ) -> Handle:
        """Claim a job and start making it; return at once."""
        handle = Handle(
            pid=next(self._pids),
            task_id=args[1],
            trace=target,
            args=args,
            callback=callback,
            error_callback=error_callback,
            timeout_callback=timeout_callback,
            pool=self,
        )
        if self.stand_for_queues and _is_stopping():
            return handle  # its bell is given back with the connection, and rings elsewhere
        self._handles[handle.pid] = handle
        with log_errors(log, "claim_failed", job=handle.task_id):  # upkeep rings again
            handle.job_id = self.executor.take(
                handle.task_id,
                lambda ending: self._note(handle, ending),
                self._rung(args),
                self._ask_again,
            )
        if handle.job_id is not None:
            self._limit_time(handle, soft_timeout, timeout)
            accept_callback(handle.pid, handle.began)
        else:
            self._complete(handle, JobEnding(error=LeaseLost("nothing to make here")))
        return handle

    def _rung(self, args: Sequence[Any]) -> str:
        """Name the queue that a message stands for; empty: it stands for its job."""
        return str(args[2]["delivery_info"]["routing_key"]) if self.stand_for_queues else ""

    def terminate_job(self, pid: int, signal: object = None) -> None:
        """Make a task leave the engine before its next step; Celery announces it revoked.

        A task under whose message another job is made has not begun: it alone is canceled.
        """
        handle = self._handles.get(pid)
        if handle is None or handle.is_over:
            return
        if handle.job_id != handle.task_id:
            self.executor.refuse(handle.task_id)
            return
        handle.is_over = True
        self.executor.stop(handle.task_id, JobCanceled("revoked by an operator"))

    def let_go(self) -> None:
        """Give all jobs back at once. Called from a signal handler, so locks may be taken."""
        for handle in list(self._handles.values()):
            handle.is_over = True
        _in_time(self.executor.hand_over.let_go)
        self._handles.clear()

    def on_stop(self) -> None:
        """Give back what takes longer than a shutdown may, wait for the rest, give back that too.

        The hub does not turn any more, so jobs are completed here.
        """
        until = time.monotonic() + self.grace_s
        _in_time(self._let_go_late)
        while self._handles and (left_s := until - time.monotonic()) > 0:
            self._has_ended.wait(min(left_s, 1.0))
            self._complete_ended()
        if self._handles:
            self.let_go()

    def _let_go_late(self) -> None:
        late = self.executor.hand_over.let_go_late(self.grace_s)
        for pid, handle in list(self._handles.items()):
            if handle.job_id in late:
                handle.is_over = True
                del self._handles[pid]

    def on_terminate(self) -> None:
        """Give every job back: Celery waits no longer."""
        self.let_go()

    def grow(self, n: int = 1) -> None:
        """Slots are the engine's to give."""

    def shrink(self, n: int = 1) -> None:
        """Slots are the engine's to give."""

    def _get_info(self) -> dict[str, Any]:
        return {**super()._get_info(), "in-flight": len(self._handles)}

    def _note(self, handle: Handle, ending: JobEnding) -> None:
        """Pass an ending to the hub's thread, the only one that may touch Celery's state."""
        self._ended.append((handle, ending))
        self._has_ended.set()
        if self._hub is not None:
            self._hub.call_soon(self._complete_ended)

    def _ask_again(self) -> None:
        """Turn the hub, which looks anew how many tasks it may take."""
        if self._hub is not None:
            self._hub.call_soon(lambda: None)

    def _complete_ended(self) -> None:
        self._has_ended.clear()
        while self._ended:
            self._complete(*self._ended.popleft())

    def _complete(self, handle: Handle, ending: JobEnding) -> None:
        for timer in handle.timers:
            timer.cancel()
        self._handles.pop(handle.pid, None)
        if handle.is_over:
            return
        handle.is_over = True
        with log_errors(log, "callback_failed", task=handle.task_id):
            self._tell_celery(handle, ending)

    def _tell_celery(self, handle: Handle, ending: JobEnding) -> None:
        error = ending.error
        if isinstance(error, JobStopped | LeaseLost) and not isinstance(error, TimeLimit):
            handle.error_callback(_as_terminated(error))
            return
        leave(handle.task_id, ending)
        failed, value, _ = handle.trace(*handle.args)
        handle.callback((failed, value, time.monotonic() - handle.began))

    def _limit_time(self, handle: Handle, soft: float | None, hard: float | None) -> None:
        if self._hub is None:
            return
        if soft:
            handle.timers.append(self._hub.call_later(soft, self._on_soft, handle, soft))
        if hard:
            handle.timers.append(self._hub.call_later(hard, self._on_hard, handle, hard))

    def _on_soft(self, handle: Handle, limit_s: float) -> None:
        handle.timeout_callback(True, limit_s)
        self.executor.stop(handle.job_id or "", TimeLimit(f"soft time limit of {limit_s} s"))

    def _on_hard(self, handle: Handle, limit_s: float) -> None:
        handle.is_over = True
        handle.timeout_callback(False, limit_s)
        self.executor.stop(handle.job_id or "", TimeLimit(f"time limit of {limit_s} s"))


def pool_of(
    executor: TakesJobs, grace_s: float, *, stand_for_queues: bool = False
) -> type[TaskPool]:
    """Make the pool class of one worker: Celery creates the pool itself and passes no more."""
    own = {"executor": executor, "grace_s": grace_s, "stand_for_queues": stand_for_queues}
    return type("EnginePool", (TaskPool,), own)


def _is_stopping() -> bool:
    return state.should_stop is not None or state.should_terminate is not None


def _in_time(give_back: Callable[[], object]) -> None:
    """Ask the store to take jobs back, and wait for it as long as a shutdown can."""
    thread = threading.Thread(target=give_back, name="release", daemon=True)
    thread.start()
    thread.join(RELEASE_S)


def _as_terminated(error: Exception) -> ExceptionInfo:
    try:
        raise Terminated(str(error)) from error
    except Terminated:
        return ExceptionInfo()
