"""The service as a process, beside a real Redis server; workers are reports in the store."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx
import pytest
import redis

from cli.stack.ports import free_port
from core.boards.fleet import Worker
from core.boards.plan import Plan
from core.codec import encode
from core.latents import LatentKey, Lender
from core.placement import PlacementQuery
from storage.boards.fleet import Reporter
from storage.boards.reusable_latents import announce
from storage.redis.connect import connect_sync
from storage.redis.keys import PLANNERS, job_key, leader_key
from tests.plan import read_plan
from tests.servers import Server, redis_server

pytestmark = pytest.mark.integration

WITHIN_S = 120.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = redis_server(tmp_path / "redis")
    yield server
    server.stop()


@pytest.fixture
def store(server: Server) -> Iterator[redis.Redis]:
    client = connect_sync(server.url)
    yield client
    client.close()


class Service:
    """One `python -m run.scheduler`."""

    def __init__(self, tmp_path: Path, redis_url: str, latents_gib: float) -> None:
        self.port = free_port()
        settings = {
            "REDIS_URL": redis_url,
            "MODELS_DIR": str(tmp_path / "models"),
            "DATA_DIR": str(tmp_path),
            "SCHEDULER_PORT": str(self.port),
            "URL_SECRET": "a-secret-of-this-test",
            "PLAN_PERIOD_S": "1",
            "LATENTS_GIB": str(latents_gib),
        }
        environ = os.environ | {f"ATELIER_{name}": value for name, value in settings.items()}
        self.log = tmp_path / f"scheduler-{self.port}.log"
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "run.scheduler"]
            self.process = subprocess.Popen(command, env=environ, stderr=log)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60.0)


@pytest.fixture
def start(tmp_path: Path, server: Server) -> Iterator[Callable[..., Service]]:
    for name, quality in (("base", 1.0), ("tiny", 0.6)):
        folder = tmp_path / "models" / name
        folder.mkdir(parents=True)
        fields = {"name": name, "family": "noop", "quality": quality, "load_s": 0.5}
        (folder / "atelier.json").write_text(json.dumps(fields))
    services: list[Service] = []

    def start_one(latents_gib: float = 0.0) -> Service:
        services.append(Service(tmp_path, server.url, latents_gib))
        return services[-1]

    yield start_one
    for service in services:
        if service.process.poll() is None:
            service.end()


@pytest.fixture
async def client(start: Callable[..., Service]) -> AsyncIterator[httpx.AsyncClient]:
    url = f"http://127.0.0.1:{start().port}"
    async with httpx.AsyncClient(base_url=url, timeout=WITHIN_S) as client:
        await until(lambda: is_up(client))
        yield client


class Workers:
    """Reports of workers that hold what the plan says, until told to fall silent."""

    def __init__(self, store: redis.Redis, *names: str) -> None:
        self._store = store
        self.names = list(names)

    async def run(self) -> None:
        while True:
            plan = read_plan(self._store)
            for name in self.names:
                self._beat(name, plan.assignments.get(name) if plan else None)
            await asyncio.sleep(0.2)

    def _beat(self, name: str, model: str | None) -> None:
        held = (model,) if model else ()
        worker = Worker(name=name, device_type="cpu", models=held, queues=(), memory_gib=4.0)
        Reporter(self._store).report(worker)


@pytest.fixture
async def workers(store: redis.Redis) -> AsyncIterator[Workers]:
    workers = Workers(store, "w0", "w1")
    beats = asyncio.create_task(workers.run())
    yield workers
    beats.cancel()


async def until(holds: Callable[[], object]) -> None:
    """Wait until `holds` is true."""
    began = time.monotonic()
    while time.monotonic() - began < WITHIN_S:
        answer = holds()
        if await answer if asyncio.iscoroutine(answer) else answer:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"not within {WITHIN_S} s")


async def is_up(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/readyz")).status_code == 200
    except httpx.TransportError:
        return False


async def route(client: httpx.AsyncClient, *models: str) -> dict[str, object]:
    query = {"prompt": "a red circle", "models": models}
    answer = await client.post("/route", json={"queries": [query]})
    item: dict[str, object] = answer.raise_for_status().json()["placements"][0]
    return item


def assigned(store: redis.Redis) -> dict[str, str]:
    plan: Plan | None = read_plan(store)
    return dict(plan.assignments) if plan else {}


async def test_before_any_worker_reports_nothing_can_be_placed(client: httpx.AsyncClient) -> None:
    assert "error" in await route(client, "base")
    assert (await client.get("/plan")).json()["assignments"] == {}


async def test_two_workers_serve_two_models(
    client: httpx.AsyncClient, store: redis.Redis, workers: Workers
) -> None:
    async def both() -> bool:
        """A model that nobody asks for gets no worker."""
        await route(client, "base")
        await route(client, "tiny")
        return sorted(assigned(store).values()) == ["base", "tiny"]

    await until(both)
    for model in ("base", "tiny"):
        placement = await route(client, model)
        assert (placement["queue"], placement["placed_by"]) == (f"gen.{model}", "scheduler")
    assert (await route(client, "base", "tiny"))["model"] == "base"


async def test_a_worker_that_falls_silent_is_out(
    client: httpx.AsyncClient, store: redis.Redis, workers: Workers
) -> None:
    await until(lambda: len(assigned(store)) == 2)
    workers.names.remove("w1")
    await until(lambda: set(assigned(store)) == {"w0"})


async def test_one_worker_comes_to_hold_the_model_that_is_asked_for(
    client: httpx.AsyncClient, store: redis.Redis, workers: Workers
) -> None:
    workers.names.remove("w1")
    await until(lambda: assigned(store) == {"w0": "base"})
    assert (await route(client, "tiny"))["queue"] == "gen.tiny"
    await until(lambda: assigned(store) == {"w0": "tiny"})


async def test_a_model_that_no_worker_has_room_for_or_a_folder_of_is_refused(
    client: httpx.AsyncClient, store: redis.Redis
) -> None:
    plain = Worker(name="w0", device_type="cpu", models=("base",), queues=(), memory_gib=4.0)
    for worker in (replace(plain, catalogue=("base",)), replace(plain, refused=("tiny",))):
        Reporter(store).report(worker)
        await until(partial(is_refused, client, store, worker, "tiny"))
        assert (await route(client, "base"))["queue"] == "gen.base"


async def is_refused(
    client: httpx.AsyncClient, store: redis.Redis, worker: Worker, model: str
) -> bool:
    Reporter(store).report(worker)
    return "no worker can hold" in str((await route(client, model)).get("error"))


async def test_the_plan_survives_the_store_and_the_service_follows_it_back(
    client: httpx.AsyncClient, store: redis.Redis, server: Server, workers: Workers
) -> None:
    await until(lambda: len(assigned(store)) == 2)
    server.kill()
    assert (await route(client, "base"))["queue"] == "gen.base"
    server.restart()
    await until(lambda: is_up(client))


async def test_a_leader_that_sleeps_is_replaced_and_publishes_nothing_when_it_wakes(
    start: Callable[..., Service], store: redis.Redis, workers: Workers
) -> None:
    first = start()
    await until(lambda: len(assigned(store)) == 2)
    before, second = fence(store), start()
    async with connected(first) as sleeper, connected(second) as other:
        await until(lambda: is_up(other))
        assert (await other.get("/plan")).json()["assignments"] == assigned(store)
        first.process.send_signal(signal.SIGSTOP)
        await until(lambda: fence(store) > before)
        elected = fence(store)
        first.process.send_signal(signal.SIGCONT)
        await until(lambda: follows(sleeper, elected))
        assert fence(store) == elected
        assert second.end() == 0
        assert not is_led_under(store, elected)  # it gave the lead up when it ended
        await until(lambda: fence(store) > elected)


def connected(service: Service) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{service.port}", timeout=WITHIN_S)


async def follows(client: httpx.AsyncClient, elected: int) -> bool:
    """Say whether a scheduler goes by the plan of another leader."""
    is_leader = (await client.get("/readyz")).json()["is_leader"]
    return not is_leader and (await client.get("/plan")).json()["fence"] == elected


def is_led_under(store: redis.Redis, elected: int) -> bool:
    lead = store.get(leader_key(PLANNERS)) or b""
    return lead.endswith(b"\n%d" % elected)


def fence(store: redis.Redis) -> int:
    plan = read_plan(store)
    return plan.fence if plan else 0


PROFILE = {
    "families": {
        "all": {
            "levels": ["base@25", "base@0"],
            "shares": {"base@25": 1.0},
            "quality": {"any": {"base@25": 1.0, "base@0": 0.9}},
        }
    }
}
TERMS = LatentKey(model="base", width=64, height=64, steps=30, scheduler=None, is_guided=True)


async def test_a_job_starts_from_the_latents_of_a_finished_one(
    tmp_path: Path, start: Callable[..., Service], store: redis.Redis, workers: Workers
) -> None:
    (tmp_path / "profile.json").write_text(json.dumps(PROFILE))
    prompt = "a large red circle above a small blue square"
    lender = Lender(
        id="j1", tenant="shop", prompt=prompt, terms=TERMS, skips=(20, 25), num_bytes=1000
    )
    async with connected(start(1.0)) as client:
        store.hset(job_key("j1"), "tenant", "shop")
        assert announce(store, replace(lender, made_at=time.time()))
        query = PlacementQuery(prompt=prompt, models=("base",), tenant="shop", terms=(TERMS,))

        async def has_start() -> bool:
            answer = await client.post("/route", content=encode({"queries": [query]}))
            item = answer.raise_for_status().json()["placements"][0]
            return (item.get("start") or {}).get("key") == "latents/shop/j1/25.safetensors"

        await until(lambda: is_up(client))
        await until(has_start)
        metrics = (await client.get("/metrics")).text
        assert 'atelier_cache_hits_total{cache="latents",tier="index"}' in metrics
        theirs = replace(query, tenant="bank")
        answer = await client.post("/route", content=encode({"queries": [theirs]}))
        assert answer.json()["placements"][0]["level"] == "base@0"
