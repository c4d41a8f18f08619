"""compose.yaml as processes: what has ended goes to PostgreSQL, which is killed and comes back."""

import hashlib
import os
import signal
import time
from contextlib import closing

import httpx
import pytest
import redis

from tests.e2e.lean import BEST
from tests.e2e.test_production import Customer
from tests.production import Production, has_servers, production
from tests.unit.ops.compose import example

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not has_servers() and "CI" not in os.environ,
        reason="apt-get install redis-server postgresql",
    ),
]

AFTER_S = 60  #: the least that may be set
NUM_JOBS = 6


def in_redis(service: Production) -> set[str]:
    """Name the jobs that Redis has a record of."""
    password = example()["REDIS_PASSWORD"]
    with redis.Redis(service.addresses["redis"], username="atelier", password=password) as store:
        return {key.decode().removeprefix("job:") for key in store.scan_iter(match="job:*")}


def ids_of(customer: Customer) -> list[str]:
    return [job["id"] for job in customer.ask("GET", "/v1/jobs").json()["data"]]


def check_image(job: dict[str, list[dict[str, str]]]) -> None:
    (image,) = job["images"]
    data = httpx.get(image["url"]).raise_for_status().content
    assert hashlib.sha256(data).hexdigest() == image["sha256"]


def until_moved(service: Production) -> None:
    until = time.monotonic() + AFTER_S + 60
    while in_redis(service):
        assert time.monotonic() < until, service.of("upkeep")[0].end_of_log()
        time.sleep(0.5)


def test_what_has_ended_is_read_from_postgresql_which_may_be_killed(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / BEST.name).symlink_to(BEST)
    given = {"MODELS_DIR": str(tmp_path / "models"), "DTYPE": "float32", "MEMORY_GIB": "4"}
    with (
        production(tmp_path / "here", **given, ARCHIVE_AFTER_S=str(AFTER_S)) as service,
        closing(Customer(service)) as customer,
    ):
        service.start()
        ask = {"width": 64, "height": 64, "steps": 10}
        ids = [
            customer.submit(ask | {"prompt": f"a red circle, {number}"})
            for number in range(NUM_JOBS)
        ]
        ended = {job_id: customer.end_of(job_id) for job_id in ids}
        assert {job["status"] for job in ended.values()} == {"succeeded"}
        until_moved(service)
        assert ids_of(customer) == ids[::-1]
        for job_id in ids:
            job = customer.end_of(job_id)
            assert job | {"images": []} == ended[job_id] | {"images": []}
            check_image(job)

        (postgres,) = service.of("postgres")
        os.kill(postgres.process.pid, signal.SIGKILL)
        postgres.process.wait()
        meanwhile = customer.submit(ask | {"prompt": "a blue square"})
        check_image(customer.end_of(meanwhile))
        url = service.url("api", 8000)
        headers = {"Authorization": "Bearer a-long-random-key"}
        away = httpx.get(f"{url}/v1/jobs/{ids[0]}", headers=headers, timeout=30.0)
        assert away.status_code == 503 and "archive" in away.text and "retry-after" in away.headers
        postgres.start()
        postgres.wait_healthy()
        assert ids_of(customer) == [meanwhile, *ids[::-1]]
        until_moved(service)
        assert ids_of(customer) == [meanwhile, *ids[::-1]]
        customer.ask("DELETE", f"/v1/jobs/{ids[0]}")
        assert ids_of(customer) == [meanwhile, *ids[:0:-1]]
        assert [each.name for each in service.containers if not each.is_running] == []
