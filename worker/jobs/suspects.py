"""Make suspects alone: jobs over which a worker was lost."""

from collections.abc import Collection

from core.errors import StoreUnavailable
from core.log import get_logger
from storage.jobs.leases import Leases
from worker.jobs.claimed import ClaimedJob

log = get_logger(__name__)


def may_begin(held: ClaimedJob, begun: Collection[ClaimedJob]) -> bool:
    """Tell whether the first job that waits may begin beside those that have begun; pure.

    A suspect waits until what began before it is made, and what comes after it waits until it has
    ended: neither can wait for ever. All others are made side by side.
    """
    if any(each.claim.job.is_suspect for each in begun):
        return False
    return not held.claim.job.is_suspect or all(each.is_made for each in begun)


def isolate(leases: Leases, held: ClaimedJob) -> bool:
    """Say in the record that a suspect is alone here, before anything is done for it.

    Returns whether the job is still ours.
    """
    job = held.claim.job
    try:
        is_ours = leases.isolate(job.id, held.claim.fence)
    except StoreUnavailable as error:  # its lease brings it back
        log.warning("suspect_not_begun", job=job.id, reason=str(error))
        return False
    log.info("suspect_begun", job=job.id, is_ours=is_ours)
    return is_ours
