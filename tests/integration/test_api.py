"""The api as a process, over a real Redis-protocol server and a real scheduler service.

No engine runs here: a worker's part is played through the worker's own `LeaseStore`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict

import httpx
import pytest

from cli.stack.ports import free_port
from core.boards.fleet import Worker
from core.job import JobStatus, Progress, StoredImage
from core.model import Model
from core.settings import Settings
from storage.boards.fleet import Reporter
from storage.jobs.leases import LeaseStore, Outcome
from storage.objects.store import open_objects
from storage.redis.connect import connect_sync
from tests.servers import Server, redis_server
from tests.unit.api.pictures import a_mask, a_photo, data_url, opened

pytestmark = pytest.mark.integration

GOOD = {"prompt": "a red circle"}
PNG = b"\x89PNG\r\n" + bytes(range(200))


def is_alive(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=2).is_success
    except httpx.HTTPError:
        return False


def service(module, port, log, settings):
    words = [f"{name}={value}" for name, value in settings.items()]
    return Server(
        command=["env", *words, sys.executable, "-m", module],
        port=port,
        url=f"http://127.0.0.1:{port}",
        log=log,
        is_ready=is_alive,
    )


class Stack:
    """Redis, scheduler, api, and a worker played by the test."""

    def __init__(self, folder) -> None:
        (folder / "models" / "tiny").mkdir(parents=True)
        described = json.dumps(asdict(Model(name="tiny", family="sdxl")))
        (folder / "models" / "tiny" / "atelier.json").write_text(described)
        self.redis = redis_server(folder / "redis")
        ports = free_port(), free_port()
        self.settings = {
            "ATELIER_REDIS_URL": self.redis.url,
            "ATELIER_DATA_DIR": str(folder / "data"),
            "ATELIER_MODELS_DIR": str(folder / "models"),
            "ATELIER_URL_SECRET": "a secret",
            "ATELIER_PUBLIC_URL": f"http://127.0.0.1:{ports[0]}",
            "ATELIER_API_PORT": str(ports[0]),
            "ATELIER_SCHEDULER_PORT": str(ports[1]),
            "ATELIER_SCHEDULER_URL": f"http://127.0.0.1:{ports[1]}",
            "ATELIER_MAX_BODY_BYTES": "100000",
            "ATELIER_WORKER_STALE_S": "3600",  # this one reports once for all tests
            "ATELIER_ROUTE_BUDGET_S": "3",  # a stall of the machine is none of the scheduler
        }
        self.scheduler = service("run.scheduler", ports[1], folder / "scheduler.log", self.settings)
        self.api = service("run.api", ports[0], folder / "api.log", self.settings)
        self.client = httpx.Client(base_url=self.api.url, timeout=60)
        self.sync = connect_sync(self.redis.url)
        self.leases = LeaseStore(self.sync, worker="w@test", lease_s=30)
        self.objects = open_objects(
            Settings(
                data_dir=folder / "data",
                url_secret="a secret",
                public_url=self.settings["ATELIER_PUBLIC_URL"],
            )
        )

    def report(self) -> None:
        """Say that a worker holds the model."""
        worker = Worker(
            name="w@test",
            device_type="none",
            models=("tiny",),
            queues=("gen.tiny",),
            memory_gib=4.0,
        )
        Reporter(self.sync).report(worker)

    def submit(self, headers=None, **changes):
        response = self.client.post("/v1/jobs", json=GOOD | changes, headers=headers or {})
        assert response.status_code == 202, response.text
        return response.json()

    def make(self, job_id, *steps):
        """Do what a worker does."""
        claim = self.leases.claim(job_id)
        for step in steps:
            self.leases.progress({job_id: Progress(step=step, steps=30)})
        key = f"default/{job_id}/{claim.fence}/0.png"
        self.objects.put(key, PNG, "image/png")
        image = StoredImage(key=key, width=64, height=64, seed=1, sha256="ab")
        outcome = Outcome(status=JobStatus.SUCCEEDED, images=(image,))
        assert self.leases.finish(job_id, claim.fence, outcome)

    def wait_until(self, is_so, seconds=150):
        until = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < until, "it did not come about"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with ExitStack() as running:
        stack = Stack(tmp_path_factory.mktemp("api"))
        running.callback(stack.redis.stop)
        running.callback(stack.sync.close)
        running.callback(stack.leases.close)
        stack.report()
        for server in (stack.scheduler.start(), stack.api.start()):
            running.callback(server.stop)
        running.enter_context(stack.client)
        stack.wait_until(lambda: stack.client.get("/readyz").is_success)
        stack.wait_until(lambda: stack.client.post("/v1/jobs", json=GOOD).is_success)
        yield stack


def events_of(lines):
    """Read a stream line by line: event, id and data."""
    event = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line and not line.startswith(":"):
            event[name] = value
        elif event and not line:
            yield event | {"data": json.loads(event["data"])}
            event = {}


def test_a_job_goes_from_its_submit_to_a_signed_image(stack):
    job = stack.submit(metadata={"order": "7"})
    assert job["placement"]["placed_by"] == "scheduler"
    assert stack.sync.llen("gen.tiny") >= 1
    with ThreadPoolExecutor() as pool:
        polled = pool.submit(stack.client.get, f"/v1/jobs/{job['id']}?wait=15")
        stack.make(job["id"], 10, 20)
        done = polled.result().json()
    assert (done["status"], done["metadata"]) == ("succeeded", {"order": "7"})
    assert done["timing"]["total_s"] >= done["timing"]["queue_s"] >= 0
    (image,) = done["images"]
    fetched = stack.client.get(image["url"], headers={"Range": "bytes=0-3"})
    assert (fetched.status_code, fetched.content) == (206, PNG[:4])
    assert stack.client.get(image["url"]).content == PNG
    assert stack.client.get(image["url"][:-1]).status_code == 403


def test_the_answer_to_a_submit_is_what_the_store_holds(stack):
    job = stack.submit(seed=5, deadline_s=600)
    read = stack.client.get(f"/v1/jobs/{job['id']}").json()
    ignored = {"created_at", "deadline_at", "queue_position", "eta_s"}
    assert {k: v for k, v in job.items() if k not in ignored} == {
        k: v for k, v in read.items() if k not in ignored
    }
    assert read["created_at"] == pytest.approx(job["created_at"], abs=30)
    assert read["deadline_at"] == pytest.approx(job["deadline_at"], abs=30)


def test_an_edit_is_stored_with_its_own_copy_of_a_kept_template(stack):
    headers = {"content-type": "image/png"}
    kept = stack.client.post("/v1/templates", content=a_photo(), headers=headers)
    assert kept.status_code == 201, kept.text
    template = kept.json()["id"]
    edit = {"task": "edit", "template": template, "mask": data_url(a_mask()), "strength": 0.5}
    job = stack.submit(**edit)
    assert (job["width"], job["height"], job["strength"]) == (64, 64, 0.5)
    assert stack.client.get(kept.json()["url"]).content == stack.objects.get(
        f"default/templates/{template}.png"
    )
    assert stack.client.delete(f"/v1/templates/{template}").json()["deleted"]
    claimed = stack.leases.claim(job["id"]).job.request
    assert claimed.edit.template_sha256 == kept.json()["sha256"]
    images = [opened(stack.objects.get(k)) for k in (claimed.edit.template, claimed.edit.mask)]
    assert [(image.mode, image.size) for image in images] == [("RGB", (64, 64)), ("L", (64, 64))]
    refused = stack.client.post("/v1/jobs", json=GOOD | edit)
    assert refused.json()["errors"][0]["field"] == "template"


def test_many_submits_at_once_are_each_stored_and_queued_once(stack):
    before = stack.sync.llen("gen.tiny")
    with ThreadPoolExecutor(16) as pool:
        ids = {job["id"] for job in pool.map(lambda i: stack.submit(seed=i), range(100))}
    assert len(ids) == 100
    assert stack.sync.llen("gen.tiny") == before + 100
    assert all(stack.sync.exists(f"job:{job_id}") for job_id in ids)


def test_a_key_sent_many_times_at_once_makes_one_job(stack):
    headers = {"Idempotency-Key": "race"}
    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda _: stack.submit(headers), range(8)))
    assert len({job["id"] for job in jobs}) == 1
    other = stack.client.post("/v1/jobs", json=GOOD | {"n": 2}, headers=headers)
    assert other.status_code == 409


def test_a_stream_resumes_where_it_was_cut(stack):
    job_id = stack.submit()["id"]
    url = f"/v1/jobs/{job_id}/events"
    with stack.client.stream("GET", url) as response:
        stream = events_of(response.iter_lines())
        assert next(stream)["data"] == {"status": "queued"}
        claim = stack.leases.claim(job_id)
        stack.leases.progress({job_id: Progress(step=1, steps=30)})
        seen = [next(stream), next(stream)]
    assert [e["event"] for e in seen] == ["status", "progress"]
    stack.leases.progress({job_id: Progress(step=2, steps=30)})
    stack.leases.finish(job_id, claim.fence, Outcome(status=JobStatus.SUCCEEDED))
    with stack.client.stream("GET", url, headers={"Last-Event-ID": seen[-1]["id"]}) as response:
        rest = list(events_of(response.iter_lines()))
    assert [e["event"] for e in rest] == ["progress", "done"]
    assert rest[0]["data"]["step"] == 2
    assert rest[1]["data"]["id"] == job_id


def test_a_cancel_tells_the_worker_and_ends_the_stream(stack):
    job_id = stack.submit()["id"]
    stack.leases.claim(job_id)
    assert stack.client.post(f"/v1/jobs/{job_id}/cancel").json()["status"] == "canceled"
    with stack.client.stream("GET", f"/v1/jobs/{job_id}/events") as response:
        assert list(events_of(response.iter_lines()))[-1]["data"]["status"] == "canceled"


def test_a_list_is_read_page_by_page(stack):
    ids, found, cursor = [], [], None
    for _ in range(5):
        ids.append(stack.submit()["id"])
        time.sleep(0.002)  # jobs of one millisecond come in any order
    while len(found) < 5:
        page = stack.client.get(
            "/v1/jobs", params={"limit": 2, "cursor": cursor} if cursor else {"limit": 2}
        )
        found += [job["id"] for job in page.json()["data"]]
        cursor = page.json()["cursor"]
    assert found[:5] == ids[::-1]


def test_bad_input_leaves_the_store_as_it_was(stack):
    before = stack.sync.dbsize(), stack.sync.llen("gen.tiny")
    for body in (b"{", b'{"prompt": ""}', b'{"prompt": "a", "mask": "x"}', b"x" * 200_000):
        headers = {"Content-Type": "application/json"}
        response = stack.client.post("/v1/jobs", content=body, headers=headers)
        assert response.status_code in (413, 422)
        assert response.headers["content-type"] == "application/problem+json"
    assert (stack.sync.dbsize(), stack.sync.llen("gen.tiny")) == before


def test_a_body_without_an_end_is_cut_off(stack):
    with socket.create_connection(("127.0.0.1", stack.api.port), timeout=10) as connection:
        connection.sendall(
            b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        answer = b""
        chunk = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
        for _ in range(100):
            try:
                connection.sendall(chunk)
            except OSError:
                break
        connection.settimeout(10)
        while b"\r\n\r\n" not in answer:
            received = connection.recv(65536)
            if not received:
                break
            answer += received
    assert b" 413 " in answer.split(b"\r\n")[0]


def test_when_the_scheduler_is_gone_the_plan_places(stack):
    stack.scheduler.kill()
    try:
        job = stack.submit()
        assert job["placement"]["placed_by"] == "plan"
        missing = stack.client.get("/readyz").json()["missing"]
        assert missing == ["scheduler"]
    finally:
        stack.scheduler.restart()
    stack.wait_until(lambda: stack.submit()["placement"]["placed_by"] == "scheduler")


def test_a_scheduler_that_hangs_costs_its_budget_once(stack):
    stack.scheduler.pause()
    try:
        jobs = [stack.submit() for _ in range(3)]
        assert {job["placement"]["placed_by"] for job in jobs} == {"plan"}
    finally:
        stack.scheduler.resume()
    stack.wait_until(lambda: stack.submit()["placement"]["placed_by"] == "scheduler")


def test_when_the_store_is_gone_it_is_named_and_a_retry_with_the_key_is_safe(stack):
    headers = {"Idempotency-Key": "over-a-crash"}
    job = stack.submit(headers)
    # What the system has a crash of the server alone does not lose.
    stack.wait_until(lambda: stack.sync.info("persistence")["aof_buffer_length"] == 0)
    stack.redis.kill()
    try:
        for response in (
            stack.client.post("/v1/jobs", json=GOOD),
            stack.client.get(f"/v1/jobs/{job['id']}"),
        ):
            assert response.status_code == 503
            assert response.json()["dependency"] == "store"
            assert response.headers["retry-after"]
        assert "store" in stack.client.get("/readyz").json()["missing"]
        assert stack.client.get("/healthz").is_success
        assert "atelier_store_up 0.0" in stack.client.get("/metrics").text
    finally:
        stack.redis.restart()
    stack.wait_until(lambda: stack.client.get(f"/v1/jobs/{job['id']}").is_success)
    stack.report()
    assert stack.submit(headers)["id"] == job["id"]


def test_metrics_count_what_the_scripts_counted(stack):
    job_id = stack.submit()["id"]
    stack.client.post(f"/v1/jobs/{job_id}/cancel")
    text = stack.client.get("/metrics").text
    assert 'atelier_jobs_total{status="canceled",task="generate"}' in text
    assert 'atelier_num_requests_waiting{queue="gen.tiny"}' in text


def test_without_keys_the_api_does_not_listen_beyond_loopback(stack):
    beyond = os.environ | stack.settings | {"ATELIER_API_HOST": "0.0.0.0"}
    command = [sys.executable, "-m", "run.api"]
    ended = subprocess.run(command, env=beyond, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "ATELIER_API_KEYS" in ended.stderr


def test_a_store_without_memory_refuses_new_jobs_and_ends_those_it_has(stack):
    accepted = stack.submit()["id"]
    with stack.sync.client() as client:
        client.config_set("maxmemory", 1)
        try:
            response = stack.client.post("/v1/jobs", json=GOOD)
            assert response.status_code == 503
            assert response.json()["dependency"] == "store"
            assert "retry-after" in response.headers
            stack.make(accepted, 1, 2)
            assert stack.client.get(f"/v1/jobs/{accepted}").json()["status"] == "succeeded"
        finally:
            client.config_set("maxmemory", 0)
    stack.submit()


def test_a_store_that_would_forget_is_refused_at_the_start_and_while_it_runs(stack):
    stack.sync.config_set("appendonly", "no")
    try:
        command = [sys.executable, "-m", "run.api"]
        env = os.environ | stack.settings
        ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 1
        assert "`appendonly yes`" in ended.stderr and "Traceback" not in ended.stderr
        stack.wait_until(lambda: not stack.client.get("/readyz").is_success)
        answer = stack.client.get("/readyz").json()
        assert answer["missing"] == ["store"] and "`appendonly yes`" in answer["detail"]
    finally:
        stack.sync.config_set("appendonly", "yes")
    stack.wait_until(lambda: stack.client.get("/readyz").is_success)


@pytest.mark.long
def test_while_the_store_stalls_nobody_is_lost_and_the_api_answers(stack):
    job_id = stack.submit()["id"]
    path, claim = f"/v1/jobs/{job_id}/events", stack.leases.claim(job_id)
    with stack.client.stream("GET", path) as response, ThreadPoolExecutor(9) as threads:
        stream = events_of(response.iter_lines())
        assert next(stream)["event"] == "status"
        stack.redis.pause()
        asked = [threads.submit(httpx.get, f"{stack.api.url}{path[:-7]}?wait=9", timeout=30)]
        asked += [
            threads.submit(httpx.post, f"{stack.api.url}/v1/jobs", json=GOOD, timeout=30)
            for _ in range(8)
        ]
        until = time.monotonic() + 6  # longer than one answer is waited for
        while time.monotonic() < until:
            assert httpx.get(f"{stack.api.url}/healthz", timeout=5).is_success
            time.sleep(0.05)
        stack.redis.resume()
        assert [each.result().status_code for each in asked[1:]] == [202] * 8
        stack.leases.finish(job_id, claim.fence, Outcome(status=JobStatus.SUCCEEDED))
        assert list(stream)[-1]["event"] == "done"
        assert asked[0].result().json()["status"] == "succeeded"


def test_a_stream_goes_on_at_another_api_when_its_own_is_lost(stack, tmp_path):
    port = free_port()
    settings = stack.settings | {"ATELIER_API_PORT": str(port)}
    other = service("run.api", port, tmp_path / "other.log", settings).start()
    job_id = stack.submit()["id"]
    path, claim = f"/v1/jobs/{job_id}/events", stack.leases.claim(job_id)
    with httpx.stream("GET", other.url + path, timeout=60) as response:
        stream = events_of(response.iter_lines())
        stack.leases.progress({job_id: Progress(step=1, steps=3)})
        seen = next(each for each in stream if each["event"] == "progress")
        other.kill()
    for step in (2, 3):
        stack.leases.progress({job_id: Progress(step=step, steps=3)})
    stack.leases.finish(job_id, claim.fence, Outcome(status=JobStatus.SUCCEEDED))
    with stack.client.stream("GET", path, headers={"Last-Event-ID": seen["id"]}) as response:
        rest = list(events_of(response.iter_lines()))
    assert [e["data"]["step"] for e in [seen, *rest[:-1]]] == [1, 2, 3]
    assert rest[-1]["event"] == "done"


def test_a_stopping_api_ends_open_streams_and_does_not_wait_for_them(stack):
    job_id = stack.submit()["id"]
    with stack.client.stream("GET", f"/v1/jobs/{job_id}/events") as response:
        lines = response.iter_lines()
        next(lines)
        process = stack.api.process
        process.send_signal(signal.SIGTERM)
        assert ": this server stops: connect again" in list(lines)
        process.wait(60)
    stack.api.restart()
    stack.wait_until(lambda: stack.client.get("/readyz").is_success)
