"""Dependencies of the routes: opened at process start, closed in order at its end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import httpx
from starlette.requests import Request

from api.intake.conditions import ConditionIntake
from api.intake.controlnets import KeptControlNets, ReadEncoder
from api.intake.decode_images import Pictures
from api.intake.decoders import Decoders
from api.intake.edits import Edits
from api.intake.fetch import fetch
from api.intake.loras import LoraIntake, ReadShapes
from api.intake.prompts import ModelTokenizers, TokenCounter
from api.intake.sources import Fetch, Sources
from api.intake.turns import TenantTurns
from api.intake.validate import Rules
from api.services.auth import Keyring
from api.services.placement import Placements, PlanFollower, SchedulerClient
from api.services.probe import SharedProbe
from api.views.job_view import Views
from catalog.controlnet.manifest import read_encoder
from catalog.controlnets import read_controlnets
from catalog.lora.layers import read_shapes
from catalog.models import read_models, warn_of_undescribed
from core.boards.fleet import QueueDepth, Worker
from core.boards.plan import Plan
from core.errors import ConfigurationError, Unavailable
from core.log import get_logger
from core.placement import queue_of, shared_queue_of
from core.settings import Settings
from core.uploads.controlnet import ControlNet, KeptControlNet
from core.uploads.lora import KeptLora
from core.uploads.upload import Upload
from core.variant import Model
from scheduler.routing.eta import Stations
from storage.boards.fleet import PlanBoard, read_fleet
from storage.jobs.events import EventHub, Events
from storage.jobs.jobs import Jobs, JobStore
from storage.jobs.outbox import Deliveries, Outbox
from storage.objects.store import ObjectStore, open_objects, try_writing
from storage.redis.connect import ask, connect, end
from storage.redis.durability import Durability, read_durability
from storage.redis.stats import read_stats
from storage.tenants.applications import Applications, ApplicationStore
from storage.tenants.uploads import Uploads, UploadStore
from tasks.submit import Submitter

#: Seconds between two looks at the plan and the fleet.
REFRESH_S = 1.0
#: Seconds the store has to say how it is set, when the process starts.
STORE_BUDGET_S = 2.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boards:
    """What the rest of the service publishes in the store; each raises StoreUnavailable."""

    plan: Callable[[], Awaitable[Plan | None]]
    fleet: Callable[[], Awaitable[list[Worker]]]  #: workers that reported lately
    stats: Callable[[], Awaitable[Mapping[str, int]]]  #: counters since the store was made
    ping: Callable[[], Awaitable[object]]  #: does the store answer
    durability: Callable[[], Coroutine[None, None, Durability]]  #: does it keep what it accepts


@dataclass(slots=True, kw_only=True)
class Services:
    """What routes use. One per process."""

    settings: Settings  #: of this process
    keyring: Keyring  #: whose request is it
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
    adapters: LoraIntake  #: reads LoRAs, and those that jobs name
    kept_controlnets: KeptControlNets  #: reads ControlNets, and the kept ones that jobs name
    edits: Edits  #: reads and stores what edits work on
    conditions: ConditionIntake  #: reads and stores what ControlNets keep to
    views: Views  #: how a job is shown
    placements: Placements  #: where a job goes
    follower: PlanFollower  #: the last published plan
    scheduler_ready: Callable[[], Awaitable[None]]  #: raises SchedulerUnavailable
    board: Boards
    durability: SharedProbe[Durability]  #: does the store keep what it accepts
    writing: SharedProbe[None]  #: can objects be written; raises ObjectsUnavailable
    stations: Stations  #: of that fleet
    fleet: list[Worker] = field(default_factory=list)  #: as last read, for estimates
    depths: list[QueueDepth] = field(default_factory=list)  #: likewise, of its queues
    stopping: asyncio.Event = field(default_factory=asyncio.Event)  #: answer who waits, now
    parsing: asyncio.Lock = field(default_factory=asyncio.Lock)  #: large bodies, one by one
    recording: asyncio.Lock = field(default_factory=asyncio.Lock)  #: templates, one by one

    def note_waiting(self, queue: str) -> None:
        """Count a job on its queue before the next look says so."""
        name = shared_queue_of(queue)
        known = {depth.queue: depth for depth in self.depths}
        depth = known.get(name, QueueDepth(queue=name, waiting=0, oldest_s=0.0))
        self.depths = list({**known, name: replace(depth, waiting=depth.waiting + 1)}.values())

    @property
    def queues(self) -> list[str]:
        """Every variant queue of the models served."""
        return [queue_of(name) for name in self.models]


OpenServices = Callable[[Settings], AbstractAsyncContextManager[Services]]


def services_of(request: Request) -> Services:
    """Return the services of the process that answers `request`."""
    return cast(Services, request.app.state.services)


def check(settings: Settings) -> None:
    """Find what cannot work before anybody connects.

    Raises:
        ConfigurationError: keys, secrets, models or tokenizers; the message says which.
    """
    Keyring(settings.api_keys, public_url=settings.public_url)
    open_objects(settings)
    warn_of_undescribed(settings.models_dir)
    tokenizers_of(settings, read_models(settings.models_dir))
    read_controlnets(settings.controlnets_dir)


async def check_store(settings: Settings) -> None:
    """Look at the store's settings before a job is accepted; one that is away is not waited for.

    Raises:
        ConfigurationError: it would forget or evict jobs; the message says what to write where.
    """
    redis = connect(settings.redis_url)
    try:
        async with asyncio.timeout(STORE_BUDGET_S):
            durability = await read_durability(redis)
    except (Unavailable, TimeoutError):
        return
    finally:
        await redis.aclose()
    if durability.unknown:
        log.warning("store_settings_unknown", settings=durability.unknown)
    refuse(durability.faults)


def refuse(faults: Sequence[str]) -> None:
    """Refuse a store by what is wrong with its settings.

    Raises:
        ConfigurationError: something is.
    """
    if faults:
        raise ConfigurationError("the store would lose accepted jobs: " + "; ".join(faults))


def tokenizers_of(settings: Settings, models: Mapping[str, Model]) -> ModelTokenizers:
    """Read the tokenizers of the models served."""
    return ModelTokenizers(
        {
            name: [settings.models_dir / name / each for each in model.family_facts.tokenizers]
            for name, model in models.items()
        }
    )


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Open the clients of every dependency; none of them has to be up.

    Raises:
        ConfigurationError: keys, models or tokenizers that cannot work.
    """
    redis = connect(settings.redis_url)
    scheduler = httpx.AsyncClient(
        base_url=settings.scheduler_url, timeout=settings.route_budget_s, trust_env=False
    )
    hub = EventHub(redis)
    decoders = Decoders(max_pixels=settings.max_pixels)
    plans = PlanBoard(redis)

    models = read_models(settings.models_dir)
    board = Boards(
        plan=plans.read,
        fleet=lambda: read_fleet(redis, stale_s=settings.worker_stale_s),
        stats=lambda: read_stats(redis),
        ping=lambda: ask(redis, "PING"),
        durability=lambda: read_durability(redis),
    )
    follower = PlanFollower(board.plan, models)
    services = assemble(
        settings,
        models,
        tokenizers_of(settings, models),
        controlnets=read_controlnets(settings.controlnets_dir),
        jobs=JobStore(redis, max_queue=settings.max_queue),
        events=hub,
        deliveries=Outbox(redis),
        objects=open_objects(settings),
        uploads=UploadStore(redis, Upload, max_uploads=settings.max_uploads),
        loras=UploadStore(redis, KeptLora, max_uploads=settings.max_uploads),
        shapes=lambda name: read_shapes(settings.models_dir / name),
        kept_controlnets=UploadStore(redis, KeptControlNet, max_uploads=settings.max_uploads),
        encoder=lambda name: read_encoder(settings.models_dir / name),
        applications=ApplicationStore(redis, max_applications=settings.max_applications),
        fetch=fetcher(settings),
        scheduler=SchedulerClient(scheduler),
        follower=follower,
        board=board,
        pictures=decoders,
    )
    refreshing = asyncio.create_task(_refresh(services))
    try:
        yield services
    finally:
        await end([refreshing])
        await decoders.close()
        await hub.close()
        await scheduler.aclose()
        await redis.aclose()


