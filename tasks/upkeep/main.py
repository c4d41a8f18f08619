"""`python -m tasks.upkeep.main`: periodic recovery and cleanup. One leader, by lease.

Requeues jobs that lost their worker, republishes lost messages, expires late jobs, reroutes jobs
that no worker serves, delivers webhooks, has a sample of finished images scored, deletes old jobs
and their images.
"""

import asyncio
import math
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import httpx
from redis.asyncio import Redis

from catalog.models import read_models
from core.errors import Unavailable
from core.log import configure, get_logger
from core.placement import queue_of
from core.settings import Settings, get_settings
from core.uploads.controlnet import CONTROLNETS, KeptControlNet
from core.uploads.lora import LORAS, Lora
from storage.boards.classifiers import ClassifierBoard
from storage.boards.fleet import Leadership, Leads, PlanBoard, read_fleet
from storage.boards.scores import ScoreStream
from storage.jobs.jobs import JobStore
from storage.jobs.outbox import Deliveries, Delivery, Outbox
from storage.jobs.sweeps import ROUNDS, Sweeper, Upkeep
from storage.objects import recordings
from storage.objects.store import ObjectStore, open_objects
from storage.redis.connect import ask, connect
from storage.redis.keys import list_of
from storage.tenants.applications import ApplicationStore
from storage.tenants.uploads import UploadStore
from tasks.messages import CPU_QUEUE, LAST_PRIORITY
from tasks.send import send_retraining, send_scoring, send_webhook
from tasks.upkeep.old_latents import OldLatents
from tasks.upkeep.orphaned_files import KeptFiles
from tasks.upkeep.reroute import Rerouter, SchedulerPlace
from tasks.upkeep.score_sampling import Sampling

log = get_logger(__name__)

TICK_S = 0.2
LEAD_S = 10.0  #: a leader silent for so long is replaced
STALE_S = 2.0  #: a queued job without a message for so long is published again

#: A reaper who has not looked for so long may have missed an outage, in which no lease was renewed.
GAP_S = 5.0
#: So long the workers may then beat before their jobs are taken.
GRACE_S = 3.0
#: Every record is compared with its indexes once in so long, a share of them at a time.
PASS_S = 40.0
REBUILD_S = 0.5
#: Deliveries that may wait for a CPU worker: they come back every minute while nobody takes them.
MAX_POSTING = 1000

#: Puts one delivery on the queue of the CPU workers.
Send = Callable[[Delivery], None]


@dataclass(slots=True, kw_only=True)
class Chore:
    """Something the leader does again and again."""

    name: str
    every_s: float
    run: Callable[[], Awaitable[object]]
    due_at: float = 0.0  #: monotonic s


class Housekeeper:
    """Does the chores while it leads."""

    def __init__(self, leadership: Leads, chores: Sequence[Chore]) -> None:
        self._leadership = leadership
        self._chores = chores
        self._is_stopped = asyncio.Event()

    def stop(self) -> None:
        self._is_stopped.set()

    async def run(self) -> None:
        """Lead if nobody does, and work while leading, until `stop`."""
        while not self._is_stopped.is_set():
            try:
                await self.turn(time.monotonic())
            except Unavailable as error:
                log.warning("not_leading", reason=str(error))
            try:
                await asyncio.wait_for(self._is_stopped.wait(), TICK_S)
            except TimeoutError:
                continue
        await self._resign()

    async def turn(self, now: float) -> None:
        """Do what is due, if we lead."""
        if await self._leadership.acquire() is None:
            return
        for chore in self._chores:
            if now >= chore.due_at:
                chore.due_at = now + chore.every_s
                await _do(chore)

    async def _resign(self) -> None:
        try:
            await self._leadership.release()
        except Unavailable as error:
            log.warning("not_resigned", reason=str(error))


async def _do(chore: Chore) -> None:
    """One chore that fails does not keep the others from being done."""
    try:
        await chore.run()
    except Unavailable as error:
        log.warning("chore_put_off", chore=chore.name, reason=str(error))
    except Exception:
        log.exception("chore_failed", chore=chore.name)


