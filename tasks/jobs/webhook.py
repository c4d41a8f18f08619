"""Celery task that delivers one webhook, with retries and dead-lettering.

Standard Webhooks 1.0.0: signed headers, an id that stays the same over retries, 2xx only counts.
A delivery that is never settled here comes back from the outbox by itself.
"""

import asyncio
import math
import random
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import httpx
from redis.asyncio import Redis
from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook

from core.codec import decode
from core.errors import ConfigurationError, NotFound, TargetRefused
from core.job import Job
from core.log import get_logger, log_errors
from core.settings import Settings, get_settings
from core.telemetry.traces import TRACES
from storage.archive.open import open_archive
from storage.jobs.jobs import JobStore
from storage.jobs.outbox import Delivery, Outbox
from storage.objects.store import open_objects
from storage.redis.connect import ask, connect
from storage.tenants.tenant import Tenant, tenant_table
from storage.tenants.webhook_secret import derive, signing
from tasks.app import app
from tasks.jobs.payload import payload
from tasks.jobs.post import WebhookResponse, post
from tasks.messages import WEBHOOK

log = get_logger(__name__)

#: Seconds between one attempt and the next: Standard Webhooks' example, about a day in all; those
#: that come after retention has deleted the job are not made.
SCHEDULE_S = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 36_000.0)
#: A receiver may ask us to wait longer than that, up to a day.
MAX_WAIT_S = 86_400.0
#: Share of a wait that is random, so that a receiver that comes back is not hit by all at once.
JITTER = 0.2

GONE = 410


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """What becomes of a delivery after an attempt."""

    outcome: str  #: delivered, retried, dead or dropped
    wait_s: float = 0.0  #: before the next attempt


def judge(delivery: Delivery, answer: WebhookResponse | None) -> DeliveryResult:
    """Decide after an attempt. Pure but for the jitter. None: the receiver was not reached.

    Only the last event of a job is worth a second attempt: the others are soon out of date.
    """
    if answer is not None and 200 <= answer.status < 300:
        return DeliveryResult(outcome="delivered")
    if delivery.event != "completed":
        return DeliveryResult(outcome="dropped")
    if (answer is not None and answer.status == GONE) or delivery.attempt > len(SCHEDULE_S):
        return DeliveryResult(outcome="dead")
    wait_s = SCHEDULE_S[delivery.attempt - 1] * random.uniform(1.0, 1.0 + JITTER)
    asked_s = answer.retry_after_s if answer is not None else None
    return DeliveryResult(outcome="retried", wait_s=min(max(wait_s, asked_s or 0.0), MAX_WAIT_S))


def webhook(document: str) -> str:
    """Post one delivery and settle it, unless another message does; return what became of it."""
    return asyncio.run(_deliver(decode(document, Delivery)))


async def _deliver(delivery: Delivery) -> str:
    settings = get_settings()
    redis = connect(settings.redis_url)
    outbox = Outbox(redis)
    try:
        if not await outbox.current([delivery]):
            return "late"
        verdict = await attempt(delivery, redis, settings)
        await _settle(outbox, delivery, verdict)
    finally:
        await redis.aclose()
    return verdict.outcome


async def attempt(delivery: Delivery, redis: Redis, settings: Settings) -> DeliveryResult:
    """Sign and post one delivery; whatever goes wrong is one more failed attempt."""
    try:
        with closing(open_archive(settings)) as archive:
            job = await JobStore(redis, max_queue=0, archive=archive).get(delivery.job_id)
    except NotFound:  # deleted: there is nothing to tell; who has not taken it yet is told of
        is_overdue = delivery.event == "completed" and delivery.attempt > 1
        return DeliveryResult(outcome="dead" if is_overdue else "dropped")
    answer = None
    with log_errors(log, "webhook_broke", job=job.id):  # else it would come back for ever
        try:
            with TRACES.span("webhook", job.trace, job=job.id, tenant=job.tenant):
                answer = await _post(delivery, job, redis, settings)
        except TargetRefused as error:
            log.warning("webhook_refused", job=job.id, reason=str(error))
            return DeliveryResult(outcome="dead")
        except (httpx.HTTPError, OSError, ConfigurationError) as error:
            log.warning("webhook_failed", job=job.id, reason=type(error).__name__)
    return await _in_time(judge(delivery, answer), job, redis, settings)


async def _in_time(
    verdict: DeliveryResult, job: Job, redis: Redis, settings: Settings
) -> DeliveryResult:
    """Give up now what would be tried again after its job is deleted: it can still be replayed."""
    with log_errors(log, "webhook_broke", job=job.id):
        if verdict.outcome == "retried":
            now, _ = await ask(redis, "TIME")  # of the store, as `finished_at` is
            if int(now) + verdict.wait_s > await _kept_until(job, redis, settings):
                return DeliveryResult(outcome="dead")
    return verdict


async def _kept_until(job: Job, redis: Redis, settings: Settings) -> float:
    """Tell until when (epoch s) a job that has ended is kept, by its tenant or the settings."""
    if job.finished_at is None:
        return math.inf
    tenant = await tenant_table(redis).get(job.tenant)
    own_s = tenant.retention_s if tenant is not None else None
    return job.finished_at + min(own_s or settings.retention_s, settings.retention_s)


async def _post(delivery: Delivery, job: Job, redis: Redis, settings: Settings) -> WebhookResponse:
    tenant = await tenant_table(redis).get(job.tenant) or Tenant(name=job.tenant)
    objects, now = open_objects(settings), time.time()
    sign = partial(objects.url, ttl_s=settings.url_ttl_s, epoch=tenant.url_epoch)
    master = settings.webhook_secret.get_secret_value()
    signing_now = [derive(master, tenant.name, each) for each in signing(tenant.salts, now)]
    body = payload(delivery, job, sign, now, settings.public_url.rstrip("/"))
    return await post(
        delivery.url,
        body,
        headers(delivery.id, body, signing_now),
        timeout_s=settings.webhook_timeout_s,
        allow_private=settings.webhook_allow_private,
    )


def headers(webhook_id: str, body: bytes, secrets: Sequence[str]) -> dict[str, str]:
    """Sign one attempt, by each secret: while one takes the place of another both are right.

    Raises:
        ConfigurationError: the secret is no `whsec_` and base64.
    """
    now, text = datetime.now(UTC), body.decode()
    signatures = [_signer(secret).sign(webhook_id, now, text) for secret in secrets]
    return {
        "content-type": "application/json",
        "user-agent": "Atelier-Webhooks/1",
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def _signer(secret: str) -> Webhook:
    try:
        return Webhook(secret)
    except (EmptyWebhookSecretError, ValueError) as error:
        raise ConfigurationError("ATELIER_WEBHOOK_SECRET: must be whsec_ and base64") from error


async def _settle(outbox: Outbox, delivery: Delivery, verdict: DeliveryResult) -> None:
    if verdict.outcome == "retried":
        await outbox.retry(delivery, verdict.wait_s)
    elif verdict.outcome == "dead":
        await outbox.dead(delivery.id)
    else:
        await outbox.done(delivery.id, verdict.outcome)


task = app.task(webhook, name=WEBHOOK, Request="tasks.doorbell:DoorbellRequest")
