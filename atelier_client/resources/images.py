"""Images: generate, edit or enlarge and wait for it; fetch what was made."""

import hashlib
from pathlib import Path
from typing import Unpack

from atelier_client.errors import WrongBytes
from atelier_client.exchange.endpoints import Resource, RunnerT, endpoint
from atelier_client.exchange.flows import heard_of
from atelier_client.exchange.steps import Call, Flow
from atelier_client.resources.jobs import made
from atelier_client.types.job import Image, Job
from atelier_client.types.request import JobFields, Picture

#: Seconds that the bytes of an image may be waited for.
FETCH_S = 60.0


class Images(Resource[RunnerT]):
    """Images, made while you wait."""

    @endpoint
    def generate(
        self,
        prompt: str,
        *,
        image: Picture | None = None,
        timeout_s: float | None = None,
        idempotency_key: str | None = None,
        **fields: Unpack[JobFields],
    ) -> Flow[Job]:
        """Make images of a prompt, starting from `image` if there is one; return the job.

        Called again with the same key, in another process too, it waits for the same job.

        Raises:
            JobFailed: it ended without images.
            WaitTimeout: it has not ended by then; it goes on.
        """
        return made({"prompt": prompt, "image": image, **fields}, timeout_s, idempotency_key)

    @endpoint
    def edit(
        self,
        prompt: str,
        *,
        template: Picture,
        mask: Picture,
        timeout_s: float | None = None,
        idempotency_key: str | None = None,
        **fields: Unpack[JobFields],
    ) -> Flow[Job]:
        """Make anew what a mask shows in white, and keep the rest; raises as `generate`."""
        asked = {"task": "edit", "prompt": prompt, "template": template, "mask": mask}
        return made({**asked, **fields}, timeout_s, idempotency_key)

    @endpoint
    def upscale(
        self,
        image: Picture,
        *,
        timeout_s: float | None = None,
        idempotency_key: str | None = None,
        **fields: Unpack[JobFields],
    ) -> Flow[Job]:
        """Enlarge a picture by an upscaler; raises as `generate`."""
        return made({"task": "upscale", "image": image, **fields}, timeout_s, idempotency_key)

    @endpoint
    def fetch(self, image: Image) -> Flow[bytes]:
        """Fetch an image by its signed URL, and check that it is the one that was made.

        Raises:
            WrongBytes: it is another one.
            Forbidden: its URL has expired: read the job again.
        """
        return fetched(image)

    @endpoint
    def save(self, image: Image, path: Path | str) -> Flow[Path]:
        """Fetch an image into a file; raises as `fetch`."""
        return _saved(image, Path(path))


def fetched(image: Image) -> Flow[bytes]:
    """Fetch an image."""
    call = Call(method="GET", path=image.url, is_signed=True, may_repeat=True, timeout_s=FETCH_S)
    data = (yield from heard_of(call)).body
    if image.sha256 and hashlib.sha256(data).hexdigest() != image.sha256:
        raise WrongBytes(f"{image.url.partition('?')[0]} holds another image than the job says")
    return data


def _saved(image: Image, path: Path) -> Flow[Path]:
    data = yield from fetched(image)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
