"""Deadlines: application, SLO and ETA of a job; refuse a job predicted to miss its deadline."""

import time
from dataclasses import replace

from api.intake.draft import second_pass_of
from api.intake.schemas import JobCreate
from api.services.services import Services
from core.application import DEFAULT, Application
from core.boards.fleet import QueueDepth
from core.errors import (
    FieldError,
    InvalidRequest,
    NotFound,
    StoreUnavailable,
    TooManyRequests,
)
from core.job import Job, JobRequest, JobStatus, Priority
from core.placement import shared_queue_of
from core.traits import Use, may
from scheduler.routing.model_ready import Foresight
from scheduler.routing.route import best_model
from scheduler.routing.slo import default_slo_s
from scheduler.routing.stations import Station, Work, work_of
from storage.jobs.submit import NewJob

#: Nobody is refused for so short a wait: a second is the least that `Retry-After` can say, and jobs
#: sent within the last one count as waiting, whether they are or not.
LEAST_WAIT_S = 1.0


async def application_of(services: Services, tenant: str, name: str | None) -> Application | None:
    """Find the application that a job names; None: it names none, or the default one.

    Raises:
        InvalidRequest: the tenant has none of this name.
    """
    if name in (None, DEFAULT):
        return None
    try:
        return await services.applications.get(tenant, name or "")
    except NotFound as error:
        raise InvalidRequest([FieldError("application", str(error))]) from error


def slo_of(services: Services, application: Application | None, create: JobCreate) -> float:
    """Say by when a job is promised: its application's SLO, else by what the best model takes.

    Units: seconds from acceptance
    """
    if application is not None and application.slo_s is not None:
        return application.slo_s
    plan = services.follower.plan
    names = [name for name in services.models if not application or name in application.models]
    if plan is None or not plan.costs or not names:
        return services.settings.slo_s
    base = services.models[best_model(names, services.models)]
    steps = base.default_steps if create.steps is None else create.steps
    if (second := second_pass_of(create)) is not None:
        steps = round(steps * (1 + second.share(steps)))
    return default_slo_s(base, plan.costs, Work(steps=steps, images=create.n))


def max_wait_s_of(
    services: Services, request: JobRequest, deadline_s: float | None
) -> float | None:
    """Say how long a job may take with what is before it; None: any time.

    A deadline is its own limit, and where nobody waits the length of the queue is.
    """
    if deadline_s is not None or request.slo_s is None or request.priority is Priority.BATCH:
        return None
    return max(LEAST_WAIT_S, services.settings.max_wait_slos * request.slo_s)


async def check_deadline(services: Services, new: NewJob) -> None:
    """Refuse a job that would miss its deadline. Nobody is refused on a guess.

    Raises:
        TooManyRequests: it would; after so long it would not, if nobody else came.
    """
    deadline_s, placement = new.deadline_s, new.placement
    if deadline_s is None or not may(Use.PREDICT, new.request):
        return
    station = _station(services, placement.queue)
    if station is None or not station.is_known:
        return
    work = work_of(new.request, placement.approximation)
    jobs = await services.jobs.ahead(placement.queue, new.priority, new.tenant)
    ahead = jobs * station.job_images
    if station.can_meet(work, ahead, deadline_s):
        return
    eta_s = station.eta_s(work, ahead)
    missed = f"it is expected in {eta_s:.3g} s, too late for its deadline of {deadline_s:.3g} s"
    retry_s = station.retry_s(work, ahead, deadline_s)
    if retry_s is not None:
        raise TooManyRequests(missed, retry_s, "deadline")
    advice = "even an idle worker is slower: ask for fewer steps or images, or for more time"
    raise TooManyRequests(f"{missed}; {advice}", services.settings.plan_period_s, "deadline")


async def position_of(services: Services, job: Job) -> int | None:
    """Count who is served first; an accepted job stays accepted if the store goes away now."""
    if job.status is not JobStatus.QUEUED:
        return None
    try:
        return await services.jobs.queue_position(job)
    except StoreUnavailable:
        return None


def eta_of(services: Services, job: Job, position: int | None) -> float | None:
    """Predict how many seconds are left until a job is done; None: no worker can hold its model."""
    station = _station(services, job.placement.queue)
    if station is None:
        return None
    work = work_of(job.request, job.placement.approximation, job.progress.step)
    if job.status is JobStatus.RUNNING:
        return round(station.rest_s(work), 3)
    return round(station.eta_s(work, (position or 0) * station.job_images), 3)


def note_waiting(services: Services, queue: str) -> None:
    """Count a job on its queue before the next look says so."""
    name = shared_queue_of(queue)
    for at, depth in enumerate(services.depths):
        if depth.queue == name:
            services.depths[at] = replace(depth, waiting=depth.waiting + 1)
            return
    services.depths.append(QueueDepth(queue=name, waiting=1, oldest_s=0.0))


def _station(services: Services, queue: str) -> Station | None:
    """Find who serves a queue, or who will."""
    plan = services.follower.plan
    station = services.stations.of(queue, plan)
    if station is not None or plan is None:
        return station
    foresight = Foresight(
        models=services.models,
        fleet=services.fleet,
        plan=plan,
        depths=services.depths,
        now=time.time(),
    )
    return services.stations.coming(queue, foresight)
