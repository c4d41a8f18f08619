"""POST a body to an untrusted URL; redirects are not followed, the response is not read."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from tasks.jobs.safe_connect import Resolve, dial, resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookResponse:
    """What a receiver said. Its body is not read."""

    status: int
    retry_after_s: float | None = None  #: how long it asks us to wait


async def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    allow_private: bool,
    resolve: Resolve = resolve,
    trust: ssl.SSLContext | None = None,
) -> WebhookResponse:
    """POST a body and return the status. `trust`: whose certificates count, if not the system's.

    Raises:
        TargetRefused: the URL, or an address behind its name, is not one we call.
        httpx.HTTPError, OSError, TimeoutError: the receiver was not reached in time.
    """
    async with (
        asyncio.timeout(timeout_s),
        dial(
            "POST",
            url,
            headers=headers,
            allow_private=allow_private,
            body=body,
            resolve=resolve,
            trust=trust,
        ) as response,
    ):
        return WebhookResponse(
            status=response.status_code, retry_after_s=retry_after(response.headers)
        )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read how long a receiver asks us to wait: seconds, or a date."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max((parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None
