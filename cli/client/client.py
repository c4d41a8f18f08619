"""HTTP client of the service: responses as views, refusals as errors with the reason."""

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from cli.client.complaint import Answered
from cli.client.events import Event, parse_events
from cli.client.views import (
    ApplicationAnswer,
    ControlNetAnswer,
    Deleted,
    DeletedApplication,
    EmbeddingAnswer,
    FleetAnswer,
    JobAnswer,
    KeyAnswer,
    Listing,
    LoraAnswer,
    ModelAnswer,
    ProblemAnswer,
    TemplateAnswer,
    TenantAnswer,
    UsageAnswer,
)
from core.errors import (
    AtelierError,
    ConfigurationError,
    ObjectMissing,
    RequestRejected,
    Unavailable,
)

#: Times in a row that a broken event stream is opened again.
MAX_RECONNECTS = 6
#: Seconds that the conversion of the largest checkpoint may take.
CONVERTED_S = 3600.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """One answer: as the service wrote it, and what we read of it."""

    raw: bytes
    view: T


@contextmanager
def _converting_errors(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as error:
        reason = str(error) or type(error).__name__
        raise Unavailable(f"{url} does not answer: {reason}") from error
    except msgspec.DecodeError as error:
        raise Unavailable(f"{url} does not answer like an Atelier service: {error}") from error


def _check(answer: httpx.Response) -> None:
    if answer.is_success:
        return
    try:
        problem = msgspec.json.decode(answer.read(), type=ProblemAnswer)
    except msgspec.DecodeError:
        problem = ProblemAnswer(status=answer.status_code, detail=answer.reason_phrase)
        raise _kind(answer)(str(problem)) from None
    raise _kind(answer)(str(problem)) from Answered(answer.content)


def _kind(answer: httpx.Response) -> type[AtelierError]:
    return Unavailable if answer.is_server_error else RequestRejected


class Client:
    """The HTTP interface of one service."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def submit(self, body: Mapping[str, object], *, key: str | None = None) -> Reply[JobAnswer]:
        """Ask for a job; asking again with the same idempotency key gives the same job."""
        headers = {"Idempotency-Key": key} if key else {}
        return self._ask(JobAnswer, "POST", "/v1/jobs", json=body, headers=headers)

    def job(self, job_id: str, *, wait_s: float = 0.0) -> Reply[JobAnswer]:
        """Read a job, waiting up to `wait_s` for its end."""
        params = {"wait": wait_s} if wait_s else {}
        return self._ask(JobAnswer, "GET", f"/v1/jobs/{job_id}", params=params)

    def cancel(self, job_id: str) -> Reply[JobAnswer]:
        """Stop a job."""
        return self._ask(JobAnswer, "POST", f"/v1/jobs/{job_id}/cancel")

    def delete_job(self, job_id: str) -> Reply[Deleted]:
        """Delete a job with its images; one that has not ended is stopped first."""
        return self._ask(Deleted, "DELETE", f"/v1/jobs/{quote(job_id, safe='')}")

    def retry(self, job_id: str) -> Reply[JobAnswer]:
        """Try a buried job again."""
        return self._ask(JobAnswer, "POST", f"/v1/jobs/{job_id}/retry")

    def jobs(
        self, *, status: str | None, limit: int, cursor: str | None
    ) -> Reply[Listing[JobAnswer]]:
        """Read one page of jobs."""
        params = _given(status=status, limit=limit, cursor=cursor)
        return self._ask(Listing[JobAnswer], "GET", "/v1/jobs", params=params)

    def models(self) -> Reply[Listing[ModelAnswer]]:
        """Read what is served."""
        return self._ask(Listing[ModelAnswer], "GET", "/v1/models")

    def fleet(self) -> Reply[FleetAnswer]:
        """Read what workers there are, and what each does."""
        return self._ask(FleetAnswer, "GET", "/v1/fleet")

    def model(self, name: str) -> Reply[ModelAnswer]:
        """Read what one model makes."""
        return self._ask(ModelAnswer, "GET", f"/v1/models/{quote(name, safe='')}")

    def add_model(self, body: Mapping[str, object]) -> Reply[ModelAnswer]:
        """Have a folder of the service's disk served, or a file, which takes minutes."""
        return self._ask(ModelAnswer, "POST", "/v1/models", json=body, wait_s=CONVERTED_S)

    def remove_model(self, name: str) -> Reply[Deleted]:
        """Serve a model no more."""
        return self._ask(Deleted, "DELETE", f"/v1/models/{quote(name, safe='')}")

    def add_template(self, data: bytes, media_type: str) -> Reply[TemplateAnswer]:
        """Keep an image to edit it again and again."""
        headers = {"Content-Type": media_type}
        return self._ask(TemplateAnswer, "POST", "/v1/templates", content=data, headers=headers)

    def templates(self, *, limit: int, cursor: str | None) -> Reply[Listing[TemplateAnswer]]:
        """Read one page of templates."""
        params = _given(limit=limit, cursor=cursor)
        return self._ask(Listing[TemplateAnswer], "GET", "/v1/templates", params=params)

    def add_controlnet(
        self, data: bytes, *, model: str | None, condition: str, order: str, pooled: bool
    ) -> Reply[ControlNetAnswer]:
        """Keep a ControlNet for jobs to use."""
        headers = {"Content-Type": "application/octet-stream"}
        params = _given(model=model, condition=condition, order=order, pooled=pooled or None)
        return self._ask(
            ControlNetAnswer,
            "POST",
            "/v1/controlnets",
            content=data,
            params=params,
            headers=headers,
        )

    def controlnets(
        self, *, limit: int = 20, cursor: str | None = None
    ) -> Reply[Listing[ControlNetAnswer]]:
        """Read one page of ControlNets."""
        params = _given(limit=limit, cursor=cursor)
        return self._ask(Listing[ControlNetAnswer], "GET", "/v1/controlnets", params=params)

    def remove_controlnet(self, controlnet_id: str) -> Reply[Deleted]:
        """Delete a ControlNet."""
        return self._ask(Deleted, "DELETE", f"/v1/controlnets/{quote(controlnet_id, safe='')}")

    def remove_template(self, template_id: str) -> Reply[Deleted]:
        """Delete a template."""
        return self._ask(Deleted, "DELETE", f"/v1/templates/{quote(template_id, safe='')}")

    def add_application(self, body: Mapping[str, object]) -> Reply[ApplicationAnswer]:
        """Register an application."""
        return self._ask(ApplicationAnswer, "POST", "/v1/applications", json=body)

    def applications(self) -> Reply[Listing[ApplicationAnswer]]:
        """Read the applications registered."""
        return self._ask(Listing[ApplicationAnswer], "GET", "/v1/applications")

    def remove_application(self, name: str) -> Reply[DeletedApplication]:
        """Delete an application."""
        path = f"/v1/applications/{quote(name, safe='')}"
        return self._ask(DeletedApplication, "DELETE", path)

    def add_key(self, body: Mapping[str, object]) -> Reply[KeyAnswer]:
        """Make a key for a tenant."""
        return self._ask(KeyAnswer, "POST", "/v1/keys", json=body)

    def keys(self, *, tenant: str | None) -> Reply[Listing[KeyAnswer]]:
        """Read the keys made, of one tenant or all."""
        return self._ask(Listing[KeyAnswer], "GET", "/v1/keys", params=_given(tenant=tenant))

    def rotate_key(self, key_id: str, *, overlap_s: float) -> Reply[KeyAnswer]:
        """Put a new key in the place of one, which works on for a while."""
        path = f"/v1/keys/{quote(key_id, safe='')}/rotate"
        return self._ask(KeyAnswer, "POST", path, params={"overlap_s": overlap_s})

    def revoke_key(self, key_id: str) -> Reply[KeyAnswer]:
        """End a key."""
        return self._ask(KeyAnswer, "DELETE", f"/v1/keys/{quote(key_id, safe='')}")

    def tenants(self) -> Reply[Listing[TenantAnswer]]:
        """Read what is in force for every tenant."""
        return self._ask(Listing[TenantAnswer], "GET", "/v1/tenants")

    def tenant(self, name: str) -> Reply[TenantAnswer]:
        """Read what is in force for one tenant."""
        return self._ask(TenantAnswer, "GET", f"/v1/tenants/{quote(name, safe='')}")

    def change_tenant(self, name: str, body: Mapping[str, object]) -> Reply[TenantAnswer]:
        """Change limits or the weight of a tenant."""
        return self._ask(TenantAnswer, "PATCH", f"/v1/tenants/{quote(name, safe='')}", json=body)

    def usage(self, **asked: str | None) -> Reply[UsageAnswer]:
        """Read what a tenant has used: `start`, `end`, `by`, `tenant`."""
        return self._ask(UsageAnswer, "GET", "/v1/usage", params=_given(**asked))

    def add_lora(self, data: bytes, *, model: str | None, bound: int | None) -> Reply[LoraAnswer]:
        """Keep a LoRA for jobs to use."""
        headers = {"Content-Type": "application/octet-stream"}
        params = _given(model=model, bound=bound)
        return self._ask(
            LoraAnswer, "POST", "/v1/loras", content=data, params=params, headers=headers
        )

    def loras(self, *, limit: int, cursor: str | None) -> Reply[Listing[LoraAnswer]]:
        """Read one page of LoRAs."""
        return self._ask(
            Listing[LoraAnswer], "GET", "/v1/loras", params=_given(limit=limit, cursor=cursor)
        )

    def remove_lora(self, lora_id: str) -> Reply[Deleted]:
        """Delete a LoRA."""
        return self._ask(Deleted, "DELETE", f"/v1/loras/{quote(lora_id, safe='')}")

    def add_embedding(
        self, data: bytes, *, model: str | None, token: str | None
    ) -> Reply[EmbeddingAnswer]:
        """Keep a learned embedding for jobs to use."""
        headers = {"Content-Type": "application/octet-stream"}
        params = _given(model=model, token=token)
        return self._ask(
            EmbeddingAnswer, "POST", "/v1/embeddings", content=data, params=params, headers=headers
        )

    def embeddings(self, *, limit: int, cursor: str | None) -> Reply[Listing[EmbeddingAnswer]]:
        """Read one page of embeddings."""
        params = _given(limit=limit, cursor=cursor)
        return self._ask(Listing[EmbeddingAnswer], "GET", "/v1/embeddings", params=params)

    def remove_embedding(self, embedding_id: str) -> Reply[Deleted]:
        """Delete an embedding."""
        return self._ask(Deleted, "DELETE", f"/v1/embeddings/{quote(embedding_id, safe='')}")

    def follow(self, job_id: str) -> Iterator[Event]:
        """Yield a job's events up to `done`, across broken connections."""
        last, broken = "", 0
        while True:
            try:
                for event in self._events(job_id, last):
                    last, broken = event.id or last, 0
                    yield event
                    if event.event == "done":
                        return
            except Unavailable:
                if broken >= MAX_RECONNECTS:
                    raise
            time.sleep(min(4.0, 0.1 * 2**broken))
            broken += 1

    def _events(self, job_id: str, last: str) -> Iterator[Event]:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        path = f"/v1/jobs/{job_id}/events"
        with (
            _converting_errors(str(self._http.base_url)),
            self._http.stream("GET", path, headers=headers) as answer,
        ):
            _check(answer)
            yield from parse_events(answer.iter_lines())

    def fetch(self, url: str, sha256: str) -> bytes:
        """Read an image by its signed URL and check that it is the one that was made.

        Raises:
            ObjectMissing: there is another one, or none.
        """
        with _converting_errors(url.partition("?")[0]):
            answer = httpx.get(url, timeout=30.0, follow_redirects=True)
        _check(answer)
        if hashlib.sha256(answer.content).hexdigest() != sha256:
            raise ObjectMissing(f"{url.partition('?')[0]} holds another image than the job says")
        return answer.content

    def _ask(
        self,
        view: type[T],
        method: str,
        path: str,
        *,
        json: Mapping[str, object] | None = None,
        content: bytes | None = None,
        params: Mapping[str, str | int | float] | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float | None = None,
    ) -> Reply[T]:
        patience = httpx.USE_CLIENT_DEFAULT if wait_s is None else httpx.Timeout(wait_s)
        with _converting_errors(str(self._http.base_url)):
            answer = self._http.request(
                method,
                path,
                json=json,
                content=content,
                params=params,
                headers=headers,
                timeout=patience,
            )
            _check(answer)
            return Reply(answer.content, msgspec.json.decode(answer.content, type=view))


def _given(**wanted: str | int | None) -> dict[str, str | int | float]:
    return {name: value for name, value in wanted.items() if value is not None}


@contextmanager
def connect(url: str, key: str | None) -> Iterator[Client]:
    """Open a client of the service at `url`.

    Raises:
        ConfigurationError: no header can carry the key.
    """
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ConfigurationError("the API key must be printable ASCII")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with httpx.Client(
        base_url=url, headers=headers, timeout=httpx.Timeout(10.0, read=90.0)
    ) as http:
        yield Client(http)
