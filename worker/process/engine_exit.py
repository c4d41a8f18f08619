"""End a worker whose engine died, or hangs: its jobs go to others, and nobody counts on it."""

import os
from typing import NoReturn

import redis

from core.errors import Unavailable
from core.log import get_logger
from storage.boards import fleet
from worker.engine.aside import THREAD as DECODER
from worker.engine.engine import THREAD
from worker.engine.watchdog import Hang, frames_of
from worker.jobs.executor import JobExecutor

log = get_logger(__name__)

#: Exit statuses of a worker whose engine died, or hangs: start me again.
DEAD_ENGINE, HUNG_ENGINE = 70, 71


def exit_dead() -> NoReturn:
    """End this process, whose engine died."""
    os._exit(DEAD_ENGINE)


def exit_hung(executor: JobExecutor, client: redis.Redis, worker: str, hang: Hang) -> NoReturn:
    """Hand the jobs of a worker on, and end this process, whose engine hangs."""
    activity = hang.activity
    jobs = activity.jobs or tuple(executor.fences())  # those that wait for it
    log.critical(
        "engine_hangs",
        doing=activity.doing,
        model=activity.model.name,
        jobs=list(jobs),
        seconds=round(hang.seconds, 1),
        limit_s=round(hang.limit_s, 1),
        at=frames_of(THREAD, DECODER),
    )
    try:
        executor.hand_over.abandon(jobs)
        fleet.retire(client, worker)
    except Unavailable as error:  # leases run out, and reports grow old
        log.warning("jobs_not_handed_on", reason=str(error))
    finally:
        os._exit(HUNG_ENGINE)
