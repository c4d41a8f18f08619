"""A tiny real service on loopback: it accepts jobs and ends them when the test says so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse


class TinyService:
    def __init__(self, *, refuse_after: int = 10**9, holds: bool = False) -> None:
        self.app = FastAPI()
        self.app.post("/v1/jobs")(self.submit)
        self.app.get("/v1/jobs/{job_id}")(self.get)
        self.refuse_after = refuse_after
        self.bodies: list[dict[str, object]] = []
        self.polls: list[float] = []
        self.released = asyncio.Event()
        if not holds:
            self.released.set()

    async def submit(self, request: Request) -> JSONResponse:
        self.bodies.append(await request.json())
        if len(self.bodies) > self.refuse_after:
            return JSONResponse({"title": "full"}, status_code=429)
        return JSONResponse(self._job(len(self.bodies), "queued"), status_code=202)

    async def get(self, job_id: int, wait: float) -> JSONResponse:
        self.polls.append(wait)
        try:
            await asyncio.wait_for(self.released.wait(), wait)
        except TimeoutError:
            return JSONResponse(self._job(job_id, "running"))
        failed = self.bodies[job_id - 1]["prompt"] == "a failure"
        return JSONResponse(self._job(job_id, "failed" if failed else "succeeded"))

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
