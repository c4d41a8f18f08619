"""One job's latents on their way to another: real worker parts, store and Redis-protocol server."""

import asyncio
import time
from dataclasses import replace
from queue import SimpleQueue

import pytest
from celery import Celery
from pydantic import SecretStr

from catalog.catalogue import Catalogue
from core.boards.plan import WorkerAssignment
from core.codec import decode
from core.job import JobStatus
from core.latents import Lender, Start, latents_key, latents_prefix
from core.settings import Settings
from core.traits import latent_key
from storage.jobs.jobs import JobStore
from storage.objects.store import open_objects
from storage.redis.connect import connect
from storage.redis.keys import LENDERS
from storage.redis.stats import read_stats
from tests.models import OF_DIFFUSERS, save_sdxl
from tests.rig import new_job, save_model
from tests.servers import redis_server
from worker.process.components import Components

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

STEPS = 10


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lending")
    server = redis_server(folder / "redis")
    yield Settings(
        redis_url=server.url,
        data_dir=folder / "data",
        models_dir=folder / "models",
        url_secret=SecretStr("s"),
        retrieval_budget_s=5.0,  # these machines are slow, and time is another test's matter
    )
    server.stop()


@pytest.fixture(scope="module")
def parts(settings):
    save_model(settings.models_dir, save_sdxl(settings.models_dir / "tiny"))
    parts = Components(settings, Catalogue(settings.models_dir), Celery("test"))
    parts.start()
    assert parts.residency.hold(["tiny"])
    parts.residency.follow(a_plan(takes_latents=True))
    yield parts
    parts.stop()


def a_plan(*, takes_latents):
    return WorkerAssignment(version=1, model=None, takes_latents=takes_latents)


@pytest.fixture(scope="module")
def lender(parts):
    """A job that has been delivered, and what was said of its latents."""
    job = make(parts, an_order())
    until = time.monotonic() + 60.0
    while not (told := parts.redis.lrange(LENDERS, 0, -1)) and time.monotonic() < until:
        time.sleep(0.01)
    [document] = told
    return job, decode(document, Lender)


def an_order(start=None, skip=0):
    order = new_job(model="tiny", steps=STEPS)
    request = replace(order.request, width=32, height=32, guidance=5.0)
    place = replace(
        order.placement,
        level=f"tiny@{skip}",
        skipped_steps=skip,
        start=start and Start(key=start, similarity=1.0),
    )
    return replace(order, request=request, placement=place)


def make(parts, order):
    """See one job through this worker, and read its record."""
    asyncio.run(with_store(parts, lambda store: store.submit([order])))
    heard = SimpleQueue()
    assert parts.executor.take(order.id, heard.put, on_left=lambda: heard.put("left"))
    assert heard.get(timeout=60.0) == "left"  # its slot is another's before it has ended
    heard.get(timeout=60.0)
    return asyncio.run(with_store(parts, lambda store: store.get(order.id)))


async def with_store(parts, ask):
    redis = connect(parts.settings.redis_url)
    try:
        return await ask(JobStore(redis, max_queue=100))
    finally:
        await redis.aclose()


async def stats_of(settings):
    redis = connect(settings.redis_url)
    try:
        return await read_stats(redis)
    finally:
        await redis.aclose()


def test_a_job_leaves_no_latents_where_nobody_takes_them(settings, parts, lender):
    parts.residency.follow(a_plan(takes_latents=False))
    job = make(parts, an_order())
    parts.residency.follow(a_plan(takes_latents=True))
    assert job.status is JobStatus.SUCCEEDED
    assert not list(open_objects(settings).list(latents_prefix(job.tenant, job.id)))
    assert parts.redis.llen(LENDERS) == 1  # the lender's


def test_latents_lie_in_the_store_once_the_job_has_been_delivered(settings, lender):
    job, told = lender
    assert job.status is JobStatus.SUCCEEDED
    assert (told.id, told.tenant, told.terms) == (job.id, job.tenant, latent_key(job.request))
    assert told.skips == (5, 10, 15, 20, 25)
    objects = open_objects(settings)
    sizes = [len(objects.get(latents_key(job.tenant, job.id, skip))) for skip in told.skips]
    assert sum(sizes) == told.num_bytes


def test_the_same_prompt_and_seed_give_the_same_bytes_in_fewer_steps(settings, parts, lender):
    whole, _ = lender
    job = make(parts, an_order(latents_key(whole.tenant, whole.id, 20), 20))
    assert job.images[0].sha256 == whole.images[0].sha256
    assert (job.placement.level, job.placement.skipped_steps) == ("tiny@20", 20)
    assert asyncio.run(stats_of(settings))["level:tiny@20"] == 1


@pytest.mark.parametrize("damage", ["gone", "truncated", "of another image"])
def test_latents_that_cannot_be_used_cost_the_level_alone(settings, parts, lender, damage):
    whole, _ = lender
    data = open_objects(settings).get(latents_key(whole.tenant, whole.id, 10))
    key = latents_key(whole.tenant, damage.replace(" ", "-"), 10)
    if damage != "gone":
        open_objects(settings).put(key, data[: -9 if damage == "truncated" else None], "")
    order = an_order(key, 10)
    if damage == "of another image":
        order = replace(order, request=replace(order.request, width=16, height=16))
    job = make(parts, order)
    assert job.status is JobStatus.SUCCEEDED
    assert (job.placement.level, job.placement.start) == ("tiny@0", None)
    if damage != "of another image":
        assert job.images[0].sha256 == whole.images[0].sha256


def test_what_takes_longer_than_the_budget_costs_the_level_alone(parts, lender):
    whole, _ = lender
    parts.images._processes.run(time.sleep, 3.0)  # there is one process
    parts.images._budget_s = 0.05
    placed = an_order(latents_key(whole.tenant, whole.id, 5), 5).placement
    assert parts.images.get(replace(whole, placement=placed)).result(60.0) is None
    parts.images._budget_s = parts.settings.retrieval_budget_s
