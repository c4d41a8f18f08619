from urllib.parse import urlsplit

import pytest
from standardwebhooks.webhooks import Webhook

from core.job import JobStatus, StoredImage
from storage.jobs.leases import Outcome
from storage.tenants.webhook_secret import signing
from tasks.jobs.webhook import headers
from tests.unit.api.conftest import Stack
from tests.unit.api.routes.tenants.test_keys import GOOD, by

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEYS = {"set": "anna", "other": "bolt"}


@pytest.fixture
def stack(tmp_path):
    return Stack(tmp_path, api_keys=KEYS, operator_keys=("boss",), webhook_secret=SECRET)


@pytest.fixture
async def client(stack):
    async with stack.client(Authorization="Bearer set") as client:
        yield client


async def test_a_secret_that_others_share_is_not_told_and_one_of_its_own_is(client, stack):
    refused = await client.get("/v1/webhooks/secret")
    assert refused.status_code == 404 and "rotate" in refused.json()["detail"]
    made = await client.post("/v1/webhooks/secret/rotate?overlap_s=60")
    assert made.status_code == 201 and made.headers["cache-control"] == "no-store"
    told = (await client.get("/v1/webhooks/secret")).json()
    assert told == made.json()
    assert (told["tenant"], told["is_own"], len(told["others_end_at"])) == ("anna", True, 1)
    facade = (await client.get("/v1/webhooks/default/secret")).json()
    assert facade == {"key": told["secret"]}
    assert (await client.get("/v1/webhooks/secret", headers=by("other"))).status_code == 404
    assert told["secret"] not in repr(stack.store.tables)


async def test_a_rotated_secret_is_another_and_verifies(client, stack):
    first = (await client.post("/v1/webhooks/secret/rotate")).json()["secret"]
    second = (await client.post("/v1/webhooks/secret/rotate")).json()
    assert second["secret"] != first and len(second["others_end_at"]) == 2
    signed = headers("j1", b"{}", [second["secret"]])
    assert Webhook(second["secret"]).verify(b"{}", signed) == {}
    last = (await client.post("/v1/webhooks/secret/rotate?overlap_s=0")).json()
    assert last["others_end_at"] == []
    (only,) = signing(stack.store.tables["tenants"]["anna"].salts, last["created_at"] + 1)
    assert only.salt not in last["secret"]


async def test_who_is_alone_is_told_that_of_the_service(tmp_path):
    async with Stack(tmp_path, webhook_secret=SECRET).client() as client:
        told = (await client.get("/v1/webhooks/secret")).json()
    assert (told["secret"], told["is_own"], told["created_at"]) == (SECRET, False, 0.0)


async def test_an_api_that_knows_no_secret_makes_none(tmp_path):
    async with Stack(tmp_path).client() as client:
        refused = await client.post("/v1/webhooks/secret/rotate")
    assert refused.status_code == 404 and "ATELIER_WEBHOOK_SECRET" in refused.json()["detail"]


async def test_operators_rotate_for_a_tenant_and_tenants_for_nobody_else(client):
    made = await client.post("/v1/webhooks/secret/rotate?tenant=anna", headers=by("boss"))
    assert (await client.get("/v1/webhooks/secret")).json() == made.json()
    refused = await client.post("/v1/webhooks/secret/rotate?tenant=bolt")
    assert refused.status_code == 403


async def an_image(client, stack, key):
    """Have an image made; return its job and its URL without a host."""
    job = (await client.post("/v1/jobs", json=GOOD, headers=by(key))).json()
    claim = stack.leases.claim(job["id"])
    place = f"{KEYS[key]}/{job['id']}/1/0.png"
    stack.objects.put(place, b"png", "image/png")
    image = StoredImage(key=place, width=1, height=1, seed=0, sha256="")
    outcome = Outcome(status=JobStatus.SUCCEEDED, images=(image,))
    assert stack.leases.finish(job["id"], claim.fence, outcome)
    return job["id"], await url_of(client, job["id"], key)


async def url_of(client, job_id, key):
    shown = (await client.get(f"/v1/jobs/{job_id}", headers=by(key))).json()
    parts = urlsplit(shown["images"][0]["url"])
    return f"{parts.path}?{parts.query}"


async def test_urls_that_were_taken_back_work_no_more_and_new_ones_do(client, stack):
    job_id, old = await an_image(client, stack, "set")
    _, others = await an_image(client, stack, "other")
    assert (await client.get(old)).status_code == 200
    revoked = await client.post("/v1/urls/revoke")
    assert revoked.json() == {"object": "urls", "tenant": "anna", "revoked": True}
    refused = await client.get(old)
    assert refused.status_code == 403 and "taken back" in refused.json()["detail"]
    new = await url_of(client, job_id, "set")
    assert (await client.get(new)).status_code == 200
    assert (await client.get(others)).status_code == 200
    for forged in (new.replace("epoch=1", "epoch=2"), old + "&epoch=1", old + "&epoch=x"):
        assert (await client.get(forged)).status_code == 403


async def test_what_s3_serves_cannot_be_taken_back_and_that_is_said(tmp_path):
    stack = Stack(tmp_path)
    stack.objects = object()
    async with stack.client() as client:
        refused = await client.post("/v1/urls/revoke")
    assert refused.status_code == 409 and "S3" in refused.json()["detail"]
