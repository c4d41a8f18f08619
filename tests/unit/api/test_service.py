"""What operators and clients ask about the service itself."""

import asyncio
import json
import threading
from dataclasses import replace

import pytest

from api.intake.schemas import JobCreate
from api.routes import health, metrics
from api.services.requests import parse
from api.services.startup_checks import check
from core.errors import ConfigurationError
from core.settings import Settings
from run.api import check_binding, is_loopback
from storage.fakes import MemoryObjects
from storage.objects.directory import DirectoryStore
from tests.unit.api.conftest import PLAN

GOOD = {"prompt": "a red circle", "model": "small"}


async def test_a_process_is_alive_whatever_is_down(client, stack):
    stack.is_store_up = stack.scheduler.is_up = False
    assert (await client.get("/healthz")).json() == {"status": "ok"}


async def test_the_service_is_ready_while_a_worker_changes_its_model(client, stack):
    stack.report()
    await stack.publish(replace(PLAN, assignments={"w1@h": "large"}))
    assert (await client.get("/readyz")).status_code == 200


async def test_the_service_is_ready_once_everything_answers(client, stack):
    stack.report()
    assert (await client.get("/readyz")).json()["missing"] == ["worker"]  # and no plan yet
    await stack.publish()
    response = await client.get("/readyz")
    assert (response.status_code, response.json()) == (200, {"status": "ready"})


async def test_the_service_is_not_ready_before_the_api_has_heard_of_a_worker(client, stack):
    """Else the first jobs would be answered without an `eta_s`."""
    stack.report()
    await stack.publish()
    stack.look([])
    assert (await client.get("/readyz")).json()["missing"] == ["worker"]


async def test_models_that_cannot_be_loaded_are_named_with_their_reasons(client, stack):
    stack.report()
    (worker,) = stack.services.fleet
    said = {"small": "BadWeights: small/unet: truncated"}
    stack.look([replace(worker, models=(), failures=said)])
    await stack.publish(replace(PLAN, assignments={}))
    answer = (await client.get("/readyz")).json()
    assert answer["missing"] == ["worker"]
    assert "small: BadWeights: small/unet: truncated" in answer["detail"]


async def test_what_is_missing_is_named(client, stack):
    def missing(response):
        assert response.status_code == 503
        assert response.headers["retry-after"]
        return response.json()["missing"]

    await stack.publish()
    assert missing(await client.get("/readyz")) == ["worker"]
    stack.report()
    stack.scheduler.is_up = False
    assert missing(await client.get("/readyz")) == ["scheduler"]
    stack.is_store_up = False
    assert missing(await client.get("/readyz")) == ["store", "scheduler"]


async def test_a_store_that_would_lose_jobs_is_named_with_what_to_write(client, stack):
    await stack.publish()
    stack.report()
    stack.store_faults = ("appendonly is no: write `appendonly yes`",)
    answer = (await client.get("/readyz")).json()
    assert answer["missing"] == ["store"]
    assert "`appendonly yes`" in answer["detail"]


async def test_objects_that_cannot_be_written_are_named(stack):
    stack.objects = DirectoryStore(stack.folder / "file", public_url="", secret=b"s")
    (stack.folder / "file").write_text("where the folder should be")
    async with stack.client() as client:
        await stack.publish()
        stack.report()
        response = await client.get("/readyz")
        assert (response.status_code, response.json()["missing"]) == (503, ["objects"])


class Objects(MemoryObjects):
    """Counts writes, and holds them until released."""

    def __init__(self):
        super().__init__()
        self.written, self.released = [], threading.Event()

    def put(self, key, data, content_type):
        self.written.append(key)
        self.released.wait(60)
        super().put(key, data, content_type)


async def test_objects_that_hang_are_tried_by_one_thread_however_often_we_are_asked(
    stack, monkeypatch
):
    stack.objects = objects = Objects()
    monkeypatch.setattr(health, "BUDGET_S", 0.01)
    try:
        async with stack.client() as client:
            for _ in range(5):
                assert "objects" in (await client.get("/readyz")).json()["missing"]
        assert len(objects.written) == 1
    finally:
        objects.released.set()


