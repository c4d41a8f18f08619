"""The running batch: admit images, step them together, hand over finished ones.

All of it belongs to one thread, the engine's.
"""

import time
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

from core.errors import AtelierError, JobExpired, JobHandedOver, JobStopped
from worker.diffusion.runner import Pixels, Sample, brings_conditions, brings_pictures
from worker.engine.aside import FreeDecoding, SlicedDecoding
from worker.engine.batch import NextBatch, denoising
from worker.engine.faults import Fault, Faults, advance_in_halves, attempt, step_in_halves
from worker.engine.prompts import PromptEncoding
from worker.engine.reopening import resume, second_opening
from worker.engine.slot import Pending, Slot, Ticket, Tickets, alone
from worker.engine.stats import DECODING, DENOISING, PREPARING, Activities, Activity


@dataclass(slots=True, eq=False)
class RunningBatch:
    """Admits images, steps those that are alike together, and hands over the finished ones."""

    tickets: Tickets  #: resolves jobs that end, well or not
    _: KW_ONLY
    prompts: PromptEncoding
    next_batch: NextBatch
    activities: Activities
    max_slots: int
    clock: Callable[[], float]  #: monotonic s: no deadline passes because a clock is set
    stopwatch: Callable[[], float]  #: of steps (s)
    on_step: Callable[[Sequence[Slot], float], object]  #: hears of each, and how long it took (s)
    #: Sees the images of a job that another worker goes on with, before they leave.
    on_hand_over: Callable[[Ticket, Sequence[Slot]], object] = lambda ticket, slots: None
    #: Hears of each job that needs no slot any more: its images are decoded, or about to be.
    on_left: Callable[[Ticket], object] = lambda ticket: None
    running: list[Slot] = field(default_factory=list)
    waiting: list[Pending] = field(default_factory=list)
    _aside: SlicedDecoding = field(init=False)
    _free: FreeDecoding = field(init=False)
    _opening_s: float = 0.0  #: for which the next step has waited for images that are opened

    def __post_init__(self) -> None:
        self._aside = SlicedDecoding(self.activities)
        self._free = FreeDecoding(self.activities)

    @property
    def leaving(self) -> Sequence[Slot]:
        """The latents that are decoded beside the steps of others."""
        return (*self._aside.leaving, *self._free.leaving)

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
        if self.tickets.stopping:
            self._drop_stopped()
        now = self.clock()
        for ticket in self.held:
            if ticket.deadline is not None and ticket.deadline < now and not ticket.is_closed:
                self._fail(ticket, self._why_late(ticket))

    def _drop_stopped(self) -> None:
        for ticket in self.tickets.take_stopped():
            if isinstance(ticket.stopped, JobHandedOver):
                self.on_hand_over(ticket, [s for s in self.running if s.ticket is ticket])
            self._fail(ticket, ticket.stopped or JobStopped("stopped"))

    def _why_late(self, ticket: Ticket) -> AtelierError:
        """Tell a job that came too late from one that another process has let down."""
        for slot in self.running:
            if slot.ticket is ticket:
                waits = attempt(slot.sample.waits_for, DENOISING)
                if isinstance(waits, Fault):
                    return waits.engine_error(DENOISING)
                if waits is not None:
                    return slot.sample.let_down(f"its deadline passed while it waited for {waits}")
        return JobExpired("its deadline passed before it was made")

    def admit(self) -> None:
        """Fill the slots with those who are due first: they join at the next step.

        Or at a later one, if others would wait long for the prompt of the first.
        """
        while len(self.running) < self.max_slots and (first := self._first()) is not None:
            self.waiting.remove(first)
            began = time.perf_counter()
            pending, opened = self._opened(first)
            self._opening_s += time.perf_counter() - began
            if not isinstance(opened, Fault):
                self._join(pending, opened)
            elif opened.is_memory and self.running:
                insort(self.waiting, pending, key=lambda each: each.order)
                return
            else:
                self._fail(first.ticket, opened.engine_error(PREPARING))

    def _first(self) -> Pending | None:
        """Choose who is due first, of those whose IP-Adapter is not being loaded.

        None: nobody, or its prompt is encoded yet beside the steps of others.
        """
        ready = (each for each in self.waiting if not each.ticket.is_loading)
        first, step_s = next(ready, None), self.step_s
        if first is None or step_s is None:
            return first
        if not self.prompts.is_awaited(first.ticket, step_s):
            first.ticket.steps_missed += 1
            return None
        return first

    @property
    def step_s(self) -> float | None:
        """How long the next step takes (s), as far as is known; None: nobody steps."""
        running = tuple(self.running)
        return self.next_batch.slowest_s(running) if running else None

    def _opened(self, pending: Pending) -> tuple[Pending, Sample | Fault]:
        """Open an image; once more with memory given back if there was not enough.

        While others run that is left to a later step: whoever ends gives more of it back.
        """
        found, opened = self._open(pending)
        if isinstance(opened, Fault) and opened.is_memory:
            pending.ticket.runner.trim()
            if not self.running:
                return self._open(pending)
        return found, opened

    def _open(self, pending: Pending) -> tuple[Pending, Sample | Fault]:
        """Open an image, once its prompt is encoded; what brings pictures is by the decoder.

        Where it stood with another worker, if it can go on from there; that says of which pass.
        """
        ticket = pending.ticket
        state = ticket.states.get(pending.index) if pending.again is None else None
        if self.leaving and (brings_pictures(pending.brought) or (state and state.is_second)):
            self._finish_aside()
        elif self._free.leaving and brings_conditions(pending.brought):
            self._free.finish()
        with self._during(alone(PREPARING, pending)):
            if ticket.encode or ticket.encoded:
                told = attempt(partial(self.prompts.finish, ticket), PREPARING)
                if isinstance(told, Fault):
                    return pending, told
            if state is not None and (resumed := resume(pending, state)) is not None:
                return resumed
            call = partial(ticket.open, ticket.request.seeds[pending.index], pending.again)
            return pending, attempt(call, PREPARING)

    def work_aside(self) -> None:
        """Decode what has left its slot: in slices while others step, more the more of it waits.

        Not beside what was opened, if that took as long; nor is a prompt encoded ahead then. What
        is decoded by a thread is handed over.
        """
        if self._free.leaving:
            self._free.settle()
        opening_s, self._opening_s = self._opening_s, 0.0
        if not self.running:
            self._finish_aside()
        elif self._aside.leaving:
            self._aside.work(self.next_batch.slowest_s(self.running), opening_s)
        elif self.waiting and not opening_s:
            self._encode_ahead()

    def _encode_ahead(self) -> None:
        """Encode the first prompt of those that wait for a slot."""
        pending = next((each for each in self.waiting if each.ticket.encode is not None), None)
        if pending is not None:
            with self._during(alone(PREPARING, pending)):
                self.prompts.finish(pending.ticket)

    def _finish_aside(self) -> None:
        if self._aside.leaving:
            self._aside.finish()
        if self._free.leaving:
            self._free.finish()

    def _join(self, pending: Pending, sample: Sample) -> None:
        ticket = pending.ticket
        ticket.admitted_at = ticket.admitted_at or self.clock()
        slot = Slot(ticket=ticket, index=pending.index, sample=sample, again=pending.again)
        if sample.taken and pending.again is not None:  # its first pass is over
            ticket.steps_done += 1 - slot.pass_share
        slot.note_begin()
        self.running.append(slot)

    def ready(self) -> list[Slot]:
        """Choose the slots that wait for no other process; those without hope leave."""
        running = tuple(self.running)
        waits: Sequence[str | Fault | None] | Fault
        waits = attempt(lambda: [slot.sample.waits_for() for slot in running], DENOISING)
        if isinstance(waits, Fault):
            waits = self._ask_singly(running)
        pairs = zip(running, waits, strict=True)
        return [slot for slot, what in pairs if what is None and not slot.ticket.is_closed]

    def _ask_singly(self, running: Sequence[Slot]) -> list[str | Fault | None]:
        """Ask what each waits for; those without hope leave."""
        waits = [attempt(slot.sample.waits_for, DENOISING) for slot in running]
        for slot, what in zip(running, waits, strict=True):
            if isinstance(what, Fault):
                self._fail(slot.ticket, what.engine_error(DENOISING))
        return waits

    def advance(self, ready: Sequence[Slot]) -> None:
        """Take one denoising step with the batch of whoever's turn it is."""
        is_full = len(self.running) >= self.max_slots
        batch = self.next_batch.choose(ready, is_full=is_full)
        started = self.stopwatch()
        with self._during(denoising(batch)):
            faults = self._step(batch)
        for slot, fault in faults:
            self._fail(slot.ticket, fault.engine_error(DENOISING))
        step_s = self.stopwatch() - started
        rows = sum(slot.rows for slot in batch)
        for slot in batch:
            slot.charge(step_s * slot.rows / rows)
        self.next_batch.note(batch, step_s, is_whole=not faults)
        self.on_step(batch, step_s)

    def _step(self, batch: Sequence[Slot]) -> Faults:
        """Take one step with a batch; give the slots that could not."""
        runner, samples = batch[0].ticket.runner, [slot.sample for slot in batch]
        caps = self.next_batch.caps
        predictions = attempt(lambda: list(runner.forward(samples)), DENOISING)
        if isinstance(predictions, Fault):
            return step_in_halves(batch, predictions, caps)
        if caps.lowered:
            caps.grow(batch[0].group, sum(slot.rows for slot in batch))
        fault = attempt(lambda: runner.advance(samples, predictions), DENOISING)
        if isinstance(fault, Fault):
            return advance_in_halves([*zip(batch, predictions, strict=True)], fault)
        for slot in batch:
            slot.note_step()
        return []

    @contextmanager
    def _during(self, activity: Activity) -> Iterator[None]:
        """Be at something, as is seen from outside."""
        self.activities.now, began = activity, time.perf_counter()
        try:
            yield
        finally:
            self.activities.now = None
            self.activities.on_done(activity, time.perf_counter() - began)

    def left_s(self) -> dict[str, float]:
        """Guess how long the jobs take whose images are all running (s)."""
        waiting = {pending.ticket for pending in tuple(self.waiting)}
        waiting |= {s.ticket for s in tuple(self.running) if s.request.second_pass is not None}
        running = [slot for slot in tuple(self.running) if slot.ticket not in waiting]
        return self.next_batch.left_s(running, among=tuple(self.running))

    def retire(self) -> None:
        """Decode what has taken its last step: at once, or after others and beside their steps."""
        finished = [slot for slot in self.running if slot.is_finished]
        for slot in finished:
            slot.ticket.denoised_at = self.clock()
        left = [slot for slot in finished if not slot.ticket.is_closed]
        for slot in left:
            self.running.remove(slot)
            slot.sample.close()
        for ticket in {slot.ticket: None for slot in left}:
            if not self._needs_slots(ticket, left):
                self.on_left(ticket)
        for slot in left:
            self._decode(slot)

    def _needs_slots(self, ticket: Ticket, left: Sequence[Slot]) -> bool:
        """Tell whether an image of a job has a slot, or is to get one: perhaps its second."""
        again = [s.ticket for s in (*left, *self.leaving) if s.request.second_pass is not None]
        waiting = [pending.ticket for pending in self.waiting]
        running = [slot.ticket for slot in self.running]
        return any(each is ticket for each in (*again, *waiting, *running))

    def _decode(self, slot: Slot) -> None:
        if self.running or self.leaving:
            if slot.ticket.runner.decodes_freely:
                self._free.add(slot, partial(_decoded_once, slot), self._decoded_freely)
            else:
                self._aside.add(slot, partial(_pixels_of, slot), self._decoded)
            return
        began = time.perf_counter()
        with self._during(alone(DECODING, slot)):
            pixels = _pixels_of(slot)
        self.activities.note_decoding(slot.ticket.runner.model.name, time.perf_counter() - began)
        self._decoded(slot, pixels)

    def _decoded_freely(self, slot: Slot, pixels: Pixels | Fault) -> None:
        """Take what a thread has decoded; only here memory is given back."""
        if isinstance(pixels, Fault) and pixels.is_memory:
            pixels = _pixels_of(slot)
        self._decoded(slot, pixels)

    def _decoded(self, slot: Slot, pixels: Pixels | Fault) -> None:
        ticket = slot.ticket
        if isinstance(pixels, Fault):
            self._fail(ticket, pixels.engine_error(DECODING))
            return
        if slot.request.second_pass is not None and not ticket.is_closed:
            again = second_opening(slot.request, pixels, ticket.brought)
            pending = Pending(ticket=ticket, index=slot.index, again=again)
            insort(self.waiting, pending, key=lambda each: each.order)
            return
        slot.hand_over(pixels)
        if len(ticket.images) == ticket.job.request.n:
            self.tickets.succeed(ticket, ticket.made())

    def _fail(self, ticket: Ticket, error: AtelierError) -> None:
        """Free the slots of a job, then say why it is not made."""
        for slot in self.running:
            if slot.ticket is ticket:
                slot.sample.close()
        self.running = [slot for slot in self.running if slot.ticket is not ticket]
        self.waiting = [pending for pending in self.waiting if pending.ticket is not ticket]
        self.tickets.fail(ticket, error)

    def clear(self) -> None:
        """Let go of everything; the jobs are resolved by then."""
        for slot in self.running:
            slot.sample.close()
        self._aside.clear()
        self._free.clear()
        self.running, self.waiting = [], []


def _pixels_of(slot: Slot) -> Pixels | Fault:
    """Decode a latent; once more with memory given back if there was not enough."""
    pixels = _decoded_once(slot)
    if isinstance(pixels, Fault) and pixels.is_memory:
        slot.ticket.runner.trim()
        pixels = _decoded_once(slot)
    return pixels


def _decoded_once(slot: Slot) -> Pixels | Fault:
    return attempt(lambda: slot.ticket.runner.decode(slot.sample), DECODING)
