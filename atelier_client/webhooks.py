"""Verify webhooks (Standard Webhooks) and read what they tell."""

from collections.abc import Mapping

import msgspec
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from atelier_client.decoding import decode
from atelier_client.errors import WebhookRejected
from atelier_client.types.job import WebhookMessage


def verify_webhook(body: bytes, headers: Mapping[str, str], secret: str) -> WebhookMessage:
    """Check who sent a webhook, and when, and return what it tells.

    `body` must be the bytes as they came. The same message may come twice: `webhook-id` of the
    headers is the same then.

    Raises:
        WebhookRejected: it is not signed by `secret` (`whsec_…`), or five minutes old, or tells
            nothing of a job.
    """
    try:
        Webhook(secret).verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError) as error:  # ValueError: what is no base64
        raise WebhookRejected(str(error) or "the webhook is not signed by this secret") from error
    try:
        return decode(body, WebhookMessage)
    except msgspec.DecodeError as error:
        raise WebhookRejected(f"the webhook tells nothing of a job: {error}") from error