async def test_many_who_ask_share_one_write_which_leaves_nothing(stack):
    stack.objects = objects = Objects()
    objects.released.set()
    async with stack.client() as client:
        await asyncio.gather(*(client.get("/readyz") for _ in range(20)))
        await client.get("/readyz")
    assert len(objects.written) == 1
    assert objects.objects == {}


async def test_models_are_listed_with_their_limits(client, stack):
    stack.report()
    stack.look(await stack.fleet.read(60))
    listed = (await client.get("/v1/models")).json()
    small, large = listed["data"]
    assert (small["id"], small["levels"], small["is_resident"]) == ("small", ["small@0"], True)
    assert large["sizes"] == {"default": 128, "min": 128, "max": 256, "multiple": 32}
    assert large["is_resident"] is False
    assert small["steps"] == {"default": 30, "max": 100}
    assert listed["samplers"]["lcm"] == 50
    assert small["samplers"] == [*listed["samplers"]]
    assert listed["max_images"] == 4
    assert small["tasks"] == ["generate", "edit"]


async def test_the_plan_is_shown_once_there_is_one(client, stack):
    assert (await client.get("/v1/plan")).status_code == 404
    await stack.publish()
    plan = (await client.get("/v1/plan")).json()
    assert plan["workers"] == {"w1@h": "small", "w2@h": "large"}
    assert {"demand", "affinity", "levels", "pasm", "saturation", "version"} <= plan.keys()


async def test_the_fleet_is_shown_with_its_queues(client, stack):
    stack.report()
    await client.post("/v1/jobs", json=GOOD)
    fleet = (await client.get("/v1/fleet")).json()
    assert [w["name"] for w in fleet["workers"]] == ["w1@h"]
    assert {q["queue"]: q["waiting"] for q in fleet["queues"]} == {"gen.small": 1, "gen.large": 0}


async def test_metrics_come_from_the_store(client, stack):
    stack.report()
    await stack.publish()
    job = (await client.post("/v1/jobs", json=GOOD)).json()
    await client.post("/v1/jobs", json=GOOD)
    await client.post(f"/v1/jobs/{job['id']}/cancel")
    text = (await client.get("/metrics")).text
    lines = set(text.splitlines())
    assert 'atelier_jobs_total{status="canceled",task="generate"} 1.0' in lines
    assert 'atelier_num_requests_waiting{queue="gen.small"} 1.0' in lines
    assert 'atelier_num_requests_running{model="small",worker="w1@h"} 0.0' in lines
    assert "atelier_saturation 0.0" in lines
    assert "atelier_store_up 1.0" in lines
    assert job["id"] not in text and "red circle" not in text


async def test_metrics_without_a_store_say_so(client, stack):
    stack.is_store_up = False
    response = await client.get("/metrics")
    assert response.status_code == 200
    assert "atelier_store_up 0.0" in response.text


class HungFleet:
    """Never answers."""

    async def read(self, stale_s):
        await asyncio.Event().wait()


async def test_metrics_of_a_store_that_hangs_say_so(client, stack, monkeypatch):
    monkeypatch.setattr(metrics, "BUDGET_S", 0.01)
    stack.fleet = HungFleet()
    response = await client.get("/metrics")
    assert response.status_code == 200
    assert "atelier_store_up 0.0" in response.text


async def test_the_description_is_shown_without_another_machine(client):
    page = (await client.get("/docs")).text
    assert "https://" not in page and "http://" not in page
    parts = {"js": "text/javascript", "css": "text/css"}
    for name in ("swagger-ui-bundle.js", "swagger-ui.css", "reference.js", "reference.css"):
        assert f'"docs/{name}"' in page
        part = await client.get(f"/docs/{name}")
        assert part.status_code == 200
        assert part.headers["content-type"].startswith(parts[name.rpartition(".")[2]])
    assert (await client.get("/docs/reference.html")).status_code == 404


