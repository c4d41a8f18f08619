"""Liveness and readiness probes: `/healthz`, `/readyz`."""

import asyncio
from collections.abc import Awaitable, Mapping

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from api.services.requests import services_of
from api.services.services import Services
from api.services.startup_checks import refuse
from api.views.errors import RETRY_AFTER_S, problem
from api.views.responses import Problem
from core.errors import ConfigurationError, NoPlan

#: Seconds a dependency has to answer.
BUDGET_S = 2.0

router = APIRouter(tags=["service"])


class Health(BaseModel):
    """A process that answers."""

    status: str


class SegmentView(BaseModel):
    """Jobs that are worth alike to a cell."""

    model_config = ConfigDict(from_attributes=True)

    rate: float = Field(description="Jobs a second")
    worth: float = Field(description="Quality that each of them adds")


class CapacityView(BaseModel):
    """What a cell can do, for routers: `docs/cells.md`."""

    segments: list[SegmentView] = Field(
        description="What one more job is worth, by how many there are: falling"
    )
    demand: float = Field(description="Jobs a second that are asked of it")


class Readiness(Health):
    """A process that takes jobs."""

    cell: str | None = Field(None, description="In which cell it works; missing: there are none")
    capacity: CapacityView | None = Field(None, description="Missing: nobody knows yet")


@router.get("/healthz", response_model=Health, summary="Is this process alive")
async def healthz() -> Response:
    """Answer without asking anybody."""
    return Response(Health(status="ok").model_dump_json(), media_type="application/json")


@router.get(
    "/readyz",
    response_model=Readiness,
    response_model_exclude_none=True,
    responses={503: {"model": Problem, "description": "`missing` lists what cannot be used"}},
    summary="Could a job be done now",
)
async def readyz(request: Request) -> Response:
    """Answer 200 once store, queue, scheduler and one worker answer, and objects can be written.

    A worker that still loads its model counts: jobs are taken, with the load in their `eta_s`.
    """
    services = services_of(request)
    missing = await what_is_missing(services)
    if missing:
        return _not_ready(request, missing)
    cell = services.settings.cell or None
    ready = Readiness(status="ready", cell=cell, capacity=_capacity(services))
    return Response(ready.model_dump_json(exclude_none=True), media_type="application/json")


def _not_ready(request: Request, missing: Mapping[str, str]) -> Response:
    reasons = (f"{name} ({reason})" if reason else name for name, reason in missing.items())
    return problem(
        request,
        kind="not-ready",
        title="The service cannot make images now",
        status=503,
        detail=f"missing: {', '.join(reasons)}",
        missing=[*missing],
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )


def _capacity(services: Services) -> CapacityView | None:
    """Show what this cell can do, as the plan says."""
    plan = services.follower.plan
    if plan is None or not plan.capacity:
        return None
    segments = [SegmentView.model_validate(each) for each in plan.capacity]
    return CapacityView(segments=segments, demand=sum(plan.demand.values()))


async def what_is_missing(services: Services) -> dict[str, str]:
    """Name the dependencies that do not answer in time, or must not be used and why."""
    checks: dict[str, Awaitable[str | None]] = {
        "store": _fault(_store(services)),
        "queue": _fault(services.jobs.depths(services.queues)),
        "objects": _fault(services.writing.answer()),
        "scheduler": _fault(services.scheduler_ready()),
        "worker": _fault(_worker(services)),
    }
    found = await asyncio.gather(*checks.values())
    return {name: fault for name, fault in zip(checks, found, strict=True) if fault is not None}


async def _fault(check: Awaitable[object]) -> str | None:
    try:
        async with asyncio.timeout(BUDGET_S):
            await check
    except ConfigurationError as error:
        return str(error)
    except Exception:  # whatever it is, it cannot be relied on now
        return ""
    return None


async def _store(services: Services) -> None:
    await services.board.ping()
    refuse((await services.durability.answer()).faults)


async def _worker(services: Services) -> None:
    """Look for a worker that is planned with: without one, jobs have no place.

    By what this process has heard, so that it answers of jobs as it does of itself. A worker may be
    loading: jobs that wait for its model have a place all the same.
    """
    plan = services.follower.plan
    planned = plan.assignments if plan is not None else {}
    if any(worker.name in planned for worker in services.fleet):
        return
    failures = {m: why for worker in services.fleet for m, why in worker.failures.items()}
    if failures:
        said = "; ".join(f"{model}: {why}" for model, why in sorted(failures.items()))
        raise ConfigurationError(f"no model could be loaded: {said}")
    raise NoPlan("the plan has no worker that reports")
