"""List the files that a job passes from `POST /v1/jobs` to its image: `python -m tests.journey`.

One job runs in one process: api, scheduler, Celery's pool, executor, engine and image store are
real, Redis is its fake, and the model is of the family that makes nothing. A file is passed once a
function of it is entered while the job is on its way, in whatever thread; a reader opens it if
`READ_LINES` of it or more run, and it is none of `core`, whose names say what they hold.
"""

import asyncio
import sys
import tempfile
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

import httpx
import msgspec
from starlette.applications import Starlette

from core.boards.fleet import FleetChange
from core.log import configure
from core.model import Model
from run.scheduler import RouteService
from scheduler.metrics import Metrics
from scheduler.placement.admission import AdmissionControl
from scheduler.placement.dispatch import Dispatcher
from scheduler.placement.overflow import Overflow
from scheduler.placement.placer import Placer
from scheduler.placement.step_cost import step_costs
from scheduler.placement.worker_batches import Batches
from scheduler.routing.classify import OneClass
from scheduler.service.classify_batches import BatchedClassifier
from storage.objects.store import open_objects
from tasks.generate import generate
from tasks.messages import GENERATE, check
from tests.map import FILES, ROOT
from tests.unit.api.conftest import PLAN, Stack
from tests.unit.scheduler.fakes import a_profile, a_worker
from worker.cpu import store_images
from worker.engine.engine import Engine
from worker.families.noop import NoopRunner
from worker.jobs.executor import JobExecutor
from worker.process.pool import pool_of

MODEL = Model(name="small", family="noop")
HOUSE = {str(ROOT / path): path for path in FILES}
READ_LINES = 3  #: fewer only look something up, or hand a call on

Lines = dict[Path, set[int]]  #: by file, in the order in which the job came to them


@contextmanager
def watched(lines: Lines) -> Iterator[None]:
    """Note the lines that run in functions of the house."""

    def enter(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        path = HOUSE.get(frame.f_code.co_filename)
        if path is None or frame.f_code.co_name == "<module>":
            return None
        run = lines.setdefault(path, set())

        def note(frame: FrameType, event: str, _: object) -> Callable[..., object]:
            if event == "line":
                run.add(frame.f_lineno)
            return note

        return note

    before = sys.gettrace()
    threading.settrace(enter)
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]


def opened(lines: Lines) -> list[Path]:
    """List the files that a reader opens who follows the job."""
    return [
        path for path, run in lines.items() if len(run) >= READ_LINES and path.parts[0] != "core"
    ]


class Scheduler:
    """The scheduler's service, asked over HTTP without a socket."""

    def __init__(self) -> None:
        profile, metrics, classifier = a_profile(MODEL), Metrics(), OneClass()
        overflow = Overflow(profile)
        overflow.backlog.hear(FleetChange(workers=[a_worker("w1@h", MODEL.name)]), now=0.0)
        placer = Placer(
            profile.models,
            classifier,
            Dispatcher(Batches(partial(step_costs, profile), stale_s=60.0)),
            overflow,
            AdmissionControl(max_queue=100),
        )
        placer.follow(replace(PLAN, assignments={"w1@h": "small"}, levels={"small@0": 1.0}))
        batched = BatchedClassifier(classifier, metrics=metrics)
        service = RouteService(placer, batched, None, metrics)  # type: ignore[arg-type]
        app = Starlette()
        app.add_route("/route", service.route, methods=["POST"])
        self._transport = httpx.ASGITransport(app)

    async def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer the api."""
        answer = await self._transport.handle_async_request(request)
        return httpx.Response(answer.status_code, content=await answer.aread())


class Images:
    """Stores images as a CPU process does, at once."""

    def get(self, job):
        return None

    def put(self, prefix, made, output) -> Future:
        parcel = store_images.Parcel(
            prefix=prefix, images=made.images, seeds=made.seeds, output=output
        )
        stored: Future = Future()
        stored.set_result(store_images.store_parcels([parcel])[0])
        return stored

    def delete(self, keys) -> None:
        store_images.delete_images(keys)


class Hub:
    """Celery's event loop: keeps what is due."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.due.append(callback)


def work(stack: Stack) -> None:
    """Take the message that the api has queued and make its job, as a worker does."""
    engine = Engine(max_slots=1, max_rows=1, slo_s=60.0)
    engine.attach(NoopRunner(MODEL))
    executor = JobExecutor(
        leases=stack.leases,
        engine=engine,
        images=Images(),
        die=lambda: None,
        observe=lambda job, total_s: None,
    )
    hub, pool = Hub(), pool_of(executor, 1.0)(1)
    pool.register_with_event_loop(hub)
    (waiting,) = (messages for messages in stack.store.lists.values() if messages)
    message = msgspec.json.decode(waiting.pop())
    parts = {name.replace("-", "_"): part for name, part in message.items()}
    check(parts, b64decode(message["body"]))
    pool.on_apply(
        lambda task, job_id, *_: (0, generate(job_id), 0.0),
        [GENERATE, message["headers"]["id"]],
        callback=lambda *_: None,
        error_callback=lambda *_: None,
        accept_callback=lambda *_: None,
        timeout_callback=lambda *_: None,
    )
    executor.start()
    while engine.step():
        pass
    executor.close()
    for callback in hub.due:
        callback()


async def travel(folder: Path) -> Lines:
    """Run one job and read its image; return the files it passed, in order, and what ran there."""
    lines: Lines = {}
    stack = Stack(folder, url_secret="s" * 32)
    stack.models, stack.scheduler = {MODEL.name: MODEL}, Scheduler()
    stack.report()
    stack.objects = open_objects(stack.settings)
    store_images.open_store(stack.settings)
    async with stack.client(authorization="Bearer t") as client:
        with watched(lines):
            asked = await client.post("/v1/jobs", json={"prompt": "a red circle", "seed": 1})
            assert asked.status_code == 202, asked.text
            work(stack)
            job = (await client.get(asked.headers["location"])).json()
            image = await client.get(job["images"][0]["url"])
            assert image.headers["content-type"] == "image/png", image.text
    return lines


def main() -> None:
    """Print the files, in the order in which the job came to them, and how many a reader opens."""
    configure("CRITICAL", is_json=False)
    with tempfile.TemporaryDirectory() as folder:
        lines = asyncio.run(travel(Path(folder)))
    for number, (path, run) in enumerate(lines.items(), 1):
        print(f"{number:3} {len(run):4} lines run  {path}")
    print(f"passed {len(lines)}, opened {len(opened(lines))}")


if __name__ == "__main__":
    main()