class Keeper:
    """The chores themselves."""

    def __init__(
        self,
        *,
        sweeper: Upkeep,
        outbox: Deliveries,
        objects: ObjectStore,
        send: Send,
        posting: Callable[[], Awaitable[int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sweeper = sweeper
        self._outbox = outbox
        self._objects = objects
        self._send = send
        self._posting = posting  #: counts the deliveries that wait for a CPU worker
        self._clock = clock
        self._looked_at = -math.inf  #: when `reap` was last called
        self._reap_from = -math.inf  #: until then workers may still show that they live

    async def reap(self) -> None:
        """Put jobs back whose worker is silent, or bury them; not at once after an outage."""
        now = self._clock()
        if now - self._looked_at > GAP_S:
            self._reap_from = now + GRACE_S
        self._looked_at = now
        if now < self._reap_from:
            return
        reaped = await self._sweeper.reap()
        if reaped.back or reaped.ended:
            log.warning("reaped", back=len(reaped.back), ended=len(reaped.ended))

    async def republish(self) -> None:
        """Ring again for jobs whose message was lost."""
        back = await self._sweeper.republish(STALE_S)
        if back:
            log.warning("republished", jobs=len(back))

    async def rebuild(self) -> None:
        """Enter into the indexes what records say, all records within `PASS_S`."""
        missing = await self._sweeper.rebuild(REBUILD_S / PASS_S)
        if missing:
            log.warning("indexes_rebuilt", entries=missing)

    async def post(self) -> None:
        """Hand what is due to the CPU workers; what they do not settle comes back."""
        if await self._posting() >= MAX_POSTING:
            return
        for delivery in await self._outbox.due():
            await asyncio.to_thread(self._send, delivery)

    async def retain(self, retention_s: float) -> None:
        """Delete the images of old jobs, then forget these: what fails between is found again."""
        for _ in range(ROUNDS):
            old = await self._sweeper.find_old(retention_s)
            if not old:
                return
            await asyncio.to_thread(self._objects.delete, [k for job in old for k in job.keys])
            await self._sweeper.forget([job.id for job in old])

    async def trim(self, budget_bytes: int) -> None:
        """Keep no more of templates in the object store than was allowed."""
        gone = await asyncio.to_thread(recordings.trim, self._objects, budget_bytes)
        if gone:
            log.info("recordings_removed", count=gone)


async def serve(settings: Settings) -> None:
    """Keep house until SIGTERM or SIGINT."""
    redis = connect(settings.redis_url)
    async with httpx.AsyncClient(
        base_url=settings.scheduler_url, timeout=5.0, trust_env=False
    ) as scheduler:
        housekeeper = Housekeeper(
            Leadership(redis, "upkeep", f"{socket.gethostname()}:{os.getpid()}", LEAD_S),
            chores_of(settings, redis, scheduler),
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, housekeeper.stop)
        await housekeeper.run()
    await redis.aclose()


def chores_of(settings: Settings, redis: Redis, scheduler: httpx.AsyncClient) -> list[Chore]:
    """List what there is to do, and how often."""
    sweeper = Sweeper(redis, max_attempts=settings.max_attempts)
    keeper = Keeper(
        sweeper=sweeper,
        outbox=Outbox(redis),
        objects=open_objects(settings),
        send=send_webhook,
        posting=partial(ask, redis, "LLEN", CPU_QUEUE),
    )
    rescue = Rerouter(
        sweeper=sweeper,
        jobs=JobStore(redis, max_queue=0),
        place=SchedulerPlace(scheduler),
        models=read_models(settings.models_dir),
        applications=ApplicationStore(redis, max_applications=settings.max_applications),
    )

    sampling = Sampling(
        settings.score_share,
        find=sweeper.find_finished,
        waiting=partial(ask, redis, "LLEN", list_of(CPU_QUEUE, LAST_PRIORITY)),
        send=send_scoring,
    )
    scores, board = ScoreStream(redis), ClassifierBoard(redis)

    async def retrain() -> None:
        """Ring while a new classifier is wanted: the last message may not have been heard."""
        if await board.wanted() is not None:
            await asyncio.to_thread(send_retraining)

    lora_files = KeptFiles(
        folder=LORAS,
        objects=open_objects(settings),
        records=UploadStore(redis, Lora, max_uploads=settings.max_uploads),
        grace_s=settings.retention_s,
    )
    controlnet_files = KeptFiles(
        folder=CONTROLNETS,
        objects=open_objects(settings),
        records=UploadStore(redis, KeptControlNet, max_uploads=settings.max_uploads),
        grace_s=settings.retention_s,
    )
    latents = OldLatents(
        objects=open_objects(settings), ttl_s=min(settings.latents_ttl_s, settings.retention_s)
    )
    shared_bytes = int(settings.activations_store_gib * 2**30)

    async def rescue_all() -> None:
        await rescue.run(await served(redis, settings))

    return [
        Chore(name="post", every_s=0.2, run=keeper.post),
        Chore(name="reap", every_s=1.0, run=keeper.reap),
        Chore(name="republish", every_s=1.0, run=keeper.republish),
        Chore(name="rebuild", every_s=REBUILD_S, run=keeper.rebuild),
        Chore(name="expire", every_s=0.5, run=sweeper.expire),
        Chore(name="rescue", every_s=1.0, run=rescue_all),
        Chore(name="score", every_s=1.0, run=sampling.run),
        Chore(name="retrain", every_s=15.0, run=retrain),
        Chore(name="retain", every_s=30.0, run=lambda: keeper.retain(settings.retention_s)),
        Chore(name="forget", every_s=30.0, run=lambda: scores.forget(settings.retention_s)),
        Chore(name="lora_files", every_s=600.0, run=lora_files.sweep),
        Chore(name="controlnet_files", every_s=600.0, run=controlnet_files.sweep),
        Chore(name="latents", every_s=600.0, run=latents.sweep),
        Chore(name="trim", every_s=60.0, run=lambda: keeper.trim(shared_bytes)),
    ]


async def served(redis: Redis, settings: Settings) -> set[str]:
    """Name the queues somebody consumes, or is about to."""
    workers = await read_fleet(redis, settings.worker_stale_s)
    plan = await PlanBoard(redis).read()
    names = {worker.name for worker in workers}
    assigned = plan.assignments if plan is not None else {}
    return {queue for worker in workers for queue in worker.queues} | {
        queue_of(model) for worker, model in assigned.items() if worker in names
    }


def main() -> None:
    """Run upkeep with the settings of this process's environment."""
    settings = get_settings()
    configure(settings.log_level, is_json=settings.log_json)
    asyncio.run(serve(settings))


if __name__ == "__main__":
    main()
