"""Keep where images stand, so that another worker goes on with them.

Best effort: copies are written beside steps, and none waits for it. Where the store is slow the
newest state of an image takes the place of the one that waits.
"""

import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from core.job import Job
from core.log import get_logger, log_errors
from core.telemetry import metrics
from storage.objects.image_states import StateKey
from worker.diffusion.image_state import ImageState
from worker.engine.slot import Slot, Ticket

log = get_logger(__name__)

#: Of the time of the steps, how much this process may spend on copying and writing states.
SHARE = 0.01
#: After a write, so many times what it took go by: the CPU process is there for images first.
REST = 4.0
#: States that one call writes: more images than a worker has slots for, as a rule.
MAX_STATES = 16
#: How long a shutdown waits for what is on its way.
CLOSE_S = 2.0
#: So many are measured before any is called dear: the least of the last ones is what one takes
#: where nothing else had the processor, and the first of a process takes longer than all others.
MEASURED = 3


class StateStore(Protocol):
    """What is needed of the processes that store things."""

    def put_states(self, states: Sequence[tuple[str, bytes]]) -> "Future[None]":
        """Store states of images under these keys."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete what was stored."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Copied:
    """Where one image stood, not written down yet."""

    job: Job
    step: int
    steps: int
    reached: str
    is_second: bool
    payload: Callable[[], bytes]

    def write(self, identity: str) -> bytes:
        payload = self.payload()
        return ImageState(
            identity=identity,
            step=self.step,
            steps=self.steps,
            reached=self.reached,
            is_second=self.is_second,
            checksum=zlib.crc32(payload),
            payload=payload,
        ).write()


class StateWriter:
    """The states of one worker's images. `note` and `hand_over` belong to the engine's thread."""

    def __init__(self, *, store: StateStore, identify: Callable[[Job], str], every: int) -> None:
        """Prepare; an image is kept every so many steps, 0: never."""
        self._store = store
        self._identify = identify
        self._every = every
        self._copies_s = deque([0.0] * MEASURED, MEASURED)  #: of one image each, the last ones
        self._writes_s = deque([0.0] * MEASURED, MEASURED)  #: of the writer's thread, likewise
        self._wake = threading.Condition()
        self._waiting: dict[StateKey, _Copied] = {}
        self._writing: tuple[StateKey, ...] = ()
        self._kept: dict[str, set[str]] = {}  #: keys of the objects of a job, by its id
        self._over: list[str] = []  #: jobs whose objects nobody needs any more
        self._handed: set[str] = set()  #: jobs that have left the engine for another worker
        self._is_hurried = self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="states", daemon=True)

    @property
    def is_on(self) -> bool:
        """Whether states are kept, and gone on from."""
        return self._every > 0

    def start(self) -> None:
        """Start the thread that writes states down."""
        self._thread.start()

    # from the engine's thread

    def note(self, batch: Sequence[Slot], step_s: float) -> None:
        """Copy where the images of a batch stand, after a step of theirs, if it is time."""
        if not self._every:
            return
        cost_s = len(batch) * (min(self._copies_s) + min(self._writes_s))
        least = ceil(cost_s / (SHARE * step_s)) if step_s else self._every
        every = max(self._every, least)
        due = [slot for slot in batch if slot.step - slot.kept_step >= every]
        if due:
            self._copy(slot for slot in due if not slot.is_finished)

    def hand_over(self, ticket: Ticket, slots: Sequence[Slot]) -> None:
        """Copy where the images of a job stand that leaves for another worker."""
        if self._every:
            self._copy(s for s in slots if s.step > s.kept_step and not s.is_finished)
        with self._wake:
            self._handed.add(ticket.job.id)
            self._wake.notify_all()

    def _copy(self, slots: Iterable[Slot]) -> None:
        for slot in slots:
            began = time.perf_counter()
            with log_errors(log, "state_not_copied", job=slot.ticket.job.id):
                self._copy_one(slot)
            self._copies_s.append(time.perf_counter() - began)

    def _copy_one(self, slot: Slot) -> None:
        job, sample = slot.ticket.job, slot.sample
        payload = slot.ticket.runner.state_of(sample)
        if payload is None:
            return
        slot.kept_step = slot.step
        key = StateKey(tenant=job.tenant, job_id=job.id, fence=job.fence, index=slot.index)
        copied = _Copied(
            job=job,
            step=slot.step,
            steps=sample.num_steps,
            reached=sample.reached.code,
            is_second=slot.again is not None,
            payload=payload,
        )
        with self._wake:
            if self._waiting.pop(key, None) is not None:
                metrics.image_states.labels("dropped").inc()
            self._waiting[key] = copied
            self._wake.notify_all()

    # from any thread

    def settle(self, job_ids: Collection[str], within_s: float) -> bool:
        """Wait until jobs have left the engine and all that is known of them is written.

        Returns whether it is, in time.
        """
        if not self._every:
            return True
        ids = set(job_ids)

        def is_settled() -> bool:
            waiting = {key.job_id for key in (*self._waiting, *self._writing)}
            return ids <= self._handed and not ids & waiting

        with self._wake:
            self._is_hurried = True
            self._wake.notify_all()
            in_time = self._wake.wait_for(is_settled, within_s)
            self._handed -= ids
        return in_time

    def know(self, job_id: str, keys: Collection[str]) -> None:
        """Remember objects that others left of a job, to delete them with our own."""
        with self._wake:
            self._kept.setdefault(job_id, set()).update(keys)

    def lose(self, job_id: str) -> None:
        """Keep no more of a job that others may go on with."""
        with self._wake:
            self._drop(job_id)
            self._kept.pop(job_id, None)

    def end(self, job_id: str) -> None:
        """Delete what was kept of a job that has ended. Never waits."""
        with self._wake:
            self._drop(job_id)
            if job_id in self._kept:
                self._over.append(job_id)
                self._wake.notify_all()

    def close(self) -> None:
        """End the thread once it has written and deleted what it has, or after `CLOSE_S`."""
        with self._wake:
            self._is_closed = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def _drop(self, job_id: str) -> None:
        for key in [key for key in self._waiting if key.job_id == job_id]:
            del self._waiting[key]

    # from its own thread

    def _run(self) -> None:
        while self._wait():
            began = time.monotonic()
            with log_errors(log, "states_not_written"):
                self._delete()
                self._write()
            self._rest(REST * (time.monotonic() - began))

    def _wait(self) -> bool:
        with self._wake:
            self._wake.wait_for(lambda: self._waiting or self._over or self._is_closed)
            return bool(self._waiting or self._over)

    def _rest(self, seconds: float) -> None:
        with self._wake:
            self._wake.wait_for(lambda: self._is_hurried or self._is_closed, seconds)

    def _delete(self) -> None:
        with self._wake:
            over, self._over = self._over, []
            keys = [key for job_id in over for key in sorted(self._kept.pop(job_id, ()))]
        if keys:
            self._store.delete(keys)

    def _write(self) -> None:
        with self._wake:
            taken = dict(list(self._waiting.items())[:MAX_STATES])
            for key in taken:
                del self._waiting[key]
                self._kept.setdefault(key.job_id, set()).add(str(key))
            self._writing = tuple(taken)
        outcome, began = "failed", time.thread_time()
        try:
            if taken:
                self._store.put_states(
                    [(str(k), each.write(self._identify(each.job))) for k, each in taken.items()]
                ).result()
                outcome = "kept"
                self._writes_s.append((time.thread_time() - began) / len(taken))
        finally:
            metrics.image_states.labels(outcome).inc(len(taken))
            with self._wake:
                self._writing = ()
                self._wake.notify_all()
