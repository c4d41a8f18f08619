"""Services that the routes use: opened at process start, closed in order at its end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from prometheus_client.metrics_core import Metric

from api.intake.controlnets import ControlNetIntake
from api.intake.decode_images import Pictures
from api.intake.draft import Rules
from api.intake.images import ImageIntake, TenantTurns
from api.intake.loras import LoraIntake
from api.intake.sources import Sources
from api.intake.tokenizers import TokenCounter
from api.intake.words.embeddings import EmbeddingIntake
from api.services.auth import Keyring, keyring_of
from api.services.clients import Boards, Clients, open_clients
from api.services.placement import LimitedTenants, Placements, PlanFollower
from api.services.probe import SharedProbe
from api.services.served_models import FollowingTokens, ServedModels
from api.services.tenants.stored_keys import StoredKeys
from api.services.tenants.stored_tenants import StoredTenants
from catalog.catalogue import Catalogue
from catalog.controlnets import read_controlnets
from catalog.ip_adapters import read_ip_adapters
from core.boards.fleet import QueueDepth, Worker
from core.bodies.incoming import HeldBytes
from core.errors import Unavailable
from core.log import get_logger, log_errors
from core.model import Model
from core.placement import queue_of
from core.settings import Settings
from core.uploads.controlnet import ControlNet
from core.uploads.upload import Upload
from scheduler.routing.stations import Stations
from storage.jobs.events import Events
from storage.jobs.jobs import Jobs
from storage.jobs.outbox import Deliveries
from storage.objects.store import ObjectStore, try_writing
from storage.redis.connect import end
from storage.redis.durability import DurabilityFaults
from storage.tenants.applications import Applications
from storage.tenants.audit import AuditTrail
from storage.tenants.uploads import Uploads
from storage.tenants.usage import TenantUsage
from tasks.submit import Submitter

#: Seconds between two looks at the plan and the fleet.
REFRESH_S = 1.0
#: Bytes of images in answers that are held at a time, and those that one answer counts for at most.
MAX_ANSWER_BYTES = 256 * 2**20
LARGEST_ANSWER_BYTES = 128 * 2**20

log = get_logger(__name__)


#: Signs one object's URL: key -> URL and the epoch second it stops working.
Sign = Callable[[str], tuple[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicUrls:
    """Where clients find this service and what it keeps."""

    public_url: str  #: what clients call this service, no slash at the end
    sign: Sign  #: blocks for as long as the object store's client does

    def of_job(self, job_id: str) -> str:
        """Give the URL under which clients read a job."""
        return f"{self.public_url}/v1/jobs/{job_id}"


@dataclass(slots=True, kw_only=True)
class Services:
    """What routes use. One per process."""

    settings: Settings  #: of this process
    keyring: Keyring  #: whose request is it
    keys: StoredKeys  #: that operators have made
    audit: AuditTrail  #: who did what, from where
    usage: TenantUsage  #: what tenants have used and keep
    tenants: StoredTenants  #: what is in force for them
    models: Mapping[str, Model]  #: served, by name
    rules: Rules  #: what a request must keep to
    jobs: Jobs  #: reads and cancels
    submitter: Submitter  #: stores and queues, many jobs a trip
    events: Events  #: what happens to jobs
    deliveries: Deliveries  #: webhooks on their way, and those given up
    objects: ObjectStore  #: signs and, in a directory, holds the images
    uploads: Uploads[Upload]  #: files and templates that tenants keep
    applications: Applications  #: that tenants have registered
    pictures: Pictures  #: checks images that clients send
    turns: TenantTurns  #: of tenants with pictures
    answers: HeldBytes  #: images in answers that are being sent, by tenant
    images: ImageIntake  #: reads and stores what edits and ControlNets work on
    loras: LoraIntake  #: reads LoRAs, and those that jobs name
    embeddings: EmbeddingIntake  #: reads embeddings, and those that jobs name
    controlnets: ControlNetIntake  #: reads ControlNets, and the kept ones that jobs name
    urls: PublicUrls  #: where clients find what is here
    placements: Placements  #: where a job goes
    limited: LimitedTenants  #: whose jobs were refused for a limit of theirs
    follower: PlanFollower  #: the last published plan
    scheduler_ready: Callable[[], Awaitable[None]]  #: raises SchedulerUnavailable
    board: Boards
    process_metrics: SharedProbe[list[list[Metric]]]  #: of those that are shown beside this one
    durability: SharedProbe[DurabilityFaults]  #: does the store keep what it accepts
    writing: SharedProbe[None]  #: can objects be written; raises ObjectsUnavailable
    stations: Stations  #: of the fleet as last read, for estimates
    depths: list[QueueDepth] = field(default_factory=list)  #: likewise, of its queues
    served: ServedModels | None = None  #: adds and removes models; None: they stay as they are
    stopping: asyncio.Event = field(default_factory=asyncio.Event)  #: answer who waits, now
    parsing: asyncio.Lock = field(default_factory=asyncio.Lock)  #: large bodies, one by one
    recording: asyncio.Lock = field(default_factory=asyncio.Lock)  #: templates, one by one

    def stop(self) -> None:
        """Answer everybody who waits: this process stops."""
        self.stopping.set()
        self.events.end()

    @property
    def fleet(self) -> Collection[Worker]:
        """The workers that reported, as last read."""
        return self.stations.workers.values()

    @property
    def queues(self) -> list[str]:
        """Every variant queue of the models served."""
        return [queue_of(name) for name in self.models]


OpenServices = Callable[[Settings], AbstractAsyncContextManager[Services]]


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Open the clients of every dependency; none of them has to be up.

    Raises:
        ConfigurationError: keys, models or tokenizers that cannot work.
    """
    models = Catalogue(settings.models_dir, settings.profile_path)
    tokens = FollowingTokens(settings.models_dir, models)
    controlnets = read_controlnets(settings.controlnets_dir)
    async with open_clients(settings) as clients:
        services = assemble(settings, models, tokens, controlnets, clients)
        services.served = ServedModels(catalogue=models, tokens=tokens)
        await services.keys.try_refresh()
        await services.tenants.try_refresh()
        tasks = [
            asyncio.create_task(_refresh(services)),
            asyncio.create_task(services.keys.follow()),
            asyncio.create_task(services.tenants.follow()),
        ]
        try:
            yield services
        finally:
            await end(tasks)


