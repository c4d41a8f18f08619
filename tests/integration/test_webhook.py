"""Webhooks from the script that ends a job to a receiver, and back again when it fails."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from standardwebhooks.webhooks import Webhook

from core.job import JobStatus, WebhookTarget
from storage.jobs.outbox import Outbox
from storage.redis.connect import connect
from tests.rig import SECRET, a_rig, new_job

pytestmark = pytest.mark.integration


class Receiver(ThreadingHTTPServer):
    """Notes what arrives and answers what it is told to, by path."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls, self.answers = [], {}
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def of(self, path):
        return [call for call in self.calls if call[0] == path]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.calls.append((self.path, dict(self.headers), body))
        answers = self.server.answers.get(self.path, [])
        status, headers = answers.pop(0) if answers else (204, {})
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args):
        return None


@pytest.fixture(scope="module")
def receiver():
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever)
        thread.start()
        yield receiver
        receiver.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    with a_rig(tmp_path_factory.mktemp("rig")) as rig:
        rig.upkeep()
        rig.cpu_worker()
        rig.worker("w")
        rig.wait_for_worker("w")
        yield rig


def finish_a_job(rig, url, *, steps=20, **target):
    job = new_job(steps=steps, webhook=WebhookTarget(url=url, **target))
    rig.submit(job)
    rig.wait_for(job.id, JobStatus.SUCCEEDED)
    return job.id


def outbox(rig, ask):
    async def go():
        redis = connect(rig.redis.url)
        try:
            return await ask(Outbox(redis))
        finally:
            await redis.aclose()

    return asyncio.run(go())


def dead_ids(rig):
    return [each.delivery.id for each in outbox(rig, lambda o: o.list_dead("t", limit=100)).dead]


def test_the_end_of_a_job_is_told_with_a_signature_that_verifies(rig, receiver):
    job_id = finish_a_job(rig, receiver.url + "/good")
    rig.wait_until(lambda: receiver.of("/good"))
    [(_, headers, body)] = receiver.of("/good")
    said = Webhook(SECRET).verify(body, headers)
    assert said["type"] == "job.completed"
    assert said["data"]["id"] == job_id
    assert said["data"]["status"] == "succeeded"
    assert said["data"]["images"][0]["url"].startswith("http")
    assert len(body) < 20_000
    rig.wait_until(lambda: rig.stats().get("webhooks:delivered", 0) >= 1)


def test_a_receiver_that_fails_gets_the_same_webhook_again(rig, receiver):
    receiver.answers["/flaky"] = [(500, {})]
    finish_a_job(rig, receiver.url + "/flaky")
    rig.wait_until(lambda: len(receiver.of("/flaky")) == 2)
    (_, first, one), (_, second, two) = receiver.of("/flaky")
    assert first["webhook-id"] == second["webhook-id"]
    assert first["webhook-timestamp"] < second["webhook-timestamp"]
    assert json.loads(one)["data"]["id"] == json.loads(two)["data"]["id"]
    Webhook(SECRET).verify(two, second)


def test_a_receiver_that_is_gone_is_given_up_and_can_be_replayed(rig, receiver):
    receiver.answers["/gone"] = [(410, {})]
    job_id = finish_a_job(rig, receiver.url + "/gone")
    rig.wait_until(lambda: any(job_id in name for name in dead_ids(rig)))
    [name] = [name for name in dead_ids(rig) if job_id in name]
    assert outbox(rig, lambda o: o.replay(name))
    rig.wait_until(lambda: len(receiver.of("/gone")) == 2)
    ids = {headers["webhook-id"] for _, headers, _ in receiver.of("/gone")}
    assert ids == {name}
    assert job_id not in " ".join(dead_ids(rig))


def test_a_redirect_is_a_failure_and_is_not_followed(rig, receiver):
    receiver.answers["/moved"] = [(302, {"Location": receiver.url + "/trap"})] * 2
    finish_a_job(rig, receiver.url + "/moved")
    rig.wait_until(lambda: rig.stats().get("webhooks:retried", 0) >= 2)
    assert not receiver.of("/trap")


def test_a_receiver_that_asks_for_time_gets_it(rig, receiver):
    receiver.answers["/busy"] = [(429, {"Retry-After": "600"})]
    job_id = finish_a_job(rig, receiver.url + "/busy")
    rig.wait_until(lambda: receiver.of("/busy"))
    with rig.client() as client:
        name = f"{job_id}:completed"
        now = client.time()[0]
        rig.wait_until(lambda: client.zscore("outbox", name) / 1e3 - now > 500)


def test_the_start_and_the_progress_of_a_job_are_told_if_asked_for(rig, receiver):
    told = ("started", "progress", "completed")
    finish_a_job(rig, receiver.url + "/all", steps=200, events=told)
    types = {"job.started", "job.progress", "job.completed"}
    rig.wait_until(
        lambda: {json.loads(body)["type"] for _, _, body in receiver.of("/all")} == types
    )
