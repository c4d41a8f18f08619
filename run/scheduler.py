"""The scheduler service: `python -m run.scheduler`. HTTP in, placements out."""

import asyncio
import functools
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvicorn
from fastapi import FastAPI
from redis.asyncio import Redis
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from catalog.catalogue import Catalogue
from core.errors import ConfigurationError, NoPlan, TooManyRequests, Unavailable
from core.log import configure, get_logger, log_errors
from core.log import end as end_process
from core.placement import Answer, PlacementQuery, queue_of
from core.settings import Settings, get_settings
from scheduler.allocation.registry import find_policy, prepare
from scheduler.approximate_cache.cache import ApproximateCache, open_approximate_cache
from scheduler.approximate_cache.embed import open_embedder
from scheduler.metrics import Metrics
from scheduler.placement.admission import AdmissionControl
from scheduler.placement.dispatch import Dispatcher
from scheduler.placement.overflow import Overflow
from scheduler.placement.placer import Placer, from_noise
from scheduler.placement.step_cost import PlannedCosts
from scheduler.placement.worker_batches import Batches
from scheduler.planning.level_estimates import Outlook
from scheduler.planning.loop import PlanLoop
from scheduler.profile.profile import Profile
from scheduler.profile.profile_file import read_measured
from scheduler.routing.classify import InForce, OneClass
from scheduler.service.classifiers import open_classifier
from scheduler.service.classify_batches import BatchedClassifier
from scheduler.service.drift_monitor import open_drift_monitor
from scheduler.service.reports import Reports, SharedFleet
from storage.boards.demand import DemandBoard
from storage.boards.fleet import Leadership, PlanBoard
from storage.boards.fleet_changes import FleetReader
from storage.boards.schema import announcing
from storage.jobs.jobs import JobStore
from storage.redis.connect import connect, end
from storage.redis.keys import PLANNERS
from storage.tenants.applications import ApplicationStore

MAX_BATCH = 1024  #: queries of one call
FOLLOW_S = 1.0  #: between two looks at the models folder
LEASE_S = 3.0  #: of the leader; another takes over after that
STALE_S = 2 * LEASE_S  #: until then a successor plans for what a lost leader was asked for
#: The first plans go before what a policy compiles, which takes seconds on a machine's first start
#: and is not needed before a minute of arrivals is known.
PREPARE_AFTER_S = 15.0

#: Of Python's collector of cycles. Reports have none and come and go by the ten thousand: to look
#: through all of them, which takes a third of a second then, would be due every few seconds.
COLLECT_AT = (20_000, 50, 1000)

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """Jobs to place, at most `MAX_BATCH`."""

    queries: tuple[PlacementQuery, ...]


