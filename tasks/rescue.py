"""Where do jobs go whose queue nobody serves any more? To a model that can make them and is held.

Only jobs that have waited a while: a plan that changes leaves a queue alone for a moment.
"""

import time
from collections.abc import Callable, Mapping, Set
from typing import Protocol

import httpx
import msgspec

from core.application import application_key
from core.errors import NotFound, SchedulerUnavailable
from core.job import Job, JobRequest, Quality
from core.log import get_logger
from core.placement import Placement, PlacementQuery, queue_of
from core.variant import Model
from storage.jobs import Jobs
from storage.upkeep import Upkeep
from tasks.messages import QUEUE_PRIORITY, envelope

log = get_logger(__name__)

#: How long a job waits on a queue without a worker before it is given another place.
GRACE_S = 15.0


class Place(Protocol):
    """Asks the scheduler for one placement; None: nobody can make it."""

    async def __call__(self, query: PlacementQuery) -> Placement | None: ...


class Rescue:
    """Gives stray jobs another place."""

    def __init__(
        self,
        *,
        sweeper: Upkeep,
        jobs: Jobs,
        place: Place,
        models: Mapping[str, Model],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sweeper = sweeper
        self._jobs = jobs
        self._place = place
        self._models = models
        self._clock = clock
        self._since: dict[str, float] = {}  #: stray job -> when first seen

    async def run(self, served: Set[str]) -> list[str]:
        """Move the jobs that have been astray for long; return their ids."""
        now = self._clock()
        ids = await self._sweeper.rescue(served)
        self._since = {job_id: self._since.get(job_id, now) for job_id in ids}
        late = [job_id for job_id, since in self._since.items() if now - since >= GRACE_S]
        return [job_id for job_id in late if await self._move(job_id, served)]

    async def _move(self, job_id: str, served: Set[str]) -> bool:
        try:
            job = await self._jobs.get(job_id)
        except NotFound:
            return False
        able = tuple(
            name
            for name, model in sorted(self._models.items())
            if queue_of(name) in served and can_make(model, job.request)
        )
        placement = await self._place(_query(job, able)) if able else None
        if placement is None or placement.queue not in served:
            return False
        message = envelope(job_id, placement.queue, QUEUE_PRIORITY[job.request.priority])
        log.info("job_moved", job=job_id, queue=placement.queue)
        return await self._sweeper.move(job_id, placement, message)


def can_make(model: Model, request: JobRequest) -> bool:
    """Tell whether a request keeps to the limits of another model than it was checked for."""
    sizes = (request.width, request.height)
    has_sampler = request.scheduler is None or request.scheduler in model.samplers
    return (
        has_sampler
        and (request.edit is None or model.can_edit)
        and (not request.negative_prompt or model.reads_negative_prompts)
        and request.steps <= model.max_steps
        and all(
            model.min_size <= size <= model.max_size and size % model.size_multiple == 0
            for size in sizes
        )
    )


def _query(job: Job, models: tuple[str, ...]) -> PlacementQuery:
    request = job.request
    return PlacementQuery(
        prompt=request.prompt,
        models=models,
        application=application_key(job.tenant, request.application),
        exact=request.quality is Quality.EXACT,
        steps=request.steps,
        rows=request.n,
    )


class SchedulerPlace:
    """Asks the scheduler service."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def __call__(self, query: PlacementQuery) -> Placement | None:
        """Place one job.

        Raises:
            SchedulerUnavailable: no answer, or none we can read.
        """
        body = msgspec.json.encode({"queries": [query]})
        try:
            response = await self._client.post("/route", content=body)
            response.raise_for_status()
            item = msgspec.json.decode(response.content)["placements"][0]
            return None if "error" in item else msgspec.convert(item, Placement)
        except (httpx.HTTPError, msgspec.MsgspecError, LookupError, TypeError) as error:
            raise SchedulerUnavailable(type(error).__name__) from error
