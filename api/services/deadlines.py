"""Refuse a job that would miss its deadline; foresee who will serve a queue that nobody serves."""

import time

from api.services.services import Services
from core.errors import TooManyRequests
from core.traits import Use, may
from scheduler.routing.model_ready import Foresight
from scheduler.routing.stations import Station, work_of
from storage.jobs.submit import NewJob


async def check_deadline(services: Services, new: NewJob, deadline_s: float) -> None:
    """Refuse a job that would miss its deadline. Nobody is refused on a guess.

    Raises:
        TooManyRequests: it would; after so long it would not, if nobody else came.
    """
    placement = new.placement
    if not may(Use.PREDICT, new.request):
        return
    station = services.stations.of(placement.queue, services.follower.plan)
    station = station or coming_station(services, placement.queue)
    if station is None or not station.is_known:
        return
    work = work_of(new.request, placement.approximation)
    jobs = await services.jobs.ahead(placement.queue, new.priority, new.tenant)
    ahead = jobs * station.job_images
    if station.can_meet(work, ahead, deadline_s):
        return
    eta_s = station.eta_s(work, ahead)
    later = "" if eta_s > deadline_s else ", and later if others come"
    missed = (
        f"it is expected in {eta_s:.3g} s{later}, too late for its deadline of {deadline_s:.3g} s"
    )
    retry_s = station.retry_s(work, ahead, deadline_s)
    if retry_s is not None:
        raise TooManyRequests(missed, retry_s, "deadline")
    advice = "even an idle worker is slower: ask for fewer steps or images, or for more time"
    raise TooManyRequests(f"{missed}; {advice}", services.settings.plan_period_s, "deadline")


def coming_station(services: Services, queue: str) -> Station | None:
    """Find who will serve a queue by the plan."""
    plan = services.follower.plan
    if plan is None:
        return None
    foresight = Foresight(
        models=services.models,
        fleet=services.fleet,
        plan=plan,
        depths=services.depths,
        now=time.time(),
    )
    return services.stations.coming(queue, foresight)
