"""The engine: admit, choose, forward, advance, retire. One call of `step` is one denoising step.

An image depends on its own request alone, never on who shared its batch. Whatever goes wrong with
one request fails that one; what goes wrong with the engine itself resolves every future.
"""

import threading
import time
from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from core.errors import AtelierError, EngineError, JobExpired, JobStopped
from core.job import Job, Progress
from core.log import get_logger
from worker.attached import Attached
from worker.batch import RowCaps, choose_batch, earliest
from worker.forward import Fault, attempt, forward
from worker.runner import AnyRunner, Brought, Sample
from worker.slot import Made, Pending, Slot, Ticket
from worker.tickets import Tickets

__all__ = ["Engine", "EngineStats", "Made"]

log = get_logger(__name__)

#: How long an engine sleeps whose images all wait for other processes.
PAUSE_S = 0.002
#: Weight of the newest step in the smoothed step time.
_SMOOTHING = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """What the engine is doing now."""

    running: int  #: images in the running batch
    waiting: int  #: images that wait for a slot
    step_s: Mapping[str, float]  #: seconds of a denoising step by model, smoothed
    step_images: Mapping[str, float]  #: images that shared it, smoothed alike
    is_alive: bool  #: it takes jobs


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
        clock: Callable[[], float] = time.time,
        on_step: Callable[[Sequence[Slot], float], object] = lambda batch, step_s: None,
    ) -> None:
        """Prepare an engine; `on_step` hears of every step: its batch, and how long it took (s)."""
        self.max_slots = max_slots
        self.slo_s = slo_s
        self.running: list[Slot] = []
        self.waiting: list[Pending] = []
        self.caps = RowCaps(max_rows)
        self._clock = clock
        self._on_step = on_step
        self._tickets = Tickets()
        self._wake = threading.Condition()
        self._inbox: list[Ticket] = []
        self._models = Attached()
        self._step_s: dict[str, float] = {}
        self._step_images: dict[str, float] = {}
        self._end: EngineError | JobStopped | None = None  #: why it takes no more jobs
        self._thread: threading.Thread | None = None

    # from any thread

    def add(
        self, job: Job, deadline: float | None, brought: Brought | None = None
    ) -> "Future[Made]":
        """Take a job in; it starts denoising at the next step if a slot is free.

        Units:  deadline epoch s
        Raises: nothing; the future gets EngineError or JobStopped.
        """
        with self._wake:
            runner, end = self._models.get(job.request.model), self._end
            if runner is None or end is not None:
                return _refused(end or EngineError(f"model {job.request.model} is not resident"))
            promised_at = job.created_at + (job.request.slo_s or self.slo_s)
            due_at = promised_at if deadline is None else deadline
            ticket = Ticket(
                job=job, runner=runner, due_at=due_at, deadline=deadline, brought=brought
            )
            if not self._tickets.open(ticket):
                return _refused(EngineError(f"job {job.id} is in the engine already"))
            self._inbox.append(ticket)
            self._wake.notify_all()
        return ticket.future

    def stop(self, job_id: str, reason: JobStopped) -> None:
        """Make a job leave before its next step. Unknown ids are ignored."""
        self._tickets.stop(job_id, reason)
        self._notify()

    def attach(self, runner: AnyRunner) -> None:
        """Serve a model from now on."""
        with self._wake:
            self._models.add(runner)

    def detach(self, model: str) -> "Future[None]":
        """Refuse new jobs of a model, and close it once the jobs it has are made."""
        with self._wake:
            leaving = self._models.remove(model) if self._end is None else None
            self._wake.notify_all()
        return leaving.gone if leaving is not None else _gone()

    def progress(self) -> Mapping[str, Progress]:
        """How far each job has come."""
        return self._tickets.progress()

    def stats(self) -> EngineStats:
        """How busy the engine is."""
        waiting = len(self.waiting) + sum(t.job.request.n for t in tuple(self._inbox))
        return EngineStats(
            running=len(self.running),
            waiting=waiting,
            step_s=dict(self._step_s),
            step_images=dict(self._step_images),
            is_alive=self._end is None,
        )

    def start(self) -> None:
        """Run in a thread of its own until `close`."""
        self._thread = threading.Thread(target=self.run, name="engine", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop after the current step; what is not made by then gets JobStopped."""
        with self._wake:
            self._end = self._end or JobStopped("the worker is shutting down")
            self._wake.notify_all()
        if self._thread is None:
            self._finish()
        elif self._thread is not threading.current_thread():
            self._thread.join()

    # from the engine's thread

    def run(self) -> None:
        """Step while there is work, sleep while there is none, until `close`."""
        try:
            while self._wait():
                self.step()
        except BaseException as error:
            log.critical("engine_died", exc_info=True)
            with self._wake:
                self._end = EngineError(f"the engine failed: {type(error).__name__}: {error}")
        self._finish()

    def step(self) -> bool:
        """Advance one batch by one denoising step; return whether there was anything to do."""
        self._receive()
        self._drop()
        self._admit()
        has_work = bool(self.running)
        if ready := self._ready():
            self._advance(ready)
            self._drop()
            self._retire()
        elif has_work:
            self._pause()
        self._let_go()
        return has_work

    def _wait(self) -> bool:
        with self._wake:
            self._wake.wait_for(self._has_work)
            return self._end is None

    def _has_work(self) -> bool:
        return bool(
            self._end or self._inbox or self.running or self.waiting or self._models.has_leaving
        )

    def _notify(self) -> None:
        with self._wake:
            self._wake.notify_all()

    def _receive(self) -> None:
        with self._wake:
            arrived, self._inbox = self._inbox, []
        for ticket in (ticket for ticket in arrived if not ticket.is_closed):
            for index in range(ticket.job.request.n):
                insort(self.waiting, Pending(ticket=ticket, index=index), key=lambda p: p.order)

    def _drop(self) -> None:
        """Let the stopped and the late leave."""
        for ticket in self._tickets.take_stopped():
            self._fail(ticket, ticket.stopped or JobStopped("stopped"))
        now = self._clock()
        for ticket in self._held():
            if ticket.deadline is not None and ticket.deadline < now:
                self._fail(ticket, self._why_late(ticket))

    def _why_late(self, ticket: Ticket) -> AtelierError:
        """Tell a job that came too late from one that another process has let down."""
        for slot in self.running:
            if slot.ticket is ticket:
                waits = attempt(slot.sample.waits_for, "denoising")
                if isinstance(waits, Fault):
                    return waits.engine_error("denoising")
                if waits is not None:
                    return slot.sample.let_down(f"its deadline passed while it waited for {waits}")
        return JobExpired("its deadline passed before it was made")

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.max_slots:
            pending = self.waiting.pop(0)
            ticket = pending.ticket
            seed = ticket.seed(pending.index)
            call = partial(ticket.runner.open, ticket.job.request, seed, ticket.brought)
            opened = attempt(call, "preparing")
            if not isinstance(opened, Fault):
                self._join(pending, opened)
            elif opened.is_memory and self.running:
                ticket.runner.trim()
                self.waiting.insert(0, pending)
                return
            else:
                self._fail(ticket, opened.engine_error("preparing"))

    def _join(self, pending: Pending, sample: Sample) -> None:
        ticket = pending.ticket
        ticket.admitted_at = ticket.admitted_at or self._clock()
        slot = Slot(ticket=ticket, index=pending.index, sample=sample)
        slot.note_begin()
        self.running.append(slot)

    def _ready(self) -> list[Slot]:
        """Choose the slots that wait for no other process; those without hope leave."""
        ready = []
        for slot in tuple(self.running):
            waits = attempt(slot.sample.waits_for, "denoising")
            if isinstance(waits, Fault):
                self._fail(slot.ticket, waits.engine_error("denoising"))
            elif waits is None:
                ready.append(slot)
        return [slot for slot in ready if not slot.ticket.is_closed]

    def _pause(self) -> None:
        with self._wake:
            if not self._inbox and self._end is None:
                self._wake.wait(PAUSE_S)

    def _advance(self, ready: Sequence[Slot]) -> None:
        started = time.perf_counter()
        batch = choose_batch(ready, self.caps.rows(earliest(ready).group))
        done = forward(batch, self.caps)
        faults = list(done.faults)
        for slot, prediction in done.predictions:
            call = partial(slot.ticket.runner.advance, slot.sample, prediction)
            result = attempt(call, "denoising")
            if isinstance(result, Fault):
                faults.append((slot, result))
            else:
                slot.note_step()
        for slot, fault in faults:
            self._fail(slot.ticket, fault.engine_error("denoising"))
        self._note_step(batch, time.perf_counter() - started)

    def _note_step(self, batch: Sequence[Slot], step_s: float) -> None:
        model, images = batch[0].ticket.runner.model.name, float(len(batch))
        for known, seen in ((self._step_s, step_s), (self._step_images, images)):
            smoothed = known.get(model, seen)
            known[model] = smoothed + _SMOOTHING * (seen - smoothed)
        self._on_step(batch, step_s)

    def _retire(self) -> None:
        finished = [slot for slot in self.running if slot.is_finished]
        for slot in finished:
            slot.ticket.denoised_at = self._clock()
        for slot in finished:
            if not slot.ticket.is_closed:
                self.running.remove(slot)
                slot.sample.close()
                self._decode(slot)

    def _decode(self, slot: Slot) -> None:
        ticket = slot.ticket
        call = partial(ticket.runner.decode, slot.sample)
        pixels = attempt(call, "decoding")
        if isinstance(pixels, Fault) and pixels.is_memory:
            ticket.runner.trim()
            pixels = attempt(call, "decoding")
        if isinstance(pixels, Fault):
            self._fail(ticket, pixels.engine_error("decoding"))
            return
        slot.hand_over(pixels)
        if len(ticket.images) == ticket.job.request.n:
            self._tickets.succeed(ticket, ticket.made())

    def _fail(self, ticket: Ticket, error: AtelierError) -> None:
        """Free the slots of a job, then say why it is not made."""
        for slot in self.running:
            if slot.ticket is ticket:
                slot.sample.close()
        self.running = [slot for slot in self.running if slot.ticket is not ticket]
        self.waiting = [pending for pending in self.waiting if pending.ticket is not ticket]
        self._tickets.fail(ticket, error)

    def _let_go(self) -> None:
        """Close the models that nobody uses any more."""
        with self._wake:
            users = [t.runner for t in self._inbox]
            users += [ticket.runner for ticket in self._held()]
            idle = self._models.take_idle(users)
        for leaving in idle:
            attempt(leaving.runner.close, "closing a model")
            for known in (self._step_s, self._step_images):
                known.pop(leaving.runner.model.name, None)
            leaving.gone.set_result(None)

    def _held(self) -> set[Ticket]:
        return {s.ticket for s in self.running} | {p.ticket for p in self.waiting}

    def _finish(self) -> None:
        """Resolve every future: nobody shall wait for an engine that does not run."""
        self._tickets.fail_all(self._end or JobStopped("the worker is shutting down"))
        with self._wake:
            leaving, self._inbox = self._models.take_idle(()), []
        for slot in self.running:
            slot.sample.close()
        self.running, self.waiting = [], []
        for each in leaving:
            each.gone.set_result(None)


def _gone() -> "Future[None]":
    future: Future[None] = Future()
    future.set_result(None)
    return future


def _refused(error: AtelierError) -> "Future[Made]":
    future: Future[Made] = Future()
    future.set_exception(error)
    return future
