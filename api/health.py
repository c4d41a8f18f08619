"""Is this process alive, and could it get a job done: `/healthz`, `/readyz`."""

import asyncio
from collections.abc import Awaitable

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.answers import Problem
from api.errors import RETRY_AFTER_S, problem
from api.services import Services, services_of
from core.errors import NoPlan, ObjectMissing, ObjectsUnavailable
from storage.objects import ObjectStore

#: Seconds a dependency has to answer.
BUDGET_S = 2.0
#: A key nobody writes: asking for it tells whether the object store answers.
PROBE_KEY = "readyz/probe"

router = APIRouter(tags=["service"])


class Health(BaseModel):
    """A process that answers."""

    status: str


@router.get("/healthz", response_model=Health, summary="Is this process alive")
async def healthz() -> Response:
    """Answer without asking anybody."""
    return Response(Health(status="ok").model_dump_json(), media_type="application/json")


@router.get(
    "/readyz",
    response_model=Health,
    responses={503: {"model": Problem, "description": "`missing` lists what does not answer"}},
    summary="Could a job be done now",
)
async def readyz(request: Request) -> Response:
    """Answer 200 once store, queue, objects, scheduler and one worker answer."""
    missing = await what_is_missing(services_of(request))
    if not missing:
        return Response(Health(status="ready").model_dump_json(), media_type="application/json")
    return problem(
        request,
        kind="not-ready",
        title="The service cannot make images now",
        status=503,
        detail=f"missing: {', '.join(missing)}",
        missing=missing,
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )


async def what_is_missing(services: Services) -> list[str]:
    """Name the dependencies that do not answer in time."""
    checks: dict[str, Awaitable[bool]] = {
        "store": _answers(services.board.ping()),
        "queue": _answers(services.jobs.depths(services.queues)),
        "objects": _answers(_objects(services)),
        "scheduler": _answers(services.scheduler_ready()),
        "worker": _answers(_worker(services)),
    }
    found = await asyncio.gather(*checks.values())
    return [name for name, is_there in zip(checks, found, strict=True) if not is_there]


async def _answers(check: Awaitable[object]) -> bool:
    try:
        async with asyncio.timeout(BUDGET_S):
            await check
    except Exception:  # whatever it is, it cannot be relied on now
        return False
    return True


async def _objects(services: Services) -> None:
    """Ask the object store; while it does not answer one look, others share that look's thread."""
    if services.look is None or services.look.done():
        services.look = asyncio.create_task(asyncio.to_thread(_has_answered, services.objects))
    if not await asyncio.shield(services.look):
        raise ObjectsUnavailable("no answer to a probe")


def _has_answered(objects: ObjectStore) -> bool:
    try:
        objects.get(PROBE_KEY)
    except ObjectMissing:
        return True
    except Exception:  # nobody may be left to hear of it
        return False
    return True


async def _worker(services: Services) -> None:
    """Look for a worker that holds what the plan wants on it: without one, jobs have no place."""
    plan, fleet = await services.board.plan(), await services.board.fleet()
    wanted = plan.assignments if plan is not None else {}
    if not any(wanted.get(worker.name) in worker.models for worker in fleet):
        raise NoPlan("no worker holds a model that the plan wants on it")
