"""Reroute jobs from queues without workers to a loaded model that can run them.

Only jobs that have waited a while are rerouted: a plan that changes leaves a queue alone for a
moment. A job whose client chose the model, or wants it exact, waits for its model: the plan brings
that back. A job sent to one worker alone is placed again even if that worker serves: it may be
behind.
"""

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence, Set

from core.application import DEFAULT, application_key
from core.errors import NoPlan, NotFound, TooManyRequests
from core.job import Failure, Job
from core.log import get_logger
from core.model import Model, offered
from core.placement import Placement, PlacementQuery, is_own, queue_of, shared_queue_of
from core.recipe import edit_works
from core.traits import Use, can_make, may
from storage.jobs.jobs import Jobs
from storage.jobs.sweeps import Upkeep
from storage.tenants.applications import Applications
from tasks.messages import QUEUE_PRIORITY, envelope

log = get_logger(__name__)

#: How long a job waits on a queue without a worker before it is given another place.
GRACE_S = 2.0
#: How long jobs are given other places in one go: first whoever waited longest, or was asked about
#: longest ago. Those that wait for their model keep nobody behind them from another.
BUDGET_S = 0.5

#: Asks the scheduler to place each of some jobs; an error is the answer for one that it does not.
Route = Callable[
    [Sequence[PlacementQuery]], Awaitable[Sequence[Placement | NoPlan | TooManyRequests]]
]


class Rerouter:
    """Gives stray jobs another place."""

    def __init__(
        self,
        *,
        sweeper: Upkeep,
        jobs: Jobs,
        route: Route,
        models: Mapping[str, Model],
        applications: Applications,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sweeper = sweeper
        self._jobs = jobs
        self._route = route
        self._models = models
        self._applications = applications
        self._clock = clock
        self._since: dict[str, float] = {}  #: stray job -> when first seen
        self._asked: dict[str, float] = {}  #: of them, those that found no place -> when last

    async def run(self, served: Set[str]) -> list[str]:
        """Move the jobs that have been astray for long; return their ids."""
        now = self._clock()
        ids = await self._sweeper.rescue({queue for queue in served if not is_own(queue)})
        self._since = {job_id: self._since.get(job_id, now) for job_id in ids}
        self._asked = {job_id: at for job_id, at in self._asked.items() if job_id in self._since}
        late = {job_id: at for job_id, at in self._since.items() if now - at >= GRACE_S}
        moved = []
        for job_id in sorted(late, key=(late | self._asked).__getitem__):
            if self._clock() - now > BUDGET_S:
                break
            if await self._move(job_id, served):
                moved.append(job_id)
            else:
                self._asked[job_id] = self._clock()
        return moved

    async def _move(self, job_id: str, served: Set[str]) -> bool:
        try:
            job = await self._jobs.get(job_id)
        except NotFound:
            return False
        if is_own(job.placement.queue):
            self._since[job_id] = self._clock()  # it may be told to stay
        able = await self._able(job, served)
        if not able:
            await self._give_up_if_hopeless(job, served)
            return False
        [placement] = await self._route([_query(job, able)])
        if not isinstance(placement, Placement):
            return False
        if placement.queue not in served - {job.placement.queue}:
            return False
        message = envelope(job_id, placement.queue, QUEUE_PRIORITY[job.request.priority])
        request = job.request.on(self._models[placement.model])
        log.info("job_moved", job=job_id, queue=placement.queue)
        return await self._sweeper.move(job_id, request, placement, message)

    async def _give_up_if_hopeless(self, job: Job, served: Set[str]) -> None:
        """End a job whose model is served no more and that no other model may make."""
        name = job.placement.model
        if name in self._models or shared_queue_of(job.placement.queue) in served:
            return
        if may(Use.MOVE, job.request):
            allowed = await self._allowed(job)
            others = [model for each, model in self._models.items() if each in allowed]
            if any(can_make(model, job.request) for model in others):
                return  # until one of them has a worker
        log.info("job_given_up", job=job.id, model=name)
        await self._sweeper.give_up(job.id, removed(name))

    async def _able(self, job: Job, served: Set[str]) -> list[Model]:
        """List the models it may get: its own while anybody serves that, or else those that do."""
        if shared_queue_of(job.placement.queue) in served:
            return [self._models[name] for name in [job.request.model] if name in self._models]
        if not may(Use.MOVE, job.request):
            return []
        allowed = await self._allowed(job)
        return [
            model
            for name, model in sorted(self._models.items())
            if name in allowed and queue_of(name) in served and can_make(model, job.request)
        ]

    async def _allowed(self, job: Job) -> Collection[str]:
        """Name the models that may serve the application of a job, if it is still registered."""
        if job.request.application in (None, DEFAULT):
            return offered(self._models)
        try:
            return (await self._applications.get(job.tenant, job.request.application)).models
        except NotFound:
            return offered(self._models)


def removed(model: str) -> Failure:
    """Say why a job ends whose model has been removed."""
    return Failure(
        type="model_removed",
        title="The model of the job is served no more",
        detail=f"{model} was removed while the job waited, and no other model may make it. Ask for "
        "another model, or try the job again once this one is back.",
    )


def _query(job: Job, models: Sequence[Model]) -> PlacementQuery:
    request = job.request
    return PlacementQuery(
        prompt=request.prompt,
        models=tuple(model.name for model in models),
        application=application_key(job.tenant, request.application),
        steps=request.steps,
        share=request.share,
        rows=request.n,
        works=tuple(w for m in models for w in edit_works(job.id, request.on(m), m)),
        is_again=True,
    )
