"""The running batch: admit images, step them together, hand over finished ones.

All of it belongs to one thread, the engine's.
"""

import time
from bisect import insort
from collections.abc import Callable, Sequence
from functools import partial

from core.errors import AtelierError, JobExpired, JobHandedOver, JobStopped
from core.log import get_logger
from worker.diffusion.runner import EditInputs, InitInputs, JobInputs, Pixels, Sample, WordInputs
from worker.engine.aside import SlicedDecoding
from worker.engine.batch import NextBatch
from worker.engine.model_calls import (
    Activities,
    Activity,
    Fault,
    advance,
    attempt,
    decode,
    decoding,
    denoising,
    forward,
    preparing,
)
from worker.engine.prompts import PromptEncoding
from worker.engine.second_pass import second_opening
from worker.engine.slot import Pending, Slot, Ticket, Tickets

log = get_logger(__name__)


class RunningBatch:
    """Admits images, steps those that are alike together, and hands over the finished ones."""

    def __init__(
        self,
        tickets: Tickets,
        *,
        max_slots: int,
        clock: Callable[[], float],
        on_step: Callable[[Sequence[Slot], float], object],
        on_done: Callable[[Activity, float], object],
        stopwatch: Callable[[], float],
        next_batch: NextBatch,
        prompts: PromptEncoding,
        on_hand_over: Callable[[Ticket, Sequence[Slot]], object] = lambda ticket, slots: None,
    ) -> None:
        """Begin empty; jobs that end, well or not, are resolved by `tickets`."""
        self.running: list[Slot] = []
        self.waiting: list[Pending] = []
        self.next_batch = next_batch
        self.activities = Activities(on_done)
        self._tickets = tickets
        self._max_slots = max_slots
        self._clock = clock
        self._on_step = on_step
        self._stopwatch = stopwatch
        self._prompts = prompts
        self._on_hand_over = on_hand_over
        self._aside = SlicedDecoding(self.activities)
        self._opening_s = 0.0  #: for which the next step has waited for images that are opened

    @property
    def leaving(self) -> Sequence[Slot]:
        """The latents that are decoded beside the steps of others."""
        return self._aside.leaving

    @property
    def held(self) -> set[Ticket]:
        """The jobs that have images here."""
        slots = (*self.running, *self.leaving)
        return {slot.ticket for slot in slots} | {pending.ticket for pending in self.waiting}

    @property
    def has_work(self) -> bool:
        """Whether there is an image to open, to step or to decode."""
        return bool(self.running or self.leaving or self.waiting)

    def receive(self, arrived: Sequence[Ticket]) -> None:
        """Let the images of these jobs wait, by when they are due."""
        for ticket in (ticket for ticket in arrived if not ticket.is_closed):
            for index in range(ticket.job.request.n):
                insort(self.waiting, Pending(ticket=ticket, index=index), key=lambda p: p.order)

    def drop(self) -> None:
        """Let the stopped and the late leave."""
        for ticket in self._tickets.take_stopped():
            if isinstance(ticket.stopped, JobHandedOver):
                self._on_hand_over(ticket, [s for s in self.running if s.ticket is ticket])
            self._fail(ticket, ticket.stopped or JobStopped("stopped"))
        now = self._clock()
        for ticket in self.held:
            if ticket.deadline is not None and ticket.deadline < now and not ticket.is_closed:
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

    def admit(self) -> None:
        """Fill the slots with those who are due first: they join at the next step.

        Or at a later one, if others would wait long for the prompt of the first.
        """
        while self.waiting and len(self.running) < self._max_slots:
            ticket = self.waiting[0].ticket
            if self.running and not self._is_worth_waiting_for(ticket):
                ticket.steps_missed += 1
                return
            pending, opened = self._open_first()
            if not isinstance(opened, Fault):
                self._join(pending, opened)
            elif opened.is_memory and self.running:
                ticket.runner.trim()
                self.waiting.insert(0, pending)
                return
            else:
                self._fail(ticket, opened.engine_error("preparing"))

    def _open_first(self) -> tuple[Pending, Sample | Fault]:
        began = time.perf_counter()
        opened = self._open(self.waiting.pop(0))
        self._opening_s += time.perf_counter() - began
        return opened

    def _is_worth_waiting_for(self, ticket: Ticket) -> bool:
        return self._prompts.is_awaited(ticket, self.step_s or 0.0)

    @property
    def step_s(self) -> float | None:
        """How long the next step takes (s), as far as is known; None: nobody steps."""
        running = tuple(self.running)
        return self.next_batch.slowest_s(running) if running else None

    def _open(self, pending: Pending) -> tuple[Pending, Sample | Fault]:
        """Open an image, once its prompt is encoded; what brings pictures is by the decoder.

        Where it stood with another worker, if it can go on from there; that says of which pass.
        """
        ticket = pending.ticket
        state = ticket.states.get(pending.index) if pending.again is None else None
        if _brings_pictures(pending.brought) or (state is not None and state.is_second):
            self._finish_aside()
        with self.activities.during(preparing(pending)):
            if ticket.encode or ticket.encoded:
                self._prompts.finish(ticket)
            if state is not None:
                resumed = attempt(partial(ticket.resume, pending.index, state), "preparing")
                if isinstance(resumed, Fault) and resumed.is_memory:
                    return pending, resumed
                del ticket.states[pending.index]
                if not isinstance(resumed, Fault):
                    return resumed
                log.warning("state_not_used", job=ticket.job.id, reason=str(resumed.error))
            call = partial(ticket.open, ticket.request.seeds[pending.index], pending.again)
            return pending, attempt(call, "preparing")

    def work_aside(self) -> None:
        """Decode what has left its slot: in slices while others step, more the more of it waits.

        Not beside what was opened, if that took as long; nor is a prompt encoded ahead then.
        """
        opening_s, self._opening_s = self._opening_s, 0.0
        if not self.running:
            self._finish_aside()
        elif self.leaving:
            self._aside.work(self.next_batch.slowest_s(self.running), opening_s)
        elif self.waiting and not opening_s:
            self._encode_ahead()

    def _encode_ahead(self) -> None:
        """Encode the first prompt of those that wait for a slot."""
        pending = next((each for each in self.waiting if each.ticket.encode is not None), None)
        if pending is not None:
            with self.activities.during(preparing(pending)):
                self._prompts.finish(pending.ticket)

    def _finish_aside(self) -> None:
        if self.leaving:
            self._aside.finish()

    def _join(self, pending: Pending, sample: Sample) -> None:
        ticket = pending.ticket
        ticket.admitted_at = ticket.admitted_at or self._clock()
        slot = Slot(ticket=ticket, index=pending.index, sample=sample, again=pending.again)
        if sample.taken and pending.again is not None:  # its first pass is over
            ticket.steps_done += 1 - slot.pass_share
        slot.note_begin()
        self.running.append(slot)

    def ready(self) -> list[Slot]:
        """Choose the slots that wait for no other process; those without hope leave."""
        running = tuple(self.running)
        waits = attempt(lambda: [slot.sample.waits_for() for slot in running], "denoising")
        if isinstance(waits, Fault):
            return self._ready_singly()
        pairs = zip(running, waits, strict=True)
        return [slot for slot, what in pairs if what is None and not slot.ticket.is_closed]

    def _ready_singly(self) -> list[Slot]:
        ready = []
        for slot in tuple(self.running):
            waits = attempt(slot.sample.waits_for, "denoising")
            if isinstance(waits, Fault):
                self._fail(slot.ticket, waits.engine_error("denoising"))
            elif waits is None:
                ready.append(slot)
        return [slot for slot in ready if not slot.ticket.is_closed]

    def advance(self, ready: Sequence[Slot]) -> None:
        """Take one denoising step with the batch of whoever's turn it is."""
        is_full = len(self.running) >= self._max_slots
        batch = self.next_batch.choose(ready, is_full=is_full)
        started = self._stopwatch()
        with self.activities.during(denoising(batch)):
            faults = self._step(batch)
        for slot, fault in faults:
            self._fail(slot.ticket, fault.engine_error("denoising"))
        step_s = self._stopwatch() - started
        rows = sum(slot.rows for slot in batch)
        for slot in batch:
            slot.charge(step_s * slot.rows / rows)
        self.next_batch.note(batch, step_s, is_whole=not faults)
        self._on_step(batch, step_s)

    def _step(self, batch: Sequence[Slot]) -> list[tuple[Slot, Fault]]:
        """Take one step with a batch; give the slots that could not."""
        done = forward(batch, self.next_batch.caps)
        faults = dict(advance(done.predictions))
        for slot, _ in done.predictions:
            if slot not in faults:
                slot.note_step()
        return [*done.faults, *faults.items()]

    def left_s(self) -> dict[str, float]:
        """Guess how long the jobs take whose images are all running (s)."""
        waiting = {pending.ticket for pending in tuple(self.waiting)}
        waiting |= {s.ticket for s in tuple(self.running) if s.request.second_pass is not None}
        running = [slot for slot in tuple(self.running) if slot.ticket not in waiting]
        return self.next_batch.left_s(running, among=tuple(self.running))

    def retire(self) -> None:
        """Decode what has taken its last step: at once, or beside the steps of others."""
        finished = [slot for slot in self.running if slot.is_finished]
        for slot in finished:
            slot.ticket.denoised_at = self._clock()
        left = [slot for slot in finished if not slot.ticket.is_closed]
        for slot in left:
            self.running.remove(slot)
            slot.sample.close()
        if not self.running:
            self._finish_aside()
        for slot in left:
            self._decode(slot)

    def _decode(self, slot: Slot) -> None:
        if self.running:
            self._aside.add(slot, self._decoded)
            return
        with self.activities.during(decoding(slot)):
            pixels = decode(slot)
        self._decoded(slot, pixels)

    def _decoded(self, slot: Slot, pixels: Pixels | Fault) -> None:
        ticket = slot.ticket
        if isinstance(pixels, Fault):
            self._fail(ticket, pixels.engine_error("decoding"))
            return
        if slot.request.second_pass is not None and not ticket.is_closed:
            again = second_opening(slot.request, pixels, ticket.brought)
            pending = Pending(ticket=ticket, index=slot.index, again=again)
            insort(self.waiting, pending, key=lambda each: each.order)
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

    def clear(self) -> None:
        """Let go of everything; the jobs are resolved by then."""
        for slot in self.running:
            slot.sample.close()
        self._aside.clear()
        self.running, self.waiting = [], []


def _brings_pictures(brought: JobInputs | None) -> bool:
    rest = brought.rest if isinstance(brought, WordInputs) else brought
    return isinstance(rest, EditInputs | InitInputs)
