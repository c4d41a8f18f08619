"""Read of a job what a load test needs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import aiohttp
import msgspec

from core.job import JobStatus, Timing
from loadgen.sample import ClientOutcome, RequestSample


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPlacement:
    """Where the service put a job."""

    model: str = ""
    level: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJob:
    """What a load test reads of a job; other fields are ignored."""

    id: str
    status: JobStatus
    placement: ObservedPlacement = ObservedPlacement()
    timing: Timing | None = None
    error: Mapping[str, object] | None = None


_DECODE = msgspec.json.Decoder(ObservedJob).decode


def read_job(text: bytes | str) -> ObservedJob:
    """Read a job.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _DECODE(text)


async def get_job(
    http: aiohttp.ClientSession, job_id: str, wait_s: float | None = None
) -> ObservedJob:
    """Ask for a job, and wait so long for its end.

    Raises:
        aiohttp.ClientError: the service cannot be reached, or refuses.
    """
    params = {} if wait_s is None else {"wait": f"{wait_s:.2f}"}
    async with http.get(f"/v1/jobs/{job_id}", params=params) as answer:
        answer.raise_for_status()
        return read_job(await answer.read())


def ended(sample: RequestSample, job: ObservedJob) -> RequestSample:
    """Note how a job ended."""
    cause = str(job.error.get("type", "unknown")) if job.error else None
    return replace(
        sample,
        ending=ClientOutcome(job.status.value),
        model=job.placement.model,
        level=job.placement.level,
        timing=job.timing,
        error=cause,
    )
