"""Ask a service for images as clients should while it is upgraded, and judge every answer."""

import asyncio
import hashlib
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from itertools import count
from uuid import uuid4

import httpx
from PIL import Image, ImageDraw

PAUSE_S = 0.2  #: before an answer that did not come is asked for again
PATIENCE_S = 600.0  #: for one job, from its first request to its image
CLIENTS = 6  #: at a time, so that a slow machine is asked for less
SIDE = 64
#: Of `LONG` jobs in turn one has so many steps that it does not end before its worker does.
LONG, LONG_STEPS, STEPS = 4, 100, 8
EDITS = 3  #: and one of so many edits a template


@dataclass(slots=True)
class Seen:
    """What clients have seen."""

    accepted: list[str] = field(default_factory=list)
    succeeded: int = 0
    wrong: Counter[str] = field(default_factory=Counter)  #: answers that nobody should get
    unavailable: int = 0  #: 503 with `Retry-After`
    refused: int = 0  #: 429
    cut: int = 0  #: connections that ended without an answer
    lost: list[str] = field(default_factory=list)  #: accepted, and without an image in the end
    streams: int = 0  #: event streams that told of their job's end


class Client:
    """Sends what a client sends, again where it is told to."""

    def __init__(self, url: str) -> None:
        self.seen = Seen()
        self._http = httpx.AsyncClient(base_url=url, timeout=60.0, trust_env=False)

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(self, method: str, path: str, **options: object) -> httpx.Response:
        """Ask until there is an answer that is not a wish to be asked later."""
        while True:
            try:
                answer = await self._http.request(method, path, **options)  # type: ignore[arg-type]
            except httpx.TransportError:
                self.seen.cut += 1
                await asyncio.sleep(PAUSE_S)
                continue
            if not self._is_later(answer):
                return answer
            await asyncio.sleep(min(float(answer.headers["retry-after"]), 1.0))

    async def live(self, number: int, template: str) -> None:
        """Ask for one image and follow it to its bytes."""
        headers = {"Idempotency-Key": uuid4().hex}
        answer = await self.ask("POST", "/v1/jobs", json=body(number, template), headers=headers)
        if not answer.is_success:
            self.seen.wrong[f"{answer.status_code} to POST /v1/jobs: {answer.text[:200]}"] += 1
            return
        job_id = answer.json()["id"]
        self.seen.accepted.append(job_id)
        try:
            async with asyncio.timeout(PATIENCE_S):
                if number % 2:
                    await self._stream(job_id)
                await self._see(await self._end_of(job_id))
        except TimeoutError:
            self.seen.lost.append(f"{job_id}: no image within {PATIENCE_S:.0f} s")

    async def _end_of(self, job_id: str) -> Mapping[str, object]:
        while True:
            answer = await self.ask("GET", f"/v1/jobs/{job_id}", params={"wait": 5})
            job: Mapping[str, object] = answer.json()
            if not answer.is_success or job["status"] not in ("queued", "running"):
                return job

    async def _stream(self, job_id: str) -> None:
        """Follow the events to the last one; a stream that is cut is left for the polls."""
        try:
            async with self._http.stream("GET", f"/v1/jobs/{job_id}/events") as answer:
                if self._is_later(answer) or not answer.is_success:
                    return
                async for line in answer.aiter_lines():
                    if line.startswith("event: done"):
                        self.seen.streams += 1
        except httpx.TransportError:
            self.seen.cut += 1

    async def _see(self, job: Mapping[str, object]) -> None:
        match job:
            case {"status": "succeeded", "images": [{"url": str(url), "sha256": digest}]}:
                data = (await self.ask("GET", url)).content
                if hashlib.sha256(data).hexdigest() == digest:
                    self.seen.succeeded += 1
                    return
        self.seen.lost.append(str(job)[:500])

    def _is_later(self, answer: httpx.Response) -> bool:
        if answer.status_code == 429:
            self.seen.refused += 1
            return True
        if answer.status_code == 503 and "retry-after" in answer.headers:
            self.seen.unavailable += 1
            return True
        if answer.status_code >= 500:
            self.seen.wrong[f"{answer.status_code} to {answer.request.url.path}"] += 1
        return False


async def load(client: Client, until: asyncio.Event) -> None:
    """Have so many clients ask for one image after the other until told to stop."""
    headers = {"content-type": "image/png"}
    kept = await client.ask("POST", "/v1/templates", content=_picture(), headers=headers)
    template, numbers = kept.json()["id"], count()

    async def one() -> None:
        while not until.is_set():
            await client.live(next(numbers), template)

    async with asyncio.TaskGroup() as clients:
        for _ in range(CLIENTS):
            clients.create_task(one())


def body(number: int, template: str) -> dict[str, object]:
    """Ask for images of every kind that leaves something behind for others."""
    asked: dict[str, object] = {"prompt": f"a red circle and {number} stars", "seed": number}
    if number % EDITS == 0:
        mask = "data:image/png;base64," + b64encode(_mask()).decode()
        edit = {"task": "edit", "template": template, "mask": mask, "strength": 0.8}
        return {**asked, **edit, "steps": STEPS, "seed": 7}
    if number % LONG == 1:
        return {**asked, "steps": LONG_STEPS, "quality": "exact"}
    return {**asked, "steps": STEPS, "width": SIDE, "height": SIDE, "quality": "exact"}


def _picture() -> bytes:
    picture = Image.new("RGB", (SIDE, SIDE), "navy")
    ImageDraw.Draw(picture).ellipse((10, 10, 40, 40), fill="orange")
    return _png(picture)


def _mask() -> bytes:
    mask = Image.new("L", (SIDE, SIDE), 0)
    ImageDraw.Draw(mask).rectangle((8, 8, 40, 40), fill=255)
    return _png(mask)


def _png(picture: Image.Image) -> bytes:
    data = BytesIO()
    picture.save(data, "PNG")
    return data.getvalue()
