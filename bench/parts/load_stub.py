"""A service that only waits, as a target for load: a few servers, each job takes as long.

In a process of its own: `python -m bench.parts.load_stub --port 8123 --servers 8 --takes 0.1`.
"""

import asyncio
import time
from typing import Annotated

import typer
import uvloop
from aiohttp import web

LONGEST_POLL_S = 60.0


class WaitingService:
    """Accepts jobs, ends them in their order, and notes when each request was read."""

    def __init__(self, servers: int, takes_s: float) -> None:
        self._takes_s = takes_s
        self._free_at = [0.0] * servers
        self._ends_at: dict[str, float] = {}
        self._canceled: set[str] = set()
        self._received: list[tuple[int, float]] = []
        self.app = web.Application()
        self.app.router.add_get("/healthz", self.health)
        self.app.router.add_get("/received", self.received)
        self.app.router.add_post("/v1/jobs", self.submit)
        self.app.router.add_get("/v1/jobs/{job_id}", self.get)
        self.app.router.add_post("/v1/jobs/{job_id}/cancel", self.cancel)

    async def health(self, request: web.Request) -> web.Response:
        """Say that it is alive."""
        return web.json_response({})

    async def received(self, request: web.Request) -> web.Response:
        """List the image seed of every request and the monotonic second at which it was read."""
        return web.json_response(self._received)

    async def submit(self, request: web.Request) -> web.Response:
        """Take a job; the server that is free first makes it."""
        now = time.monotonic()
        body = await request.json()
        self._received.append((body["seed"], now))
        job_id = str(len(self._received))
        first = min(range(len(self._free_at)), key=self._free_at.__getitem__)
        self._free_at[first] = max(now, self._free_at[first]) + self._takes_s
        self._ends_at[job_id] = self._free_at[first]
        return web.json_response(_job(job_id, "queued"), status=202)

    async def get(self, request: web.Request) -> web.Response:
        """Wait for the end of a job, as long as was asked for."""
        job_id = request.match_info["job_id"]
        wait_s = min(float(request.query.get("wait", 0)), LONGEST_POLL_S)
        left_s = self._ends_at[job_id] - time.monotonic()
        if job_id in self._canceled:
            return web.json_response(_job(job_id, "canceled"))
        await asyncio.sleep(max(0.0, min(left_s, wait_s)))
        is_over = time.monotonic() >= self._ends_at[job_id]
        status = "canceled" if job_id in self._canceled else "succeeded" if is_over else "running"
        return web.json_response(_job(job_id, status))

    async def cancel(self, request: web.Request) -> web.Response:
        """Forget all work: whoever cancels has ended a trial."""
        job_id = request.match_info["job_id"]
        self._canceled.add(job_id)
        self._ends_at[job_id] = 0.0
        self._free_at = [0.0] * len(self._free_at)
        return web.json_response(_job(job_id, "canceled"))


def _job(job_id: str, status: str) -> dict[str, object]:
    placement = {"model": "stub", "level": "stub@0"}
    return {"id": job_id, "object": "job", "status": status, "placement": placement}


async def _serve(port: int, servers: int, takes_s: float) -> None:
    runner = web.AppRunner(WaitingService(servers, takes_s).app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
    await asyncio.Event().wait()


def main(
    port: Annotated[int, typer.Option(help="On loopback.")],
    servers: Annotated[int, typer.Option(help="Jobs at a time.")] = 8,
    takes: Annotated[float, typer.Option(help="Seconds of a job.")] = 0.1,
) -> None:
    """Serve until killed. Example: `python -m bench.parts.load_stub --port 8123`."""
    uvloop.run(_serve(port, servers, takes))


if __name__ == "__main__":
    typer.run(main)
