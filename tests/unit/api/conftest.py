"""A whole api over in-memory fakes: nothing listens, nothing is patched."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

import httpx
import msgspec
import pytest
import structlog
from prometheus_client.metrics_core import Metric

from api.services.clients import Boards, Clients
from api.services.placement import PlanFollower, SchedulerClient
from api.services.services import Services, assemble
from core.boards.fleet import FleetChange, Worker
from core.boards.plan import Plan
from core.errors import ImageRefused, NoPlan, StoreUnavailable
from core.model import Model
from core.placement import PlacementQuery
from core.settings import Settings
from core.uploads.controlnet import ControlNet, KeptControlNet
from core.uploads.embedding import KeptEmbedding
from core.uploads.lora import KeptLora
from core.uploads.upload import Upload
from run.api import create_app
from scheduler.routing.route import Router
from storage.fakes import (
    MemoryApplications,
    MemoryAudit,
    MemoryBoard,
    MemoryEvents,
    MemoryFleet,
    MemoryFleetReader,
    MemoryHistory,
    MemoryJobs,
    MemoryLeases,
    MemoryOutbox,
    MemoryStore,
    MemoryTable,
    MemoryUploads,
    MemoryUsage,
)
from storage.objects.directory import DirectoryStore
from storage.redis.durability import DurabilityFaults

MODELS = {
    "small": Model(name="small", family="sdxl", max_prompt_tokens=10, max_steps=100, quality=0.8),
    "large": Model(
        name="large",
        family="sdxl",
        min_size=128,
        max_size=256,
        default_size=128,
        size_multiple=32,
        quality=1.0,
    ),
}
CONTROLNETS = {
    "edges": ControlNet(name="edges", models=("small",), condition="outlines"),
    "depth": ControlNet(name="depth", models=("small", "large")),
    "union": ControlNet(name="union", models=("small",), modes=6),
    "sketch": ControlNet(name="sketch", models=("small",), is_adapter=True),
}
PLAN = Plan(
    version=1,
    fence=1,
    made_at=0.0,
    policy="test",
    assignments={"w1@h": "small", "w2@h": "large"},
    pasm=(),
    levels={"small@0": 1.0, "large@0": 1.0},
)


class Words:
    """Counts words as tokens."""

    def count(self, model: str, text: str) -> int:
        return len(text.split())

    def count_t5(self, model: str, text: str) -> int | None:
        return None if model == "small" else 2 * len(text.split())

    def layers(self, model: str) -> int | None:
        return 3

    def knows(self, model: str, word: str) -> bool:
        return word == "known"


@dataclass
class Pictures:
    """Reads pictures where it is asked, as decoders do in processes of their own."""

    max_pixels: int

    async def read(self, how, data):
        return how(data, self.max_pixels)


@dataclass
class FakeScheduler:
    """The scheduler service behind HTTP: routes by a plan, or is away."""

    plan: Plan | None = PLAN
    is_up: bool = True
    refusal: dict[str, object] | None = None  #: instead of any place
    calls: list[list[PlacementQuery]] = field(default_factory=list)
    models: dict[str, Model] = field(default_factory=lambda: MODELS)

    def answer(self, request: httpx.Request) -> httpx.Response:
        if not self.is_up:
            raise httpx.ConnectError("refused", request=request)
        if request.url.path == "/healthz":
            return httpx.Response(200)
        body = msgspec.json.decode(request.content)
        queries = msgspec.convert(body["queries"], list[PlacementQuery])
        self.calls.append(queries)
        return httpx.Response(
            200, content=msgspec.json.encode({"placements": self._place(queries)})
        )

    def _place(self, queries):
        if self.plan is None:
            return [{"error": "no worker holds small"} for _ in queries]
        if self.refusal is not None:
            return [self.refusal for _ in queries]
        router = Router(self.plan, self.models)
        return [self._route(router, query) for query in queries]

    def _route(self, router, query):
        try:
            return router.route(query)
        except NoPlan as error:
            return {"error": str(error)}


class Stack:
    """One api and everything behind it, to look at and to break."""

    def __init__(self, tmp_path, **settings) -> None:
        self.folder = tmp_path
        defaults = {"data_dir": tmp_path, "public_url": "http://api.test", "max_images": 4}
        self.settings = Settings(**(defaults | settings))
        self.store = MemoryStore()
        self.jobs = MemoryJobs(self.store, max_queue=self.settings.max_queue)
        self.jobs.expect = self._while_up(self.jobs.expect)
        self.leases = MemoryLeases(self.store, worker="w1@h")
        self.fleet = MemoryFleet(self.store)
        self.board = MemoryBoard(self.store)
        self.history = MemoryHistory(clock=lambda: next(self.ticks))
        self.ticks = count(1000, 30)  #: when samples are kept
        self.objects = DirectoryStore(tmp_path, public_url="http://api.test", secret=b"secret")
        self.applications = MemoryApplications(
            self.store, max_applications=self.settings.max_applications
        )
        self.uploads = MemoryUploads(Upload, self.store, max_uploads=self.settings.max_uploads)
        self.loras = MemoryUploads(KeptLora, self.store, max_uploads=self.settings.max_uploads)
        self.embeddings = MemoryUploads(
            KeptEmbedding, self.store, max_uploads=self.settings.max_uploads
        )
        self.shapes = {name: {} for name in MODELS}  #: layers of each model
        self.kept_controlnets = MemoryUploads(
            KeptControlNet, self.store, max_uploads=self.settings.max_uploads
        )
        self.encoders = dict.fromkeys(MODELS)  #: what ControlNets copy of each model
        self.web: dict[str, bytes] = {}  #: what strangers' URLs hold
        self.fetched: list[str] = []
        self.scheduler = FakeScheduler()
        self.is_store_up = True
        self.archive_behind_s: float | None = 0.0  #: None: there is no archive
        self.has_upkeep = True
        self.process_metrics: list[list[Metric]] = []  #: of each process beside the api
        self.store_faults: tuple[str, ...] = ()  #: settings of the store that lose jobs
        self.models = MODELS
        self.heard: list[Worker] = []  #: by the api, at its last look
        self.services: Services
        self.follower: PlanFollower

    async def publish(self, plan: Plan = PLAN) -> None:
        await self.board.publish(plan)
        await self.follower.refresh()

    def report(self) -> None:
        worker = Worker(
            name="w1@h",
            device_type="cpu",
            models=("small",),
            queues=("gen.small",),
            memory_gib=1.0,
        )
        self.fleet.report(worker)
        self.heard = [worker]
        if hasattr(self, "services"):
            self.look(self.heard)

    def look(self, fleet: Sequence[Worker]) -> None:
        """Have the api hear of these workers, and of no others."""
        stations = self.services.stations
        stations.hear(FleetChange.between(stations.workers, fleet))

    def _while_up(self, answer):
        """Ask the store, if it is there."""

        async def ask(*told):
            if not self.is_store_up:
                raise StoreUnavailable("connection refused")
            return await answer(*told)

        return ask

    @asynccontextmanager
    async def open_services(self, settings: Settings) -> AsyncIterator[Services]:
        transport = httpx.MockTransport(self.scheduler.answer)
        async with httpx.AsyncClient(transport=transport, base_url="http://scheduler") as client:
            self.services = assemble(
                settings, self.models, Words(), CONTROLNETS, self._clients(client)
            )
            self.follower = self.services.follower
            await self.services.keys.refresh()
            await self.services.tenants.refresh()
            self.look(self.heard)
            yield self.services

    def _clients(self, scheduler: httpx.AsyncClient) -> Clients:
        return Clients(
            jobs=self.jobs,
            events=MemoryEvents(self.store),
            deliveries=MemoryOutbox(self.store),
            objects=self.objects,
            uploads=self.uploads,
            applications=self.applications,
            keys=MemoryTable(self.store, "keys", lambda key: key.id),
            audit=MemoryAudit(self.store),
            usage=MemoryUsage(self.store),
            tenants=MemoryTable(self.store, "tenants", lambda tenant: tenant.name),
            loras=self.loras,
            embeddings=self.embeddings,
            controlnets=self.kept_controlnets,
            shapes=self.shapes.__getitem__,
            encoder=self.encoders.__getitem__,
            fetch=self._fetch,
            pictures=Pictures(self.settings.max_pixels),
            scheduler=SchedulerClient(scheduler),
            board=Boards(
                plan=self._while_up(self.board.read),
                fleet=self._while_up(lambda: self.fleet.read(60.0)),
                changes=self._while_up(MemoryFleetReader(self.store, stale_s=60.0).look),
                stats=self._while_up(self._stats),
                history=self._while_up(self.history.list),
                archive_behind=self._while_up(self._archive_behind),
                has_upkeep=self._while_up(self._has_upkeep),
                ping=self._while_up(self._stats),
                durability=self._while_up(self._durability),
            ),
            process_metrics=self._process_metrics,
        )

    @asynccontextmanager
    async def client(self, **headers) -> AsyncIterator[httpx.AsyncClient]:
        app = create_app(self.settings, self.open_services)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=transport, base_url="http://api.test", headers=headers
            ) as client,
        ):
            yield client

    async def _fetch(self, tenant, url):
        self.fetched.append(url)
        if url not in self.web:
            raise ImageRefused("could not be fetched")
        return self.web[url]

    async def _archive_behind(self):
        return self.archive_behind_s

    async def _has_upkeep(self):
        return self.has_upkeep

    async def _durability(self):
        return DurabilityFaults(faults=self.store_faults)

    async def _process_metrics(self):
        return self.process_metrics

    async def _stats(self):
        return self.store.stats

    def is_untouched(self) -> bool:
        """Nothing stored, nothing queued."""
        return not self.store.records and not any(self.store.lists.values()) and not self.stored()

    def stored(self) -> list[str]:
        """Keys in the object store."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.folder)) for path in files)


@pytest.fixture(autouse=True)
def logs():
    """What was logged, newest last."""
    with structlog.testing.capture_logs() as entries:
        yield entries


@pytest.fixture
def stack(tmp_path) -> Stack:
    return Stack(tmp_path)


@pytest.fixture
async def client(stack):
    async with stack.client() as client:
        yield client
