"""Routes that show workers and queues (`/v1/fleet`) and the plan in force (`/v1/plan`)."""

from dataclasses import replace

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from api.services.requests import caller_of
from api.views.openapi import OPERATED
from api.views.responses import Problem
from core.application import own_name
from core.boards.fleet import Stage
from core.boards.plan import Plan, Strategy

router = APIRouter(tags=["service"])


class BoardView(BaseModel):
    """A fact of `core`, field by field."""

    model_config = ConfigDict(from_attributes=True)


class WarmingView(BoardView):
    """A model that a worker gets ready."""

    model: str
    stage: Stage = Field(
        description="`room`: it waits until others have left the memory; `reading`: its weights "
        "are read; `timing`: it is there, and its steps are timed between jobs"
    )
    seconds: float = Field(description="Since this stage began")
    fraction: float | None = Field(
        description="Of the time that it took to load there last; null: nobody has loaded it there"
    )
    serves: bool = Field(description="Asked for; otherwise tried while there is nothing to do")


class WorkerView(BoardView):
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
    untried: list[str]  #: models that nobody has timed there: made for those who name them
    loading: WarmingView | None = Field(description="A model that it gets ready now")
    failures: dict[str, str] = Field(description="Models that it could not load, and why")
    load_s: dict[str, float] = Field(description="Seconds that models took to load there")
    needs_gib: dict[str, float] = Field(
        description="Memory that models take there: weights, and what is computed with them"
    )
    slowness: float  #: time of its steps in profiled ones; 0: not known
    beat_at: float


class QueueView(BoardView):
    """What waits on one variant queue."""

    queue: str
    waiting: int
    oldest_s: float


class FleetView(BaseModel):
    """The workers that reported lately, and the queues they serve."""

    object: str = "fleet"
    workers: list[WorkerView]
    queues: list[QueueView]


class PasmView(BoardView):
    """How prompts of one class of one application are shared among levels."""

    application: str
    affinity: str
    models: list[str]
    is_full: bool  #: for jobs that cannot start from latents
    shares: dict[str, float]


class SwitchView(BoardView):
    """A change of strategy, and what was seen before it."""

    to: Strategy
    at: float
    cause: str


class CostView(BoardView):
    """What one model takes of one type of device, seconds."""

    fixed_s: float
    steps: list[tuple[int, float]]  #: images that share a step, and the time of that step
    is_measured: bool


class PlanView(BoardView):
    """The plan in force."""

    object: str = "plan"
    version: int
    made_at: float
    policy: str
    #: worker -> the model it holds or shall hold
    workers: dict[str, str] = Field(validation_alias="assignments")
    demand: dict[str, float]  #: application -> jobs/s
    affinity: dict[str, float]  #: class -> share H
    levels: dict[str, float]  #: level -> jobs/s F
    pasm: list[PasmView]
    saturation: float  #: unserved share of the demand
    costs: dict[str, dict[str, CostView]]  #: device type -> model -> what jobs are promised by
    resident: list[str]  #: models that some worker served then
    slowness: dict[str, float]  #: device type -> time of its steps in profiled ones
    strategy: Strategy
    switched: SwitchView | None  #: the last change of strategy


@router.get(
    "/v1/fleet",
    response_model=FleetView,
    responses=OPERATED,
    summary="Show the workers (operators)",
)
async def fleet(request: Request) -> Response:
    """Show the workers, what each holds and what it runs."""
    services, _ = caller_of(request)
    workers = await services.board.fleet()
    depths = await services.jobs.depths(services.queues)
    view = FleetView(
        workers=[WorkerView.model_validate(worker) for worker in workers],
        queues=[QueueView.model_validate(depth) for depth in depths],
    )
    return Response(view.model_dump_json(), media_type="application/json")


@router.get(
    "/v1/plan",
    response_model=PlanView,
    responses={
        **OPERATED,
        404: {"model": Problem, "description": "No plan has been published yet"},
    },
    summary="Show the plan in force (operators)",
)
async def plan(request: Request) -> Response:
    """Show what the scheduler decided for this period."""
    services, tenant = caller_of(request)
    current = await services.board.plan()
    if current is None:
        raise HTTPException(404, "no plan has been published yet")
    view = PlanView.model_validate(_as_seen_by(tenant, current))
    return Response(view.model_dump_json(), media_type="application/json")


def _as_seen_by(tenant: str, plan: Plan) -> Plan:
    """Show an operator's own applications by their own names, others' as `<tenant>/<name>`."""

    def name_of(key: str) -> str:
        return own_name(tenant, key) or key

    return replace(
        plan,
        demand={name_of(key): rate for key, rate in plan.demand.items()},
        pasm=tuple(replace(row, application=name_of(row.application)) for row in plan.pasm),
    )