def fetcher(settings: Settings) -> Fetch:
    """Fetch images as the settings allow; one at a URL may be as large as one in a body."""
    return partial(
        fetch,
        max_bytes=settings.max_body_bytes,
        timeout_s=settings.fetch_timeout_s,
        allow_private=settings.fetch_allow_private,
    )


def assemble(
    settings: Settings,
    models: Mapping[str, Model],
    tokens: TokenCounter,
    *,
    controlnets: Mapping[str, ControlNet],
    jobs: Jobs,
    events: Events,
    deliveries: Deliveries,
    objects: ObjectStore,
    uploads: Uploads[Upload],
    loras: Uploads[KeptLora],
    shapes: ReadShapes,
    kept_controlnets: Uploads[KeptControlNet],
    encoder: ReadEncoder,
    applications: Applications,
    fetch: Fetch,
    scheduler: SchedulerClient,
    follower: PlanFollower,
    board: Boards,
    pictures: Pictures,
) -> Services:
    """Put the services together from clients, or from their fakes in tests."""
    sources = Sources(uploads=uploads, objects=objects, fetch=fetch)
    return Services(
        settings=settings,
        keyring=Keyring(settings.api_keys, public_url=settings.public_url),
        models=models,
        rules=Rules(
            models=models,
            tokens=tokens,
            max_images=settings.max_images,
            max_prompt_chars=settings.max_prompt_chars,
            controlnets=controlnets,
            max_controls=settings.max_controls,
        ),
        jobs=jobs,
        submitter=Submitter(jobs),
        events=events,
        deliveries=deliveries,
        objects=objects,
        uploads=uploads,
        applications=applications,
        pictures=pictures,
        turns=TenantTurns(),
        adapters=LoraIntake(loras=loras, models=models, shapes=shapes),
        kept_controlnets=KeptControlNets(records=kept_controlnets, models=models, encoder=encoder),
        edits=Edits(sources=sources, pictures=pictures, objects=objects),
        conditions=ConditionIntake(sources=sources, pictures=pictures, objects=objects),
        views=Views(
            public_url=settings.public_url.rstrip("/"),
            sign=lambda key: objects.url(key, settings.url_ttl_s),
        ),
        placements=Placements(scheduler.route, follower, budget_s=settings.route_budget_s),
        follower=follower,
        stations=Stations(models),
        scheduler_ready=scheduler.ready,
        board=board,
        durability=SharedProbe(board.durability),
        writing=SharedProbe(partial(asyncio.to_thread, try_writing, objects)),
    )


async def _refresh(services: Services) -> None:
    """Keep plan and fleet at hand, so that no request waits for them."""
    while True:
        try:
            await services.follower.refresh()
            services.fleet = await services.board.fleet()
            services.depths = await services.jobs.depths(services.queues)
        except Unavailable as error:
            log.warning("plan_and_fleet_not_read", dependency=error.dependency)
        await asyncio.sleep(REFRESH_S)