class RouteService:
    """Answers the routes; the plan is another's business."""

    def __init__(
        self,
        placer: Placer,
        batched: BatchedClassifier,
        loop: PlanLoop,
        metrics: Metrics,
        approximate_cache: ApproximateCache | None = None,
    ) -> None:
        self._placer = placer
        self._classifier = batched
        self._approximate_cache = approximate_cache
        self._loop = loop
        self._metrics = metrics
        self._requests = msgspec.json.Decoder(RouteRequest)
        self._answers = msgspec.json.Encoder()

    async def route(self, request: Request) -> Response:
        """Place a batch; an item that cannot be placed is answered by its error."""
        try:
            queries = self._requests.decode(await request.body()).queries
        except msgspec.MsgspecError as error:
            return _problem(422, "Not a batch of queries", str(error))
        if len(queries) > MAX_BATCH:
            return _problem(413, "Too many queries", f"at most {MAX_BATCH} in one call")
        classes = await self._classifier.classify([query.prompt for query in queries])
        answers = self._placer.place(queries, time.time(), classes)
        answers = await self._start(queries, answers)
        return self._json({"placements": [_item(answer, self._metrics) for answer in answers]})

    async def _start(
        self, queries: Sequence[PlacementQuery], answers: Sequence[Answer]
    ) -> list[Answer]:
        if self._approximate_cache is None:
            return from_noise(answers)
        return await self._approximate_cache.start(queries, answers)

    async def healthz(self, request: Request) -> Response:
        """Alive; asks nobody."""
        return self._json({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Ready while rounds of the plan loop go well."""
        if not self._loop.is_ready:
            return _problem(503, "Not ready", "the store has not answered lately")
        return self._json({"status": "ok", "is_leader": self._loop.is_leader})

    async def plan(self, request: Request) -> Response:
        """The plan that is followed now."""
        return self._json(self._placer.plan)

    async def metrics(self, request: Request) -> Response:
        """Prometheus' text format."""
        return Response(self._metrics.render(), media_type="text/plain; version=0.0.4")

    def _json(self, content: object) -> Response:
        return Response(self._answers.encode(content), media_type="application/json")


def _item(answer: Answer, metrics: Metrics) -> object:
    """Say one answer, and count it."""
    match answer:
        case NoPlan():
            metrics.see_unplaced()
            return {"error": str(answer)}
        case TooManyRequests():
            wait = {"retry_after_s": answer.retry_after_s, "reason": answer.reason}
            return {"error": str(answer), **wait}
        case _:
            metrics.see_placement(answer)
            return answer


def _problem(status: int, title: str, detail: str) -> Response:
    content = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return JSONResponse(content, status, media_type="application/problem+json")


def create_app(settings: Settings) -> FastAPI:
    """Build the service; its plan loop runs as long as the app does.

    Raises:
        ConfigurationError: a model, a profile or the policy cannot be read.
    """
    measured = read_profile(settings.models_dir, settings.profile_path)
    metrics, redis = Metrics(), connect(settings.redis_url)
    encoder = functools.cache(lambda: open_embedder(settings))
    found, profile = open_classifier(settings, measured, encoder)
    in_force = InForce(found)
    classifier = found if isinstance(found, OneClass) else in_force
    costs = PlannedCosts(profile, lambda: placer.plan)
    batches = Batches(costs, stale_s=settings.worker_stale_s)
    overflow = Overflow(profile, on_overflow=metrics.see_overflow)
    fleet = open_fleet(settings, redis, profile)
    reports = Reports(fleet, [batches.hear, overflow.backlog.hear], overflow.backlog.measure)
    dispatcher = Dispatcher(batches)
    admission = AdmissionControl(max_queue=settings.max_queue)
    placer = Placer(profile.models, classifier, dispatcher, overflow, admission)
    batched = BatchedClassifier(classifier, metrics=metrics, budget_s=settings.classify_budget_s)
    approximate_cache = open_approximate_cache(
        settings, profile, redis, metrics, leads=lambda: loop.is_leader, embedder=encoder
    )
    loop = build_loop(settings, redis, fleet, placer, profile, metrics, approximate_cache)

    drift_monitor = open_drift_monitor(
        settings, redis, metrics, in_force=in_force, encoder=encoder, profile=measured, loop=loop
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with suppress(Unavailable):  # who asks first is placed by the plan that was left
            await loop.follow_board()
        parts = (loop, approximate_cache, reports, drift_monitor)
        tasks = [asyncio.create_task(part.run()) for part in parts if part is not None]
        tasks.append(asyncio.create_task(_prepare(settings.policy)))
        if isinstance(measured.models, Catalogue):
            tasks.append(asyncio.create_task(follow_models(measured.models, loop)))
        yield
        await end(tasks)
        batched.close()
        await redis.aclose()

    app = FastAPI(title="Atelier scheduler", lifespan=lifespan, openapi_url=None)
    service = RouteService(placer, batched, loop, metrics, approximate_cache)
    app.add_route("/route", service.route, methods=["POST"])
    for name in ("healthz", "readyz", "plan", "metrics"):
        app.add_route(f"/{name}", getattr(service, name), methods=["GET"])
    return app


def open_fleet(settings: Settings, redis: Redis, profile: Profile) -> SharedFleet:
    """Join the fleet and its queues to the store."""
    jobs = JobStore(redis, max_queue=0)
    return SharedFleet(
        FleetReader(redis, stale_s=settings.worker_stale_s),
        lambda: jobs.depths([queue_of(name) for name in sorted(profile.models)]),
    )


async def _prepare(policy: str) -> None:
    await asyncio.sleep(PREPARE_AFTER_S)
    await asyncio.to_thread(prepare, policy)


def read_profile(models_dir: Path, path: Path) -> Profile:
    """Read the catalogue, which follows its folder, and what has been measured of it."""
    return Profile(models=Catalogue(models_dir, path), measured=read_measured(path))


async def follow_models(
    catalogue: Catalogue, loop: PlanLoop, *, period_s: float = FOLLOW_S
) -> None:
    """Take over what comes to the models folder and what goes, and plan for it at once."""
    while True:
        await asyncio.sleep(period_s)
        with log_errors(log, "models_not_followed"):
            found = await asyncio.to_thread(catalogue.look)
            if found is not None and catalogue.take(found):
                loop.change_models()


def build_loop(
    settings: Settings,
    redis: Redis,
    fleet: SharedFleet,
    placer: Placer,
    profile: Profile,
    metrics: Metrics,
    approximate_cache: ApproximateCache | None = None,
) -> PlanLoop:
    """Join the plan loop to the store."""
    owner = f"{socket.gethostname()}:{os.getpid()}"
    hits = approximate_cache.hits if approximate_cache else None
    switch = approximate_cache.switch if approximate_cache else None
    return PlanLoop(
        placer,
        Outlook(profile, metrics, hits=hits, switch=switch),
        find_policy(settings.policy),
        policy_name=settings.policy,
        fleet=fleet,
        board=PlanBoard(redis),
        leader=Leadership(redis, PLANNERS, owner, LEASE_S),
        period_s=settings.plan_period_s,
        metrics=metrics,
        peers=DemandBoard(redis, owner, stale_s=STALE_S),
        registry=ApplicationStore(redis, max_applications=settings.max_applications),
        tells_capacity=bool(settings.cell),
    )


def main() -> None:
    """Serve until SIGTERM or SIGINT: requests in flight are answered, the lead is given up."""
    # The server puts this handler back and raises the signal again once it has shut down.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        settings = get_settings()
        gc.set_threshold(*COLLECT_AT)
        configure(settings.log_level, is_json=settings.log_json, process="scheduler")
        app = create_app(settings)
        with announcing(settings, "scheduler"):
            uvicorn.run(
                app,
                host=settings.scheduler_host,
                port=settings.scheduler_port,
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=5,
            )
    except ConfigurationError as error:
        end_process("scheduler", error)


if __name__ == "__main__":
    main()
