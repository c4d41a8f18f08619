import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from standardwebhooks.webhooks import Webhook

from core.codec import encode
from core.errors import ConfigurationError
from core.settings import Settings
from storage.jobs.outbox import Delivery
from storage.tenants.tenant import Tenant
from storage.tenants.webhook_secret import derive, rotate
from tasks.jobs.post import WebhookResponse, retry_after
from tasks.jobs.webhook import JITTER, MAX_WAIT_S, SCHEDULE_S, attempt, headers, judge
from tests.rig import SECRET, new_job


def a_delivery(attempt=1, event="completed"):
    return Delivery(
        id="j1:completed", job_id="j1", url="https://x.test/", event=event, attempt=attempt, body=""
    )


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_any_2xx_is_a_delivery(status):
    assert judge(a_delivery(), WebhookResponse(status=status)).outcome == "delivered"


@pytest.mark.parametrize("status", [301, 302, 400, 404, 429, 500, 503])
def test_anything_else_is_tried_again(status):
    verdict = judge(a_delivery(), WebhookResponse(status=status))
    assert verdict.outcome == "retried"
    assert SCHEDULE_S[0] <= verdict.wait_s <= SCHEDULE_S[0] * (1 + JITTER)


@given(st.integers(1, len(SCHEDULE_S)))
def test_every_wait_is_on_the_schedule_give_or_take_the_jitter(attempt):
    verdict = judge(a_delivery(attempt), None)
    assert SCHEDULE_S[attempt - 1] <= verdict.wait_s <= SCHEDULE_S[attempt - 1] * (1 + JITTER)


def test_after_the_last_attempt_it_is_dead():
    assert judge(a_delivery(len(SCHEDULE_S) + 1), None).outcome == "dead"


def test_a_receiver_that_is_gone_is_not_asked_again():
    assert judge(a_delivery(), WebhookResponse(status=410)).outcome == "dead"


def test_a_receiver_may_ask_for_a_longer_wait_but_not_for_ever():
    assert judge(a_delivery(), WebhookResponse(status=429, retry_after_s=600.0)).wait_s == 600.0
    assert judge(a_delivery(), WebhookResponse(status=503, retry_after_s=1e9)).wait_s == MAX_WAIT_S


def test_progress_is_not_worth_a_second_attempt():
    assert judge(a_delivery(event="progress"), None).outcome == "dropped"


def test_retry_after_is_read_in_both_of_its_forms():
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert retry_after({"retry-after": "120"}) == 120.0
    assert 80 < retry_after({"retry-after": soon}) <= 90
    for nonsense in ("soon", "\xb2", "-5", "1e3"):
        assert retry_after({"retry-after": nonsense}) is None
    assert retry_after({}) is None


def test_a_signed_body_verifies_and_a_changed_one_does_not():
    body = json.dumps({"type": "job.completed"}).encode()
    signed = headers("j1:completed", body, [SECRET])
    assert Webhook(SECRET).verify(body, signed) == {"type": "job.completed"}
    with pytest.raises(Exception, match="No matching signature"):
        Webhook(SECRET).verify(body + b" ", signed)


def test_while_a_secret_is_rotated_both_verify():
    (salt, of_settings) = rotate((), 5.0, 60.0)
    own = derive(SECRET, "acme", salt)
    signed = headers("j1", b"{}", [own, derive(SECRET, "acme", of_settings)])
    for secret in (own, SECRET):
        assert Webhook(secret).verify(b"{}", signed) == {}
    with pytest.raises(Exception, match="No matching signature"):
        Webhook(derive(SECRET, "bolt", salt)).verify(b"{}", signed)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_?"])
def test_without_a_secret_nothing_is_sent(secret):
    with pytest.raises(ConfigurationError, match="ATELIER_WEBHOOK_SECRET"):
        headers("j1", b"{}", [secret])


class Record:
    """A Redis that holds one job, and what is said of its tenant."""

    def __init__(self, ended_s_ago=0.0, tenant=None):
        self.finished_at, self.tenant = time.time() - ended_s_ago, tenant

    async def execute_command(self, *words):
        if words[0] == "TIME":
            return int(time.time()), 0
        if words[0] == "HGET":
            return None if self.tenant is None else encode(self.tenant)
        job = new_job()
        fields = {
            "tenant": job.tenant.encode(),
            "request": encode(job.request),
            "placement": encode(job.placement),
            "status": b"succeeded",
            "created_at": b"1",
            "finished_at": str(int(self.finished_at * 1000)).encode(),
            "attempts": b"1",
            "fence": b"1",
        }
        return {name.encode(): value for name, value in fields.items()}


@pytest.mark.parametrize(
    ("ended_s_ago", "number", "own_s", "outcome"),
    [
        (0.0, 1, None, "retried"),
        (18 * 3600.0, 6, None, "dead"),
        (8 * 3600.0, 6, None, "retried"),
        (18 * 3600.0, 7, None, "dead"),
        (310.0, 3, 3600.0, "retried"),
        (2200.0, 4, 3600.0, "dead"),
        (18 * 3600.0, 7, 1e9, "dead"),
    ],
)
async def test_a_webhook_is_given_up_while_its_job_is_still_there_to_be_asked_for(
    tmp_path, ended_s_ago, number, own_s, outcome
):
    """Retention would forget the job before the next attempt, and nobody would hear of it."""
    settings = Settings(data_dir=tmp_path, url_secret=SecretStr("s" * 32))
    redis = Record(ended_s_ago, None if own_s is None else Tenant(name="t", retention_s=own_s))
    failing = replace(a_delivery(number), body="not JSON")
    assert (await attempt(failing, redis, settings)).outcome == outcome


@pytest.mark.parametrize(
    ("event", "number", "outcome"),
    [("completed", 1, "dropped"), ("completed", 7, "dead"), ("progress", 1, "dropped")],
)
async def test_of_a_deleted_job_what_its_receiver_had_not_taken_is_told_of(
    tmp_path, event, number, outcome
):
    class Nothing:
        async def execute_command(self, *words):
            return {}

    settings = Settings(data_dir=tmp_path, url_secret=SecretStr("s" * 32))
    assert (await attempt(a_delivery(number, event), Nothing(), settings)).outcome == outcome


async def test_what_nobody_foresaw_is_one_more_failed_attempt(tmp_path):
    """Else the outbox would hand it out once a minute for ever."""
    settings = Settings(data_dir=tmp_path, url_secret=SecretStr("s" * 32))
    unreadable = replace(a_delivery(), body="not JSON")
    assert (await attempt(unreadable, Record(), settings)).outcome == "retried"
    assert (await attempt(replace(unreadable, attempt=8), Record(), settings)).outcome == "dead"
