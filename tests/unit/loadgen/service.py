"""A tiny real service on loopback: it accepts jobs and ends them when the test says so."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

MODELS = [
    {"id": "m", "tasks": ["generate"], "sizes": {"default": 64}},
    {"id": "xl", "tasks": ["generate", "edit"], "sizes": {"default": 32}},
]
LORAS = [{"id": f"lora-{i}", "models": ["xl"]} for i in range(3)]
CONTROLNETS = [{"id": "edges", "models": ["xl", "m"]}]


class TinyService:
    def __init__(
        self,
        *,
        refuse_after: int = 10**9,
        holds: bool = False,
        cut: int = 0,
        loras: list[dict[str, object]] = LORAS,
    ) -> None:
        self.app = FastAPI()
        self.app.post("/v1/jobs")(self.submit)
        self.app.get("/v1/jobs/{job_id}")(self.get)
        self.app.get("/v1/jobs/{job_id}/events")(self.events)
        self.app.post("/v1/jobs/{job_id}/cancel")(self.cancel)
        self.app.post("/v1/templates")(self.keep)
        self.app.post("/v1/files")(self.keep)
        self.app.get("/v1/models")(lambda: {"data": MODELS})
        self.app.get("/v1/loras")(lambda: {"data": loras, "cursor": None})
        self.app.get("/v1/controlnets")(
            lambda: {"data": CONTROLNETS, "max_controls": 3, "cursor": None}
        )
        self.refuse_after = refuse_after
        self.cut = cut  #: streams that end before their job does
        self.bodies: list[dict[str, object]] = []
        self.kept: list[bytes] = []
        self.polls: list[float] = []
        self.canceled: set[int] = set()
        self.resumed: list[str] = []
        self.calls: list[asyncio.Task[None]] = []
        self.released = asyncio.Event()
        if not holds:
            self.released.set()

    async def submit(self, request: Request) -> JSONResponse:
        self.bodies.append(await request.json())
        if len(self.bodies) > self.refuse_after:
            return JSONResponse({"title": "full"}, status_code=429)
        number = len(self.bodies)
        if "webhook" in self.bodies[-1]:
            self.calls.append(asyncio.create_task(self._call(number)))
            await asyncio.sleep(0.01 * (number % 2))  # the call may be first
        return JSONResponse(self._job(number, "queued"), status_code=202)

    async def get(self, job_id: int, wait: float = 0.0) -> JSONResponse:
        self.polls.append(wait)
        try:
            await asyncio.wait_for(self.released.wait(), wait or 0.001)
        except TimeoutError:
            status = "canceled" if job_id in self.canceled else "running"
            return JSONResponse(self._job(job_id, status))
        return JSONResponse(self._ended(job_id))

    async def events(self, job_id: int, request: Request) -> StreamingResponse:
        self.resumed.append(request.headers.get("last-event-id", ""))
        return StreamingResponse(self._stream(job_id), media_type="text/event-stream")

    async def cancel(self, job_id: int) -> JSONResponse:
        self.canceled.add(job_id)
        return JSONResponse(self._job(job_id, "canceled"))

    async def keep(self, request: Request) -> JSONResponse:
        self.kept.append(await request.body())
        return JSONResponse({"id": f"kept-{len(self.kept)}"}, status_code=201)

    async def _stream(self, job_id: int) -> AsyncIterator[str]:
        yield 'event: status\r\ndata: {"status": "queued"}\r\n\r\n: ping\r\n\r\n'
        yield 'id: 7-0\r\nevent: progress\r\ndata: {"step": 1}\r\n\r\n'
        if self.cut:
            self.cut -= 1
            return
        await self.released.wait()
        yield f"id: 8-0\r\nevent: done\r\ndata: {json.dumps(self._ended(job_id))}\r\n\r\n"

    async def _call(self, number: int) -> None:
        await self.released.wait()
        payload = {"type": "job.completed", "data": self._ended(number)}
        url = self.bodies[number - 1]["webhook"]["url"]
        with suppress(httpx.HTTPError):  # whoever gave up does not listen any more
            async with httpx.AsyncClient() as http:
                (await http.post(url, json=payload)).raise_for_status()

    def _ended(self, number: int) -> dict[str, object]:
        failed = self.bodies[number - 1]["prompt"] == "a failure"
        canceled = "canceled" if number in self.canceled else "succeeded"
        return self._job(number, "failed" if failed else canceled)

    def _job(self, number: int, status: str) -> dict[str, object]:
        timing = {"queue_s": 0.1, "prepare_s": 0.0, "denoise_s": 0.2, "finish_s": 0.1}
        return {
            "id": str(number),
            "object": "job",
            "status": status,
            "placement": {"queue": "gen.m", "model": "m", "level": "m@0", "worker": None},
            "timing": {**timing, "total_s": 0.4},
            "error": {"type": "engine_error", "title": "no"} if status == "failed" else None,
        }


@asynccontextmanager
async def serving(service: TinyService) -> AsyncIterator[str]:
    config = uvicorn.Config(service.app, port=0, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task
        await asyncio.gather(*service.calls)
