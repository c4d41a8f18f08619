"""A client over HTTP that asks again until it knows, and writes down what it saw."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import uuid4

import httpx

from bench.nemesis.history import Answer, History, Operation, Picture, Verb
from core.job import JobStatus

TIMEOUT_S = 5.0
AGAIN_S = 0.1
MODEL = "chain"


class Client:
    """Everything that it does is in `history`."""

    def __init__(self, url: str, hook: str) -> None:
        """`url`: of the api; `hook`: where its jobs are told to have ended."""
        self.history = History()
        self._hook = {"url": hook, "events": ["completed"]}
        self._http = httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S)

    async def submit(self, picture: Picture, key: str = "") -> str:
        """Ask for a job until it is accepted; return its id."""
        key = key or uuid4().hex
        self.history.asked[key] = picture
        while True:
            operation = await self.try_submit(picture, key)
            if operation.answer is Answer.OK:
                return operation.job_id
            await asyncio.sleep(AGAIN_S)

    async def try_submit(self, picture: Picture, key: str) -> Operation:
        """Ask once."""
        body: dict[str, object] = {
            "prompt": "a red circle",
            "model": MODEL,
            "width": 64,
            "height": 64,
        }
        body |= {"seed": picture.seed, "steps": picture.steps, "quality": "exact"}
        body |= {"webhook": self._hook}
        return await self._do(
            Verb.SUBMIT,
            key,
            lambda: self._http.post("/v1/jobs", json=body, headers={"Idempotency-Key": key}),
        )

    async def read(self, job_id: str) -> Operation:
        """Look at a job."""
        return await self._do(Verb.READ, job_id, lambda: self._http.get(f"/v1/jobs/{job_id}"))

    async def cancel(self, job_id: str) -> Operation:
        """Stop a job, once."""
        return await self._do(
            Verb.CANCEL, job_id, lambda: self._http.post(f"/v1/jobs/{job_id}/cancel")
        )

    async def delete(self, job_id: str) -> None:
        """Delete a job until it is gone."""
        while True:
            done = await self._do(
                Verb.DELETE, job_id, lambda: self._http.delete(f"/v1/jobs/{job_id}")
            )
            if done.answer in (Answer.OK, Answer.REFUSED):
                return
            await asyncio.sleep(AGAIN_S)

    async def image(self, job_id: str) -> bytes:
        """Fetch the image of a job, as its owner would."""
        answer = await self._http.get(f"/v1/jobs/{job_id}")
        [image] = answer.json()["images"]
        return (await self._http.get(image["url"])).raise_for_status().content

    async def is_ready(self) -> bool:
        """Ask whether a job could be made now."""
        try:
            return (await self._http.get("/readyz")).is_success
        except httpx.HTTPError:
            return False

    async def close(self) -> None:
        """End all connections."""
        await self._http.aclose()

    async def _do(
        self, verb: Verb, job: str, ask: Callable[[], Awaitable[httpx.Response]]
    ) -> Operation:
        began = time.monotonic()
        try:
            response = await ask()
        except httpx.HTTPError as error:
            read: Mapping[str, Any] = {"answer": Answer.UNKNOWN, "detail": repr(error)}
        else:
            read = _read(response)
        done = Operation(verb=verb, job=job, began=began, ended=time.monotonic(), **read)
        self.history.operations.append(done)
        return done


def _read(response: httpx.Response) -> Mapping[str, Any]:
    if response.is_success:
        body = response.json()
        status = body.get("status")
        return {
            "answer": Answer.OK,
            "job_id": body["id"],
            "status": JobStatus(status) if status else None,
        }
    is_right = response.status_code < 500 or "retry-after" in response.headers
    answer = Answer.REFUSED if is_right else Answer.WRONG
    return {"answer": answer, "detail": f"{response.status_code} {response.text[:300]}"}