async def test_the_api_is_described_with_examples(client):
    described = (await client.get("/openapi.json")).json()
    job = described["components"]["schemas"]["JobCreate"]
    assert job["examples"][0] == {"prompt": "a red circle"}
    assert job["additionalProperties"] is False
    body = described["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]
    assert body["schema"] == {"$ref": "#/components/schemas/JobCreate"}
    assert any(example.get("task") == "edit" for example in job["examples"])
    for example in job["examples"]:
        parse(JobCreate, json.dumps(example).encode())
    paths = described["paths"]
    assert {"/v1/models", "/v1/plan", "/v1/fleet", "/v1/jobs/{job_id}/events"} <= paths.keys()
    for shelf in ("/v1/templates", "/v1/files"):
        assert (paths[shelf].keys(), paths[f"{shelf}/{{upload_id}}"].keys()) == (
            {"get", "post"},
            {"get", "delete"},
        )
        assert "image/png" in paths[shelf]["post"]["requestBody"]["content"]


async def test_every_schema_the_description_refers_to_is_there(client):
    text = (await client.get("/openapi.json")).text
    schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
    referred = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert referred <= schemas.keys()


async def test_a_request_id_is_taken_over_if_it_is_plain(client):
    given = await client.get("/healthz", headers={"X-Request-Id": "abc-1"})
    assert given.headers["x-request-id"] == "abc-1"
    for odd in ("a b", "x" * 200, "a;b"):
        own = await client.get("/healthz", headers={"X-Request-Id": odd})
        assert own.headers["x-request-id"] != odd


async def test_the_access_log_has_no_query_and_no_prompt(client, logs):
    await client.post("/v1/jobs?token=hush", json=GOOD | {"prompt": "a private wish"})
    (entry,) = [e for e in logs if e["event"] == "request"]
    assert (entry["method"], entry["path"], entry["status"]) == ("POST", "/v1/jobs", 202)
    assert "hush" not in repr(logs) and "private" not in repr(logs)


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://api.test"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ],
)
async def test_without_keys_a_page_of_another_site_changes_nothing(client, stack, headers):
    for path in ("/v1/webhooks/secret/rotate", "/v1/urls/revoke"):
        assert (await client.post(path, headers=headers)).status_code == 403
    assert not stack.store.tables.get("tenants")
    assert (await client.get("/v1/jobs", headers=headers)).status_code == 200  # nobody can read it
    own = {"sec-fetch-site": "same-origin", "origin": "http://api.test"}
    assert (await client.post("/v1/urls/revoke", headers=own)).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_a_service_without_keys_stays_on_this_machine(host):
    assert is_loopback(host)
    check_binding(Settings(api_host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.com", ""])
def test_a_service_without_keys_refuses_to_listen_beyond_loopback(host):
    with pytest.raises(ConfigurationError, match="ATELIER_API_KEYS"):
        check_binding(Settings(api_host=host))
    check_binding(Settings(api_host=host, api_keys={"k": "tenant"}))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"api_keys": {"k": "../x"}}, "ATELIER_API_KEYS"),
        ({"url_secret": ""}, "ATELIER_URL_SECRET"),
        ({"models_dir": "broken"}, "atelier.json"),
    ],
)
def test_what_cannot_work_is_found_before_anybody_connects(tmp_path, change, named):
    (tmp_path / "broken" / "m").mkdir(parents=True)
    (tmp_path / "broken" / "m" / "atelier.json").write_text("{")
    good = {"data_dir": tmp_path, "url_secret": "s", "models_dir": tmp_path / "none"}
    if "models_dir" in change:
        change = {"models_dir": tmp_path / "broken"}
    check(Settings(**good))
    with pytest.raises(ConfigurationError, match=named):
        check(Settings(**(good | change)))
