"""What can images be made to keep to here: `/v1/controlnets`."""

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.services import services_of

router = APIRouter(tags=["service"])


class ControlNetView(BaseModel):
    """One ControlNet, and the models that it steers."""

    id: str
    object: str = "controlnet"
    models: list[str]
    condition: str


class ControlNetList(BaseModel):
    """Every ControlNet of this service."""

    object: str = "list"
    data: list[ControlNetView]
    max_controls: int


@router.get(
    "/v1/controlnets", response_model=ControlNetList, summary="List what images can keep to"
)
async def controlnets(request: Request) -> Response:
    """List the ControlNets that a job may name, and what their conditions show."""
    services = services_of(request)
    services.keyring.tenant_of(request)
    view = ControlNetList(
        data=[
            ControlNetView(id=each.name, models=list(each.models), condition=each.condition)
            for each in services.rules.controlnets.values()
        ],
        max_controls=services.rules.max_controls,
    )
    return Response(view.model_dump_json(), media_type="application/json")
