"""Clients of what the api reaches beyond its own process: the store, objects, the scheduler."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import httpx
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from redis.asyncio import Redis

from api.intake.controlnets import ReadEncoder
from api.intake.decode_images import Pictures
from api.intake.decoders import Decoders
from api.intake.fetch import fetch
from api.intake.loras import ReadShapes
from api.intake.sources import Fetch
from api.services.placement import SchedulerClient
from catalog.controlnet.manifest import read_encoder
from catalog.lora.layers import read_shapes
from core.boards.fleet import FleetChange, Worker
from core.boards.plan import Plan
from core.boards.sample import ServiceSample
from core.log import get_logger
from core.settings import Settings
from core.uploads.controlnet import KeptControlNet
from core.uploads.embedding import KeptEmbedding
from core.uploads.lora import KeptLora
from core.uploads.upload import Upload
from storage.archive.open import open_archive
from storage.boards.fleet import PlanBoard, is_led, read_fleet
from storage.boards.fleet_changes import FleetReader
from storage.boards.history import HistoryBoard
from storage.jobs.events import EventHub, Events
from storage.jobs.jobs import Jobs, JobStore
from storage.jobs.outbox import Deliveries, Outbox
from storage.jobs.sweeps import oldest_ended_s
from storage.objects.store import ObjectStore, open_objects
from storage.redis.connect import ask, connect
from storage.redis.durability import DurabilityFaults, read_durability
from storage.redis.keys import TENANT_KEYS
from storage.redis.stats import read_stats
from storage.redis.strict import confirming
from storage.tenants.applications import Applications, ApplicationStore
from storage.tenants.audit import AuditStream, AuditTrail
from storage.tenants.key import TenantKey
from storage.tenants.table import TableStore, VersionedTable
from storage.tenants.tenant import Tenant, tenant_table
from storage.tenants.uploads import Uploads, UploadStore
from storage.tenants.usage import TenantUsage, UsageStore
from tasks.jobs.lookups import Lookups
from tasks.jobs.safe_connect import dial

#: Seconds another process has to say its metrics: one that loads a model may be slow to answer.
METRICS_S = 2.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boards:
    """What the rest of the service publishes in the store; each raises StoreUnavailable."""

    plan: Callable[[], Awaitable[Plan | None]]
    fleet: Callable[[], Awaitable[list[Worker]]]  #: workers that reported lately
    changes: Callable[[], Awaitable[FleetChange]]  #: of them, since this was asked last
    stats: Callable[[], Awaitable[Mapping[str, int]]]  #: counters since the store was made
    history: Callable[[], Awaitable[list[ServiceSample]]]  #: of the last hour, oldest first
    #: s for which the first job should have been archived; None: there is no archive
    archive_behind: Callable[[], Awaitable[float | None]]
    has_upkeep: Callable[[], Awaitable[bool]]  #: whether an upkeep leads
    ping: Callable[[], Awaitable[object]]  #: does the store answer
    durability: Callable[[], Coroutine[None, None, DurabilityFaults]]  #: what loses jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """One of each; in tests their fakes."""

    jobs: Jobs  #: reads, stores and cancels
    events: Events  #: what happens to jobs
    deliveries: Deliveries  #: webhooks on their way, and those given up
    objects: ObjectStore  #: signs and, in a directory, holds the images
    uploads: Uploads[Upload]  #: files and templates that tenants keep
    loras: Uploads[KeptLora]  #: that tenants keep
    embeddings: Uploads[KeptEmbedding]  #: that tenants keep
    controlnets: Uploads[KeptControlNet]  #: that tenants keep
    applications: Applications  #: that tenants have registered
    keys: VersionedTable[TenantKey]  #: that operators have made
    audit: AuditTrail  #: who did what, from where
    usage: TenantUsage  #: what tenants have used and keep
    tenants: VersionedTable[Tenant]  #: that they have said something of
    shapes: ReadShapes  #: layers of each model
    encoder: ReadEncoder  #: what ControlNets copy of each model
    fetch: Fetch  #: reads what a URL holds, for a tenant
    pictures: Pictures  #: checks images that clients send
    scheduler: SchedulerClient
    board: Boards
    #: Metrics of each process that is shown beside this one; in production none is
    process_metrics: Callable[[], Coroutine[None, None, list[list[Metric]]]]


@asynccontextmanager
async def open_clients(settings: Settings) -> AsyncIterator[Clients]:
    """Open a client of every dependency; none of them has to be up."""
    redis = connect(settings.redis_url)
    archive = open_archive(settings)
    hub = EventHub(redis, archive)
    decoders = Decoders(max_pixels=settings.max_pixels)
    scheduler = httpx.AsyncClient(
        base_url=settings.scheduler_url, timeout=settings.route_budget_s, trust_env=False
    )
    async with AsyncExitStack() as opened:
        opened.callback(archive.close)
        for close in (redis.aclose, scheduler.aclose, hub.close, decoders.close):
            opened.push_async_callback(close)
        yield Clients(
            jobs=JobStore(
                redis,
                max_queue=settings.max_queue,
                confirm=confirming(settings.durability, settings.redis_url),
                archive=archive,
            ),
            events=hub,
            deliveries=Outbox(redis),
            objects=open_objects(settings),
            uploads=UploadStore(redis, Upload, max_uploads=settings.max_uploads),
            loras=UploadStore(redis, KeptLora, max_uploads=settings.max_uploads),
            embeddings=UploadStore(redis, KeptEmbedding, max_uploads=settings.max_uploads),
            controlnets=UploadStore(redis, KeptControlNet, max_uploads=settings.max_uploads),
            applications=ApplicationStore(redis, max_applications=settings.max_applications),
            keys=TableStore(redis, TENANT_KEYS, TenantKey, lambda key: key.id),
            audit=AuditStream(redis),
            usage=UsageStore(redis),
            tenants=tenant_table(redis),
            shapes=lambda name: read_shapes(settings.models_dir / name),
            encoder=lambda name: read_encoder(settings.models_dir / name),
            fetch=_fetcher(settings),
            pictures=decoders,
            scheduler=SchedulerClient(scheduler),
            board=_boards(redis, settings),
            process_metrics=partial(read_processes, scheduler, settings.metrics_of),
        )


async def read_processes(http: httpx.AsyncClient, urls: Sequence[str]) -> list[list[Metric]]:
    """Ask processes for their metrics, all at once."""
    return await asyncio.gather(*(_metrics_at(http, url) for url in urls))


async def _metrics_at(http: httpx.AsyncClient, url: str) -> list[Metric]:
    """Read the metrics of one process; none if it does not say them in time."""
    try:
        async with asyncio.timeout(METRICS_S):
            answer = (await http.get(url, timeout=METRICS_S)).raise_for_status()
        return list(text_string_to_metric_families(answer.text))
    except (httpx.HTTPError, TimeoutError, ValueError) as error:
        log.warning("metrics_without_process", url=url, error=type(error).__name__)
        return []


def _boards(redis: Redis, settings: Settings) -> Boards:
    return Boards(
        plan=PlanBoard(redis).read,
        fleet=lambda: read_fleet(redis, stale_s=settings.worker_stale_s),
        changes=FleetReader(redis, stale_s=settings.worker_stale_s).look,
        stats=lambda: read_stats(redis),
        history=HistoryBoard(redis).list,
        archive_behind=lambda: _archive_behind(redis, settings),
        has_upkeep=lambda: is_led(redis, "upkeep"),
        ping=lambda: ask(redis, "PING"),
        durability=lambda: read_durability(redis),
    )


async def _archive_behind(redis: Redis, settings: Settings) -> float | None:
    if not settings.archive_url.get_secret_value():
        return None
    return max(0.0, await oldest_ended_s(redis) - settings.archive_after_s)


def _fetcher(settings: Settings) -> Fetch:
    """Fetch images as the settings allow; one at a URL may be as large as one in a body."""
    lookups = Lookups()

    async def fetch_for(tenant: str, url: str) -> bytes:
        return await fetch(
            url,
            max_bytes=settings.max_body_bytes,
            timeout_s=settings.fetch_timeout_s,
            allow_private=settings.fetch_allow_private,
            dial=partial(dial, resolve=partial(lookups.resolve, tenant)),
        )

    return fetch_for
