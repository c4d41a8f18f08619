"""Upkeep's chores, by the matter that somebody leads in: what is done, and what it asks."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import httpx
from redis.asyncio import Redis

from api.services.placement import SchedulerClient
from catalog.catalogue import Catalogue
from core.boards.fleet import QueueDepth
from core.placement import CPU_QUEUE, queue_of, shared_queue_of
from core.settings import Settings
from core.uploads.controlnet import CONTROLNETS, KeptControlNet
from core.uploads.embedding import EMBEDDINGS, KeptEmbedding
from core.uploads.lora import LORAS, KeptLora
from storage.archive.archive import Archive
from storage.boards.classifiers import ClassifierBoard
from storage.boards.fleet import PlanBoard, read_fleet
from storage.boards.history import HistoryBoard
from storage.boards.scores import ScoreStream
from storage.jobs.jobs import JobStore
from storage.jobs.outbox import Outbox
from storage.jobs.queues import depths
from storage.jobs.submit import ExpectedJobs
from storage.jobs.sweeps import Sweeper, UnfinishedJobs
from storage.objects.image_states import PREFIX, job_of
from storage.objects.store import open_objects
from storage.redis.connect import ask, connect_sync
from storage.redis.keys import QUEUES, list_of
from storage.redis.stats import read_stats
from storage.tenants.applications import ApplicationStore
from storage.tenants.tenant import tenant_table
from storage.tenants.uploads import UploadStore
from tasks.bells import Bells
from tasks.messages import LAST_PRIORITY
from tasks.send import send_retraining, send_scoring, send_webhook
from tasks.upkeep.chores import Chore
from tasks.upkeep.history import HistoryRecorder, SampleSources
from tasks.upkeep.old_latents import OldLatents
from tasks.upkeep.orphaned_files import OrphanedFiles, Records
from tasks.upkeep.orphaned_inputs import OrphanedInputs
from tasks.upkeep.recovery import REBUILD_S, Recovery
from tasks.upkeep.relay import MissingBells
from tasks.upkeep.reroute import Rerouter
from tasks.upkeep.retention import Retention, trim
from tasks.upkeep.score_sampling import Sampling
from tasks.upkeep.webhook_posting import WebhookPosting

#: Where images of jobs stand that have ended is looked for so often, and deleted the second time:
#: their workers delete it themselves, unless they are lost just then.
STATES_S = 300.0


def chores_by_matter(
    settings: Settings,
    redis: Redis,
    scheduler: httpx.AsyncClient,
    bells: Bells | None,
    archive: Archive,
) -> dict[str, list[Chore]]:
    """Give all chores, by the matter that somebody leads in.

    Those of one matter are done one after another, and wait for the same service: whatever hangs,
    jobs of lost workers come back.
    """
    sweeper = Sweeper(redis, max_attempts=settings.max_attempts, archive=archive)
    recovery = Recovery(sweeper)
    chores = {
        # the store alone
        "upkeep": [*job_chores(sweeper, recovery), history_chore(settings, redis, sweeper)],
        # the broker
        "messages": [
            *message_chores(settings, redis, recovery, bells),
            *score_chores(settings, redis, sweeper, bells),
        ],
        # the scheduler
        "reroute": [reroute_chore(settings, redis, sweeper, scheduler)],
        # the object store
        "files": file_chores(settings, redis),
        # the object store, and the database
        "retention": [
            retention_chore(settings, redis, sweeper),
            inputs_chore(settings, redis, archive),
        ],
        # the database
        "archive": [*moving(settings)],
    }
    return {matter: each for matter, each in chores.items() if each}


def job_chores(sweeper: Sweeper, recovery: Recovery) -> list[Chore]:
    """Keep every job on its way."""
    return [
        Chore(name="reap", every_s=1.0, run=recovery.reap),
        Chore(name="rebuild", every_s=REBUILD_S, run=recovery.rebuild),
        Chore(name="expire", every_s=0.5, run=sweeper.expire),
    ]


def message_chores(
    settings: Settings, redis: Redis, recovery: Recovery, bells: Bells | None
) -> list[Chore]:
    """Send what the workers are to hear of: webhooks, and jobs whose message was lost."""
    posting = WebhookPosting(
        Outbox(redis), send=send_webhook, waiting=tasks_waiting(redis, bells, CPU_QUEUE)
    )
    return [
        Chore(name="post", every_s=0.2, run=posting.run),
        Chore(name="republish", every_s=1.0, run=republishing(settings, recovery, bells)),
    ]


def reroute_chore(
    settings: Settings, redis: Redis, sweeper: Sweeper, scheduler: httpx.AsyncClient
) -> Chore:
    """Find another place for jobs that nobody serves."""
    catalogue = Catalogue(settings.models_dir, settings.profile_path)
    rerouter = Rerouter(
        sweeper=sweeper,
        jobs=JobStore(redis, max_queue=0),
        route=SchedulerClient(scheduler).route,
        models=catalogue,
        applications=ApplicationStore(redis, max_applications=settings.max_applications),
    )

    async def reroute() -> None:
        await asyncio.to_thread(catalogue.refresh)
        await rerouter.run(await served(redis, settings))

    return Chore(name="reroute", every_s=1.0, run=reroute)


def republishing(
    settings: Settings, recovery: Recovery, bells: Bells | None
) -> Callable[[], Awaitable[None]]:
    """Say how what waits without a message is rung for again."""
    if bells is None:
        return recovery.republish
    missing = MissingBells(connect_sync(settings.redis_url), bells)

    async def ring() -> None:
        await recovery.forget_queues()
        await asyncio.to_thread(missing.run)

    return ring


def tasks_waiting(redis: Redis, bells: Bells | None, key: str) -> Callable[[], Awaitable[int]]:
    """Say how ordinary tasks are counted that no CPU worker has taken, on one list of the store."""
    if bells is None:
        return partial(ask, redis, "LLEN", key)
    return partial(asyncio.to_thread, bells.waiting, CPU_QUEUE)


def score_chores(
    settings: Settings, redis: Redis, sweeper: Sweeper, bells: Bells | None
) -> list[Chore]:
    """Have images scored, and the classifier trained again when it is wanted."""
    sampling = Sampling(
        settings.score_share,
        find=sweeper.find_finished,
        waiting=tasks_waiting(redis, bells, list_of(CPU_QUEUE, LAST_PRIORITY)),
        send=send_scoring,
    )
    scores, board = ScoreStream(redis), ClassifierBoard(redis)

    async def retrain() -> None:
        """Ring while a new classifier is wanted: the last message may not have been heard."""
        if await board.wanted() is not None:
            await asyncio.to_thread(send_retraining)

    return [
        Chore(name="score", every_s=1.0, run=sampling.run),
        Chore(name="retrain", every_s=15.0, run=retrain),
        Chore(name="forget", every_s=30.0, run=lambda: scores.forget(settings.retention_s)),
    ]


def history_chore(settings: Settings, redis: Redis, sweeper: Sweeper) -> Chore:
    """Note how the service does, for operators."""

    async def waiting() -> list[QueueDepth]:
        known = {shared_queue_of(name.decode()) for name in await ask(redis, "SMEMBERS", QUEUES)}
        return await depths(redis, sorted(known))

    sources = SampleSources(
        now=sweeper.now,
        stats=partial(read_stats, redis),
        fleet=partial(read_fleet, redis, settings.worker_stale_s),
        depths=waiting,
        plan=PlanBoard(redis).read,
        latencies=sweeper.find_latencies,
    )
    recorder = HistoryRecorder(HistoryBoard(redis), ScoreStream(redis), sources)
    return Chore(name="history", every_s=1.0, run=recorder.run)


def retention_chore(settings: Settings, redis: Redis, sweeper: Sweeper) -> Chore:
    """Delete what is old, wherever it is."""
    retention, tenants = Retention(sweeper, open_objects(settings)), tenant_table(redis)

    async def retain() -> None:
        """Delete what is old to everybody, then what is to its tenant."""
        await retention.retain(settings.retention_s)
        rows = (await tenants.read()).rows
        await retention.retain_own({t.name: t.retention_s for t in rows if t.retention_s})

    return Chore(name="retain", every_s=5.0, run=retain)


def inputs_chore(settings: Settings, redis: Redis, archive: Archive) -> Chore:
    """Delete pictures whose jobs never came."""
    inputs = OrphanedInputs(ExpectedJobs(redis, archive), open_objects(settings))
    return Chore(name="inputs", every_s=60.0, run=inputs.sweep)


def moving(settings: Settings) -> Iterator[Chore]:
    """Move jobs to the archive, if there is one."""
    url = settings.archive_url.get_secret_value()
    if url:
        from storage.archive.connect import open_engine
        from storage.archive.mover import Mover

        redis, engine = connect_sync(settings.redis_url), open_engine(url)
        mover = Mover(redis, engine, after_s=settings.archive_after_s)
        yield Chore(name="archive", every_s=1.0, run=partial(asyncio.to_thread, mover.run))


def file_chores(settings: Settings, redis: Redis) -> list[Chore]:
    """Delete what belongs to nobody, and what is more than was allowed."""
    objects = open_objects(settings)
    shared_bytes = int(settings.activations_store_gib * 2**30)
    latents = OldLatents(objects=objects, ttl_s=min(settings.latents_ttl_s, settings.retention_s))
    most = settings.max_uploads
    kept: dict[str, Records] = {
        LORAS: UploadStore(redis, KeptLora, max_uploads=most),
        CONTROLNETS: UploadStore(redis, KeptControlNet, max_uploads=most),
        EMBEDDINGS: UploadStore(redis, KeptEmbedding, max_uploads=most),
    }
    sweeps = {
        folder: OrphanedFiles(
            folder=folder, objects=objects, records=records, grace_s=settings.retention_s
        ).sweep
        for folder, records in kept.items()
    }
    image_states = OrphanedFiles(
        folder=PREFIX,
        objects=objects,
        records=UnfinishedJobs(redis),
        grace_s=STATES_S,
        id_of=job_of,
    )
    return [
        *(Chore(name=folder, every_s=600.0, run=sweep) for folder, sweep in sweeps.items()),
        Chore(name="image_states", every_s=STATES_S, run=image_states.sweep),
        Chore(name="latents", every_s=600.0, run=latents.sweep),
        Chore(name="trim", every_s=60.0, run=partial(trim, objects, shared_bytes)),
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