def assemble(
    settings: Settings,
    models: Mapping[str, Model],
    tokens: TokenCounter,
    controlnets: Mapping[str, ControlNet],
    clients: Clients,
) -> Services:
    """Put the services together from clients, or from their fakes in tests."""
    objects, pictures, board = clients.objects, clients.pictures, clients.board
    sources = Sources(uploads=clients.uploads, objects=objects, fetch=clients.fetch)
    follower = PlanFollower(board.plan, models)
    budget_s, keys = settings.route_budget_s, StoredKeys(clients.keys)
    tenants = StoredTenants(clients.tenants, settings)
    return Services(
        settings=settings,
        keyring=keyring_of(settings, keys),
        keys=keys,
        audit=clients.audit,
        usage=clients.usage,
        tenants=tenants,
        models=models,
        rules=_rules(settings, models, tokens, controlnets),
        jobs=clients.jobs,
        submitter=Submitter(clients.jobs),
        events=clients.events,
        deliveries=clients.deliveries,
        objects=objects,
        uploads=clients.uploads,
        applications=clients.applications,
        pictures=pictures,
        turns=TenantTurns(),
        answers=HeldBytes(MAX_ANSWER_BYTES, LARGEST_ANSWER_BYTES),
        images=ImageIntake(sources=sources, pictures=pictures, objects=objects),
        loras=LoraIntake(records=clients.loras, models=models, shapes=clients.shapes),
        embeddings=EmbeddingIntake(
            records=clients.embeddings, models=models, shapes=clients.shapes, tokens=tokens
        ),
        controlnets=ControlNetIntake(
            records=clients.controlnets, models=models, encoder=clients.encoder
        ),
        urls=_urls(settings, objects, tenants),
        placements=Placements(clients.scheduler.route, follower, budget_s=budget_s),
        limited=LimitedTenants(),
        follower=follower,
        stations=Stations(models),
        scheduler_ready=clients.scheduler.ready,
        board=board,
        process_metrics=SharedProbe(clients.process_metrics),
        durability=SharedProbe(board.durability),
        writing=SharedProbe(partial(asyncio.to_thread, try_writing, objects)),
    )


def _rules(
    settings: Settings,
    models: Mapping[str, Model],
    tokens: TokenCounter,
    controlnets: Mapping[str, ControlNet],
) -> Rules:
    return Rules(
        models=models,
        tokens=tokens,
        max_images=settings.max_images,
        max_prompt_chars=settings.max_prompt_chars,
        controlnets=controlnets,
        max_controls=settings.max_controls,
        ip_adapters=read_ip_adapters(settings.ip_adapters_dir),
        cell=settings.cell,
    )


def _urls(settings: Settings, objects: ObjectStore, tenants: StoredTenants) -> PublicUrls:

    def sign(key: str) -> tuple[str, float]:
        return objects.url(key, settings.url_ttl_s, tenants.terms_of_key(key).url_epoch)

    return PublicUrls(public_url=settings.public_url.rstrip("/"), sign=sign)


async def _refresh(services: Services, period_s: float = REFRESH_S) -> None:
    """Keep plan, fleet and models at hand, so that no request waits for them."""
    while True:
        with log_errors(log, "plan_and_fleet_not_followed"):
            await _read_plan_and_fleet(services)
        with log_errors(log, "models_not_followed"):
            if services.served is not None:
                await services.served.follow()
        await asyncio.sleep(period_s)


async def _read_plan_and_fleet(services: Services) -> None:
    try:
        await services.follower.refresh()
        services.stations.hear(await services.board.changes())
        services.depths = await services.jobs.depths(services.queues)
    except Unavailable as error:
        log.warning("plan_and_fleet_not_read", dependency=error.dependency)
