import pytest

from api.services.auth import Keyring
from core.errors import ConfigurationError
from tests.unit.api.conftest import Stack

KEYS = {"key-a": "anna", "key-b": "bert"}
GOOD = {"prompt": "a red circle", "model": "small"}


@pytest.fixture
def stack(tmp_path):
    return Stack(tmp_path, api_keys=KEYS)


@pytest.mark.parametrize(
    "header", [None, "key-a", "Basic key-a", "Bearer", "Bearer wrong", "Bearer key-a key-b"]
)
async def test_without_a_key_nothing_is_told(client, stack, header):
    headers = {"Authorization": header} if header else {}
    for method, path in [
        ("POST", "/v1/jobs"),
        ("GET", "/v1/jobs"),
        ("GET", "/v1/jobs/x"),
        ("GET", "/v1/jobs/x/events"),
        ("POST", "/v1/jobs/x/cancel"),
        ("GET", "/v1/models"),
        ("GET", "/v1/fleet"),
        ("GET", "/v1/plan"),
    ]:
        response = await client.request(method, path, headers=headers)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.headers["content-type"] == "application/problem+json"
    assert stack.is_untouched()


async def test_a_key_that_is_not_ascii_is_just_wrong(client):
    response = await client.get("/v1/jobs", headers={"Authorization": "Bearer ü".encode()})
    assert response.status_code == 401


async def test_another_tenants_job_does_not_exist(stack):
    async with stack.client(Authorization="Bearer key-a") as anna:
        job = (await anna.post("/v1/jobs", json=GOOD)).json()
        bert = {"Authorization": "Bearer key-b"}
        for method, path in [("GET", ""), ("GET", "/events"), ("POST", "/cancel")]:
            response = await anna.request(method, f"/v1/jobs/{job['id']}{path}", headers=bert)
            assert response.status_code == 404
        assert (await anna.get("/v1/jobs", headers=bert)).json()["data"] == []
        assert (await anna.get(f"/v1/jobs/{job['id']}")).json()["status"] == "queued"


async def test_tenants_may_use_the_same_idempotency_key(stack):
    async with stack.client() as client:
        ids = set()
        for key in KEYS:
            headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "1"}
            ids.add((await client.post("/v1/jobs", json=GOOD, headers=headers)).json()["id"])
    assert len(ids) == 2


async def test_health_metrics_and_the_page_need_no_key(client):
    for path in ("/healthz", "/metrics", "/", "/docs", "/openapi.json"):
        assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize("keys", [{"k": "../x"}, {"k": ""}, {"": "anna"}, {"k": "a/b"}])
def test_keys_that_cannot_work_end_the_process_at_start(keys):
    with pytest.raises(ConfigurationError, match="ATELIER_API_KEYS"):
        Keyring(keys, public_url="http://api.test")


async def test_without_keys_a_page_of_another_name_is_turned_away(tmp_path):
    async with Stack(tmp_path, api_keys={}).client() as client:
        listed = [
            (await client.get("/v1/jobs", headers={"host": host})).status_code
            for host in ("api.test", "127.0.0.1:8000", "[::1]:8000", "localhost", "rebound.example")
        ]
    assert listed == [200, 200, 200, 200, 401]
