import asyncio
import time
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from core.job import JobStatus, StoredImage
from storage.fakes import MemoryTable
from storage.jobs.leases import Outcome
from storage.tenants.tenant import Tenant
from storage.tenants.webhook_secret import derive, signing
from tasks.jobs.webhook import headers
from tests.unit.api.conftest import Stack
from tests.unit.api.routes.tenants.test_keys import GOOD, by

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEYS = {"set": "anna", "other": "bolt"}


class RacingTable(MemoryTable):
    """Lets nobody write before two have read that there is nothing, once they race."""

    race: asyncio.Barrier | None = None

    async def read(self):
        found = await super().read()
        if self.race is not None and not found.rows:
            await self.race.wait()
        return found


class TwoProcesses(Stack):
    """Two api processes over one table of tenants, where each reads before the other writes."""

    def __init__(self, tmp_path, **settings):
        super().__init__(tmp_path, **settings)
        self.tenants = RacingTable(self.store, "tenants", lambda tenant: tenant.name)

    def _clients(self, scheduler):
        return replace(super()._clients(scheduler), tenants=self.tenants)


@pytest.fixture
def stack(tmp_path):
    return Stack(tmp_path, api_keys=KEYS, operator_keys=("boss",), webhook_secret=SECRET)


@pytest.fixture
async def client(stack):
    async with stack.client(Authorization="Bearer set") as client:
        yield client


def signed_for(stack, name):
    """Sign as a CPU worker does that has a webhook of a tenant to post."""
    tenant = stack.store.tables["tenants"].get(name) or Tenant(name=name)
    return headers(
        "j1", b"{}", [derive(SECRET, name, each) for each in signing(tenant.salts, time.time())]
    )


async def read(client, key="set", query=""):
    response = await client.get(f"/v1/webhooks/secret{query}", headers=by(key))
    assert response.status_code == 200, response.text
    assert response.headers["cache-control"] == "no-store"
    return response.json()


def drawn(logs):
    return [each for each in logs if each["event"] == "webhook_secret_drawn"]


async def test_who_has_a_key_is_told_a_secret_of_its_own(client, stack, logs):
    told = await read(client)
    assert (told["tenant"], told["is_own"]) == ("anna", True)
    assert told["others_end_at"] == []  # that of the service signs on
    assert await read(client) == told
    facade = (await client.get("/v1/webhooks/default/secret")).json()
    assert facade == {"key": told["secret"]}
    assert (await read(client, "other"))["secret"] not in (told["secret"], SECRET)
    assert [(each["tenant"], each["by_tenant"]) for each in drawn(logs)] == [
        ("anna", "anna"),
        ("bolt", "bolt"),
    ]
    assert told["secret"] not in repr(stack.store.tables) + repr(logs)


async def test_who_was_alone_can_sign_nothing_for_those_who_come_later(tmp_path):
    stack = Stack(
        tmp_path, api_keys={"set": "anna"}, operator_keys=("boss",), webhook_secret=SECRET
    )
    async with stack.client(Authorization="Bearer set") as client:
        told = {(await client.get("/v1/webhooks/default/secret")).json()["key"]}
        told |= {(await read(client))["secret"]}
        made = await client.post("/v1/keys", json={"tenant": "bolt"}, headers=by("boss"))
        later = made.json()["key"]
        for secret in told:
            with pytest.raises(WebhookVerificationError):
                Webhook(secret).verify(b"{}", signed_for(stack, "bolt"))
        assert (await read(client, later))["secret"] not in told
        assert SECRET not in told and len(told) == 1


async def test_receivers_that_have_the_secret_of_the_service_go_on_until_it_is_rotated(
    client, stack
):
    told = await read(client)
    for secret in (told["secret"], SECRET):
        assert Webhook(secret).verify(b"{}", signed_for(stack, "anna")) == {}
    await client.post("/v1/webhooks/secret/rotate?overlap_s=60")
    assert Webhook(SECRET).verify(b"{}", signed_for(stack, "anna")) == {}
    await client.post("/v1/webhooks/secret/rotate?overlap_s=0")
    for secret in (told["secret"], SECRET):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(b"{}", signed_for(stack, "anna"))


async def test_a_read_leaves_what_else_is_said_of_a_tenant(client, stack):
    limits = {"open_jobs": 2, "weight": 3}
    await client.patch("/v1/tenants/anna", json=limits, headers=by("boss"))
    await read(client)
    shown = (await client.get("/v1/tenants/anna", headers=by("boss"))).json()
    assert (shown["limits"]["open_jobs"], shown["weight"]) == (2, 3)


async def test_two_processes_that_read_at_once_tell_one_secret(tmp_path, logs):
    stack = TwoProcesses(tmp_path, api_keys={"set": "anna"}, webhook_secret=SECRET)
    async with stack.client() as here, stack.client() as there, asyncio.timeout(10):
        stack.tenants.race = asyncio.Barrier(2)
        first, second = await asyncio.gather(read(here), read(there))
    assert first == second
    assert len(stack.store.tables["tenants"]["anna"].salts) == 2
    assert len(drawn(logs)) == 1


async def test_a_rotated_secret_is_another_and_verifies(client, stack):
    first = (await client.post("/v1/webhooks/secret/rotate")).json()["secret"]
    second = (await client.post("/v1/webhooks/secret/rotate")).json()
    assert second["secret"] != first and len(second["others_end_at"]) == 2
    signed = headers("j1", b"{}", [second["secret"]])
    assert Webhook(second["secret"]).verify(b"{}", signed) == {}
    made = await client.post("/v1/webhooks/secret/rotate?overlap_s=0")
    assert made.status_code == 201 and made.headers["cache-control"] == "no-store"
    last = made.json()
    assert last["others_end_at"] == [] and await read(client) == last
    facade = (await client.get("/v1/webhooks/default/secret")).json()
    assert facade == {"key": last["secret"]}
    (only,) = signing(stack.store.tables["tenants"]["anna"].salts, last["created_at"] + 1)
    assert only.salt not in last["secret"]


async def test_a_service_without_keys_tells_its_own_and_draws_none(tmp_path):
    stack = Stack(tmp_path, webhook_secret=SECRET)
    async with stack.client() as client:
        told = (await client.get("/v1/webhooks/secret")).json()
        assert (told["secret"], told["is_own"], told["created_at"]) == (SECRET, False, 0.0)
        assert not stack.store.tables["tenants"]
        rotated = (await client.post("/v1/webhooks/secret/rotate")).json()
        assert (await client.get("/v1/webhooks/secret")).json() == rotated


@pytest.mark.parametrize("keys", [{}, {"set": "anna"}])
async def test_an_api_that_knows_no_secret_makes_none(tmp_path, keys):
    stack = Stack(tmp_path, api_keys=keys)
    async with stack.client(Authorization="Bearer set") as client:
        for asked in ("GET secret", "GET default/secret", "POST secret/rotate"):
            method, path = asked.split()
            refused = await client.request(method, f"/v1/webhooks/{path}")
            assert refused.status_code == 404
            assert "ATELIER_WEBHOOK_SECRET" in refused.json()["detail"]
    assert not stack.store.tables["tenants"]


async def test_operators_are_told_a_tenants_own_and_tenants_nobody_elses(client, logs):
    told = await read(client, "boss", "?tenant=anna")
    assert told == await read(client) and told["secret"] != SECRET
    assert [(each["tenant"], each["by_tenant"]) for each in drawn(logs)] == [("anna", "operators")]
    refused = await client.get("/v1/webhooks/secret?tenant=bolt")
    assert refused.status_code == 403


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
