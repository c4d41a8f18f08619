"""List the images in this worker's batch, among its claimed jobs and on its own queue."""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import ceil

from core.boards.image_work import ImageWork
from core.job import Job
from core.model import Model
from core.placement import is_own
from core.recipe import works_of
from storage.jobs.waiting import Waiting
from worker.engine.slot import Slot


def works(
    running: Iterable[Slot],
    held: Iterable[Job],
    waiting: Iterable[Waiting],
    models: Mapping[str, Model],
) -> tuple[ImageWork, ...]:
    """List images: those in the running batch, then those held or waiting that are not in it.

    Jobs of models that are not known here are left out.
    """
    begun = tuple(_begun(slot) for slot in running)
    images = Counter(work.job for work in begun)
    expected = {
        job.id: _works(job, models[job.request.model])
        for job in held
        if job.request.model in models
    }
    for each in waiting:
        if is_own(each.queue) and each.job_id not in expected and each.request.model in models:
            model = models[each.request.model]
            expected[each.job_id] = works_of(each.job_id, each.request, model)
    return (*begun, *(work for job, of in expected.items() for work in of[images[job] :]))


def _begun(slot: Slot) -> ImageWork:
    request = slot.request
    left = (slot.sample.num_steps - slot.step) * slot.sample.reached.step_cost
    if request.second_pass is not None:
        left += request.second_pass.share(request.steps) * request.steps
    return ImageWork(
        job=slot.ticket.job.id,
        model=request.model,
        steps=ceil(left),
        rows=slot.rows,
        pixels=request.width * request.height,
        masked=slot.sample.masked,
    )


def _works(job: Job, model: Model) -> tuple[ImageWork, ...]:
    placed = job.placement if job.placement.start is not None else job.placement.from_noise()
    return works_of(job.id, job.request, model, approximation=placed.approximation)
