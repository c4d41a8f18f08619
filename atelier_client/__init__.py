"""Client of Atelier, an image-generation job service. See README.md."""

from atelier_client.async_client import AsyncClient
from atelier_client.client import Client
from atelier_client.errors import (
    ClientError,
    Conflict,
    Forbidden,
    InvalidRequest,
    JobFailed,
    NoAnswer,
    NotFound,
    Problem,
    ProblemError,
    ServiceFailed,
    TooManyRequests,
    Unauthorized,
    WaitTimeout,
    WebhookRejected,
    WrongBytes,
)
from atelier_client.exchange.flows import Reply
from atelier_client.exchange.settings import VERSION as __version__
from atelier_client.types.job import (
    DoneEvent,
    Event,
    Image,
    Job,
    JobStatus,
    ProgressEvent,
    StatusEvent,
    WebhookMessage,
)
from atelier_client.webhooks import verify_webhook

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "Conflict",
    "DoneEvent",
    "Event",
    "Forbidden",
    "Image",
    "InvalidRequest",
    "Job",
    "JobFailed",
    "JobStatus",
    "NoAnswer",
    "NotFound",
    "Problem",
    "ProblemError",
    "ProgressEvent",
    "Reply",
    "ServiceFailed",
    "StatusEvent",
    "TooManyRequests",
    "Unauthorized",
    "WaitTimeout",
    "WebhookMessage",
    "WebhookRejected",
    "WrongBytes",
    "__version__",
    "verify_webhook",
]
