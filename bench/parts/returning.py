"""Ask a live service for more than it can make, and come again whenever it says so."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from core.job import JobStatus

PATIENCE_S = 60.0  #: of one long poll


@dataclass(slots=True, kw_only=True)
class Visitor:
    """One who wants an image, and what became of that. Units: seconds since the start."""

    body: dict[str, object]
    at: float
    told_s: float | None = None  #: when it was told first to come again
    told_at: float = 0.0
    taken_at: float | None = None
    eta_s: float = 0.0  #: as told when it was taken
    slo_s: float = 0.0
    done_at: float | None = None
    refusals: int = 0

    @property
    def error(self) -> float | None:
        """How far off its first time to come again was, relative; None: it was taken at once."""
        if self.told_s is None or self.taken_at is None:
            return None
        came_s = self.taken_at - self.told_at
        return abs(self.told_s - came_s) / max(1.0, came_s)

    @property
    def took_s(self) -> float:
        """How long its image took once it was taken."""
        return (self.done_at or 0.0) - (self.taken_at or 0.0)

    async def visit(self, http: httpx.AsyncClient, began: float) -> None:
        """Come, and come again when told, until the image is there."""
        await asyncio.sleep(self.at)
        while (answer := await http.post("/v1/jobs", json=self.body)).status_code == 429:
            wait_s = float(answer.headers["retry-after"])
            self.refusals += 1
            if self.told_s is None:
                self.told_s, self.told_at = wait_s, time.perf_counter() - began
            await asyncio.sleep(wait_s)
        job = answer.raise_for_status().json()
        self.taken_at, self.slo_s = time.perf_counter() - began, job["slo_s"]
        self.eta_s = job["eta_s"]
        while not JobStatus(job["status"]).is_terminal:
            answer = await http.get(f"/v1/jobs/{job['id']}", params={"wait": PATIENCE_S})
            job = answer.raise_for_status().json()
        self.done_at = time.perf_counter() - began


async def visits(url: str, visitors: Sequence[Visitor]) -> None:
    """Let all of them come."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=90.0, limits=limits) as http:
        began = time.perf_counter()
        await asyncio.gather(*(visitor.visit(http, began) for visitor in visitors))
