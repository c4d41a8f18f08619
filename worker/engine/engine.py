"""The engine: continuous step-level batching of many jobs, in one thread of its own.

An image depends on its own request alone, never on who shared its batch. Whatever goes wrong with
one request fails that one; what goes wrong with the engine itself resolves every future.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future

from core.errors import EngineError, JobHandedOver, JobStopped
from core.job import Job, Progress
from core.log import get_logger
from core.model import Model
from worker.diffusion.image_state import NO_STATES, ImageState
from worker.diffusion.runner import AnyRunner, JobInputs
from worker.engine.batch import NextBatch
from worker.engine.faults import attempt
from worker.engine.idle_work import IdleWork, Part
from worker.engine.prompts import PromptEncoding
from worker.engine.running_batch import RunningBatch
from worker.engine.slot import JobImages, Slot, Ticket, Tickets
from worker.engine.stats import Activities, Activity, EngineStats
from worker.futures import failed, resolved

__all__ = ["Engine", "JobImages"]

log = get_logger(__name__)

#: Of the thread that steps.
THREAD = "engine"
#: How long an engine sleeps whose images all wait for other processes.
PAUSE_S = 0.002


class Engine:
    """Makes the images of many jobs in one running batch per group of look-alikes.

    `add`, `stop`, `attach`, `detach`, `progress`, `stats`, `start` and `close` may be called from
    any thread; `step` and `run` belong to one.
    """

    def __init__(
        self,
        *,
        max_slots: int,
        max_rows: int,
        slo_s: float,
        clock: Callable[[], float] = time.monotonic,
        on_step: Callable[[Sequence[Slot], float], object] = lambda batch, step_s: None,
        on_done: Callable[[Activity, float], object] = lambda activity, seconds: None,
        stopwatch: Callable[[], float] = time.perf_counter,
        next_batch: Callable[[int], NextBatch] = NextBatch,
        on_hand_over: Callable[[Ticket, Sequence[Slot]], object] = lambda ticket, slots: None,
        on_left: Callable[[Ticket], object] = lambda ticket: None,
    ) -> None:
        """Prepare an engine; `on_step` hears of every step: its batch, and how long it took (s).

        `on_done` hears of every call of a model, and how long it took (s). `stopwatch` times steps
        (s), `next_batch` makes who chooses their batches, given the rows that fit. `on_hand_over`
        sees the images of a job that another worker goes on with, before they leave; `on_left`
        hears of each job that needs no slot any more.
        """
        self.slo_s = slo_s
        self._tickets = Tickets()
        self._prompts = PromptEncoding()
        self._batch = RunningBatch(
            self._tickets,
            prompts=self._prompts,
            next_batch=next_batch(max_rows),
            activities=Activities(on_done),
            max_slots=max_slots,
            clock=clock,
            stopwatch=stopwatch,
            on_step=on_step,
            on_hand_over=on_hand_over,
            on_left=on_left,
        )
        self._idle = IdleWork(self._batch.activities, self._is_wanted)
        self._wake = threading.Condition()
        self._inbox: list[Ticket] = []
        self._models: dict[str, AnyRunner] = {}
        self._leaving: dict[AnyRunner, Future[None]] = {}  #: resolved once they are closed
        self._end: EngineError | JobStopped | None = None  #: why it takes no more jobs
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> Sequence[Slot]:
        """The images that are made now."""
        return self._batch.running

    @property
    def activity(self) -> Activity | None:
        """What its thread is doing with a model; None: nothing, or what takes no time."""
        return self._batch.activities.now

    # from any thread

    def add(
        self,
        job: Job,
        deadline: float | None,
        brought: JobInputs | None = None,
        states: Mapping[int, ImageState] = NO_STATES,
    ) -> "Future[JobImages]":
        """Take a job in; it starts denoising at the next step if a slot is free.

        `states`: where its images stood with another worker, by index.
        Units:  deadline by the engine's clock, monotonic s
        Raises: nothing; the future gets EngineError or JobStopped, JobHandedOver where the model is
                not resident: its plan may have changed while the job was on its way.
        """
        with self._wake:
            runner, end = self._models.get(job.request.model), self._end
            if runner is None or end is not None:
                return failed(end or JobHandedOver(f"model {job.request.model} is not resident"))
            promised_at = job.waits_since + (job.request.slo_s or self.slo_s)
            due_at = promised_at if job.deadline_at is None else job.deadline_at
            ticket = Ticket(
                job=job,
                runner=runner,
                due_at=due_at,
                deadline=deadline,
                brought=brought,
                states=dict(states),
            )
            if not self._tickets.open(ticket):
                return failed(EngineError(f"job {job.id} is in the engine already"))
            if (encode := runner.encoding(job.request)) is not None:
                self._prompts.begin(ticket, encode, self._batch.step_s)
            self._inbox.append(ticket)
            self._wake.notify_all()
        return ticket.future

    def stop(self, job_id: str, reason: JobStopped) -> bool:
        """Make a job leave before its next step; say no if it is not here."""
        is_here = self._tickets.stop(job_id, reason)
        self._notify()
        return is_here

    def attach(self, runner: AnyRunner) -> None:
        """Serve a model from now on."""
        with self._wake:
            self._models[runner.model.name] = runner

    def detach(self, model: str) -> "Future[None]":
        """Refuse new jobs of a model, and close it once the jobs it has are made."""
        with self._wake:
            runner = self._models.pop(model, None) if self._end is None else None
            if runner is None:
                return resolved(None)
            self._leaving[runner] = gone = Future[None]()
            self._wake.notify_all()
        return gone

    def when_idle(self, model: Model, parts: Iterator[Part]) -> "Future[None]":
        """Do this with a model while there are no jobs, a part at a time.

        A part that raises `GivenUp` is done again. Resolved at the end, or when it is dropped.
        """
        with self._wake:
            ended = self._idle.add(model, parts) if self._end is None else resolved(None)
            self._wake.notify_all()
        return ended

    def drop_idle(self, model: str) -> None:
        """Do no more with a model beside its jobs. Returns once nothing is."""
        self._idle.drop(model)

    def give_way(self) -> None:
        """Leave off what is done beside jobs, if one has come. Raises: GivenUp."""
        self._idle.raise_if_wanted()

    def progress(self) -> Mapping[str, Progress]:
        """How far each job has come."""
        return self._tickets.progress()

    def left_s(self) -> Mapping[str, float]:
        """Guess how long the jobs take whose images are all on their way (s)."""
        return self._batch.left_s()

    def stats(self) -> EngineStats:
        """How busy the engine is."""
        batch = self._batch
        waiting = len(batch.waiting) + sum(t.job.request.n for t in tuple(self._inbox))
        return EngineStats(
            running=len(batch.running),
            waiting=waiting,
            step_s=dict(batch.next_batch.step_s),
            step_images=dict(batch.next_batch.step_images),
            most_sharing={
                name: batch.next_batch.most_sharing(name) for name in tuple(batch.next_batch.step_s)
            },
            is_alive=self._end is None,
        )

    def start(self) -> None:
        """Run in a thread of its own until `close`."""
        self._thread = threading.Thread(target=self.run, name=THREAD, daemon=True)
        self._thread.start()

    def close(self, within_s: float | None = None) -> bool:
        """Stop after the current step; what is not made by then gets JobStopped.

        Returns whether it has stopped, which it may not while a call of its device hangs, or an
        IP-Adapter is loaded.
        """
        with self._wake:
            self._end = self._end or JobStopped("the worker is shutting down")
            self._wake.notify_all()
        if self._thread is None:
            self._finish()
        elif self._thread is not threading.current_thread():
            self._thread.join(within_s)
        is_alive = self._thread is not None and self._thread.is_alive()
        return not (is_alive or self._prompts.is_at_load)

    # from the engine's thread

    def run(self) -> None:
        """Step while there is work, sleep while there is none, until `close`."""
        try:
            while self._wait():
                if not self.step() and self._idle.tasks:
                    self._idle.run_part()
        except BaseException as error:  # every job in it hears of it
            log.critical("engine_died", exc_info=True)
            with self._wake:
                self._end = EngineError(f"the engine failed: {type(error).__name__}: {error}")
        self._finish()

    def step(self) -> bool:
        """Advance one batch by one denoising step; return whether there was anything to do."""
        batch = self._batch
        batch.receive(self._arrived())
        batch.drop()
        has_work = batch.has_work
        batch.admit()
        batch.work_aside()
        batch.retire()  # an image may come without a step to take
        if ready := batch.ready():
            batch.advance(ready)
            batch.drop()
            batch.retire()
        elif batch.running or batch.waiting:
            self._pause()
        if not batch.running:  # nobody's step waits for it
            batch.work_aside()
        self._let_go()
        return has_work

    def _wait(self) -> bool:
        with self._wake:
            self._wake.wait_for(lambda: self._has_work() or bool(self._idle.tasks))
            return self._end is None

    def _has_work(self) -> bool:
        return bool(self._end or self._inbox or self._batch.held or self._leaving)

    def _is_wanted(self) -> bool:
        return bool(self._end or self._inbox or self._leaving)

    def _notify(self) -> None:
        with self._wake:
            self._wake.notify_all()

    def _arrived(self) -> Sequence[Ticket]:
        with self._wake:
            arrived, self._inbox = self._inbox, []
        return arrived

    def _pause(self) -> None:
        with self._wake:
            if not self._inbox and self._end is None:
                self._wake.wait(PAUSE_S)

    def _let_go(self) -> None:
        """Close the models that nobody uses any more."""
        if not self._leaving:
            return
        with self._wake:
            used = {ticket.runner for ticket in (*self._inbox, *self._batch.held)}
            idle = {runner: self._leaving.pop(runner) for runner in {*self._leaving} - used}
        for runner, gone in idle.items():
            self._idle.drop(runner.model.name)
            attempt(runner.close, "closing a model")
            self._batch.next_batch.forget(runner.model.name)
            gone.set_result(None)

    def _finish(self) -> None:
        """Resolve every future: nobody shall wait for an engine that does not run."""
        self._tickets.fail_all(self._end or JobStopped("the worker is shutting down"))
        with self._wake:
            leaving, self._leaving, self._inbox = self._leaving, {}, []
        self._prompts.close()
        if self._idle.tasks:
            self._idle.clear()
        self._batch.clear()
        for gone in leaving.values():
            gone.set_result(None)
