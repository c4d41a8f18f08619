"""compose.yaml as processes: 200 jobs while each of its services is restarted in turn."""

import hashlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from uuid import uuid4

import httpx
import pytest
import redis

from tests.e2e.lean import BEST
from tests.production import ROOT, Production, has_servers, production
from tests.unit.api.pictures import a_mask, a_photo, data_url
from tests.unit.ops.compose import example
from tests.unit.ops.test_compose import targets

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        not has_servers() and "CI" not in os.environ,
        reason="apt-get install redis-server postgresql",
    ),
]

NUM_JOBS = 200
KEY = "a-long-random-key"
LORA = ROOT / "zoo" / "adapters" / "loras" / "sepia.safetensors"
#: Devices, and memory that another process shares (`worker/control/shared_memory.py`).
NO_FILES = ("/dev/", "/proc/")


class Customer:
    """Asks the api as a client should: with a key, and once more while something is away."""

    def __init__(self, service: Production, api: str = "api") -> None:
        headers = {"Authorization": f"Bearer {KEY}"}
        self._http = httpx.Client(base_url=service.url(api, 8000), headers=headers, timeout=60.0)

    def close(self) -> None:
        self._http.close()

    def ask(self, method: str, path: str, **options: object) -> httpx.Response:
        until = time.monotonic() + 180
        while True:
            try:
                answer = self._http.request(method, path, **options)
            except httpx.TransportError:
                answer = httpx.Response(503)
            if answer.status_code < 500 and answer.status_code != 429:
                assert answer.is_success, answer.text
                return answer
            assert time.monotonic() < until, answer.text
            time.sleep(0.2)

    def keep(self, kind: str, media_type: str, data: bytes) -> str:
        headers = {"content-type": media_type}
        return self.ask("POST", f"/v1/{kind}", content=data, headers=headers).json()["id"]

    def submit(self, body: Mapping[str, object]) -> str:
        headers = {"Idempotency-Key": uuid4().hex}
        return self.ask("POST", "/v1/jobs", json=body, headers=headers).json()["id"]

    def end_of(self, job_id: str) -> dict[str, object]:
        until = time.monotonic() + 300
        while True:
            job = self.ask("GET", f"/v1/jobs/{job_id}", params={"wait": 10}).json()
            if job["status"] not in ("queued", "running"):
                return job
            assert time.monotonic() < until, job


def bodies(template: str, lora: str) -> Iterator[dict[str, object]]:
    """Ask for images of every kind that workers make, as often as they restart."""
    edit = {"task": "edit", "template": template, "mask": data_url(a_mask()), "strength": 0.8}
    steered = {"controls": [{"id": "edges", "image": data_url(a_mask())}]}
    kinds = {0: edit, 1: {"loras": [{"id": lora}]}, 2: steered}
    for number in range(NUM_JOBS):
        size = {} if number % 10 == 0 else {"width": 64, "height": 64}
        asked = {"prompt": f"a red circle and {number} stars", "seed": number, "steps": 10}
        yield asked | size | kinds.get(number % 10, {})


def wrong_writes(service: Production) -> dict[str, list[str]]:
    """Name what containers wrote where they could not in production."""
    found = {}
    for container in service.containers:
        if "read_only" in container.service:
            may = (*NO_FILES, *(f"{each}/" for each in container.writable()))
            found[container.name] = [
                path for path in container.writes() if not f"{path}/".startswith(may)
            ]
    return {name: paths for name, paths in found.items() if paths}


def plain_lines(service: Production) -> list[str]:
    """Quote what our programs logged otherwise than as JSON."""
    lines = [
        line
        for container in service.containers
        if "build" in container.service
        for line in container.log.read_text().splitlines()
    ]
    return [line for line in lines if line and line[0] != "{"]


def told_secrets(service: Production) -> list[str]:
    """Name the secrets that are in some log."""
    logs = [container.log.read_text() for container in service.containers]
    secrets = {k: v for k, v in example().items() if re.search("PASSWORD|SECRET|KEY|AUTH", k)}
    secrets |= {"API_KEYS": KEY, "FLOWER_AUTH": secrets["FLOWER_AUTH"].partition(":")[2]}
    return [name for name, value in secrets.items() if any(value in log for log in logs)]


def num_ends(service: Production, job_id: str) -> int:
    with redis.Redis(
        service.addresses["redis"], username="atelier", password=example()["REDIS_PASSWORD"]
    ) as store:
        return int(store.hget(f"job:{job_id}", "finishes"))


def test_200_jobs_are_each_made_once_while_every_service_is_restarted(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / BEST.name).symlink_to(BEST)
    given = {"MODELS_DIR": str(tmp_path / "models"), "DTYPE": "float32", "MEMORY_GIB": "4"}
    given["ARCHIVE_AFTER_S"] = "7200"  # how often each has ended is read from Redis
    with (
        production(tmp_path / "here", **given) as service,
        closing(Customer(service)) as customer,
        ThreadPoolExecutor(1) as aside,
    ):
        service.start()
        template = customer.keep("templates", "image/png", a_photo())
        lora = customer.keep("loras", "application/octet-stream", LORA.read_bytes())
        waiting = list(bodies(template, lora))
        share = -(-len(waiting) // len(service.containers))
        ids: list[str] = []
        for container in service.containers:
            now, waiting = waiting[:share], waiting[share:]
            asking = aside.submit(lambda now=now: [customer.submit(body) for body in now])
            service.restart(container)
            ids += asking.result()
        assert len(set(ids)) == NUM_JOBS
        jobs = [customer.end_of(each) for each in ids]
        failed = [job for job in jobs if job["status"] != "succeeded"]
        assert failed == []
        for job in jobs:
            (image,) = job["images"]
            data = httpx.get(image["url"]).raise_for_status().content
            assert hashlib.sha256(data).hexdigest() == image["sha256"]
            assert image["url"].startswith(service.url("minio", 9000))
            assert num_ends(service, job["id"]) == 1
        for target in targets():
            name, port = target.split(":")
            for container in service.of(name):
                path = f"http://{container.address}:{port}/metrics"
                assert httpx.get(path).is_success
        assert [each.name for each in service.containers if each.was_killed] == []
        assert [each.name for each in service.containers if not each.is_running] == []
        assert wrong_writes(service) == {}
        assert plain_lines(service) == []
        assert told_secrets(service) == []
