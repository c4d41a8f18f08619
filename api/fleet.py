"""What the workers do and what the scheduler decided: `/v1/fleet`, `/v1/plan`."""

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.schemas import Problem
from api.services import services_of
from core.fleet import QueueDepth, Worker
from core.plan import PasmRow, Plan

router = APIRouter(tags=["service"])


class WorkerView(BaseModel):
    """One worker process on one device."""

    name: str
    device_type: str
    models: list[str]
    queues: list[str]
    memory_gib: float
    running: int
    waiting: int
    max_slots: int
    step_s: float
    beat_at: float


class QueueView(BaseModel):
    """What waits on one variant queue."""

    queue: str
    waiting: int
    oldest_s: float


class FleetView(BaseModel):
    """The workers that reported lately, and the queues they serve."""

    object: str = "fleet"
    workers: list[WorkerView]
    queues: list[QueueView]


class PasmView(BaseModel):
    """How prompts of one class of one application are shared among levels."""

    application: str
    affinity: str
    models: list[str]
    shares: dict[str, float]


class PlanView(BaseModel):
    """The plan in force."""

    object: str = "plan"
    version: int
    made_at: float
    policy: str
    workers: dict[str, str]  #: worker -> the model it holds or shall hold
    demand: dict[str, float]  #: application -> jobs/s
    affinity: dict[str, float]  #: class -> share H
    levels: dict[str, float]  #: level -> jobs/s F
    pasm: list[PasmView]
    saturation: float  #: unserved share of the demand


@router.get("/v1/fleet", response_model=FleetView, summary="Show the workers")
async def fleet(request: Request) -> Response:
    """Show the workers, what each holds and what it runs."""
    services = services_of(request)
    services.keyring.tenant_of(request)
    workers = await services.board.fleet()
    depths = await services.jobs.depths(services.queues)
    view = FleetView(workers=[_worker(w) for w in workers], queues=[_queue(d) for d in depths])
    return Response(view.model_dump_json(), media_type="application/json")


@router.get(
    "/v1/plan",
    response_model=PlanView,
    responses={404: {"model": Problem, "description": "No plan has been published yet"}},
    summary="Show the plan in force",
)
async def plan(request: Request) -> Response:
    """Show what the scheduler decided for this period."""
    services = services_of(request)
    services.keyring.tenant_of(request)
    current = await services.board.plan()
    if current is None:
        raise HTTPException(404, "no plan has been published yet")
    return Response(_plan(current).model_dump_json(), media_type="application/json")


def _worker(worker: Worker) -> WorkerView:
    return WorkerView(
        name=worker.name,
        device_type=worker.device_type,
        models=list(worker.models),
        queues=list(worker.queues),
        memory_gib=worker.memory_gib,
        running=worker.running,
        waiting=worker.waiting,
        max_slots=worker.max_slots,
        step_s=worker.step_s,
        beat_at=worker.beat_at,
    )


def _queue(depth: QueueDepth) -> QueueView:
    return QueueView(queue=depth.queue, waiting=depth.waiting, oldest_s=depth.oldest_s)


def _row(row: PasmRow) -> PasmView:
    return PasmView(
        application=row.application,
        affinity=row.affinity,
        models=list(row.models),
        shares=dict(row.shares),
    )


def _plan(plan: Plan) -> PlanView:
    return PlanView(
        version=plan.version,
        made_at=plan.made_at,
        policy=plan.policy,
        workers=dict(plan.assignments),
        demand=dict(plan.demand),
        affinity=dict(plan.affinity),
        levels=dict(plan.levels),
        pasm=[_row(row) for row in plan.pasm],
        saturation=plan.saturation,
    )
