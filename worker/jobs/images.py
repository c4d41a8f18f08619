"""Read job inputs and store images through a pool of CPU processes, calls batched.

Jobs that are done while a call is on its way share the next one: storing is mostly waiting.
"""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

from core.errors import ProcessLost
from core.job import Job, StoredImage
from core.placement import Placement
from core.request.output import Output
from core.settings import Settings
from worker.cpu import store_images
from worker.cpu.image_states import put_states, read_states
from worker.cpu.inputs import (
    may_borrow,
    read_conditions,
    read_edit,
    read_init,
    read_picture,
    read_start,
    read_words,
)
from worker.cpu.processes import Processes
from worker.cpu.store_images import Parcel
from worker.diffusion.runner import JobInputs
from worker.engine.slot import JobImages
from worker.jobs.latent_reads import Starts

Stored = tuple[StoredImage, ...]

#: Calls on their way for each process, so that none waits for the next.
CALLS_A_PROCESS = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoreOrder:
    """One job's images that wait to be stored."""

    parcel: Parcel
    answer: "Future[Stored]" = field(default_factory=Future)
    is_suspect: bool = False  #: processes were lost over it and others: it goes alone


class Images:
    """Reads the inputs of one worker's jobs, encodes and stores their images."""

    def __init__(self, settings: Settings) -> None:
        self._processes = Processes(settings.cpu_processes, store_images.open_store, settings)
        self._budget_s = settings.retrieval_budget_s
        self.starts = Starts()
        self._free = settings.cpu_processes * CALLS_A_PROCESS  #: calls that may set out
        self._orders: deque[StoreOrder] = deque()
        self._lock = threading.Lock()

    def get(self, job: Job) -> "Future[JobInputs | None] | None":
        """Read what a job brings along; None if that is nothing.

        Latents to go on from are there within their budget, or the answer is None.
        """
        if job.request.embeddings or job.request.ip_adapter:
            return self._processes.run(read_words, job.request)
        if job.request.edit is not None:
            return self._processes.run(read_edit, job.request)
        if job.request.init_image is not None:
            return self._processes.run(read_init, job.request)
        if job.request.upscale is not None:
            return self._processes.run(read_picture, job.request)
        if job.request.controls:
            return self._processes.run(read_conditions, job.request)
        return self._get_start(job.placement) if may_borrow(job) else None

    def put_latents(self, key: str, data: bytes) -> "Future[None]":
        """Store what a job leaves behind."""
        return self._processes.run(store_images.put_latents, key, data)

    def put_states(self, states: Sequence[tuple[str, bytes]]) -> "Future[None]":
        """Store where images stand."""
        return self._processes.run(put_states, states)

    def get_states(self, tenant: str, job_id: str) -> "Future[Mapping[str, bytes]]":
        """Read where the images of a job stood, by key."""
        return self._processes.run(read_states, tenant, job_id)

    def put(self, prefix: str, made: JobImages, output: Output) -> "Future[Stored]":
        """Store the images of one job under `prefix`."""
        parcel = Parcel(prefix=prefix, images=made.images, seeds=made.seeds, output=output)
        order = StoreOrder(parcel=parcel)
        self._orders.append(order)
        self._set_out()
        return order.answer

    def delete(self, keys: Sequence[str]) -> None:
        """Take images back; what fails here is left to retention."""
        self._processes.run(store_images.delete_images, tuple(keys))

    def warm_up(self) -> None:
        """Return once images can be stored without a delay."""
        self._processes.warm_up()

    def close(self) -> None:
        """Finish what is on its way and end the processes."""
        self._processes.close()

    def _get_start(self, placement: Placement) -> "Future[JobInputs | None]":
        asked: Future[JobInputs | None]
        asked = self._processes.run(read_start, placement, self._budget_s)
        return self.starts.in_time(self._budget_s, asked)

    def _set_out(self) -> None:
        with self._lock:
            if not self._free or not self._orders:
                return
            self._free -= 1
            orders = [self._orders.popleft()]
            while self._orders and _may_join(orders, self._orders[0]):
                orders.append(self._orders.popleft())
        call = self._processes.run(store_images.store_parcels, [order.parcel for order in orders])
        call.add_done_callback(partial(self._come_back, orders))

    def _come_back(
        self, orders: Sequence[StoreOrder], call: "Future[list[Stored | Exception]]"
    ) -> None:
        with self._lock:
            self._free += 1
        error = call.exception()
        if isinstance(error, ProcessLost) and len(orders) > 1:
            self._orders.extend(replace(order, is_suspect=True) for order in orders)
            self._set_out()
            return
        answers = [error] * len(orders) if error is not None else call.result()
        for order, answer in zip(orders, answers, strict=True):
            if isinstance(answer, BaseException):
                order.answer.set_exception(answer)
            else:
                order.answer.set_result(answer)
        self._set_out()


def _may_join(orders: Sequence[StoreOrder], following: StoreOrder) -> bool:
    is_alone = orders[0].is_suspect or following.is_suspect
    return len(orders) < store_images.MAX_PARCELS and not is_alone
