"""Routes that describe models to Replicate's clients: each has one version."""

from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from api.facades.replicate.translate import model_of
from api.intake.schemas import JobCreate
from api.services.requests import caller_of
from api.services.services import Services
from api.views.openapi import NOT_FOUND
from tasks.jobs.prediction import OWNER, version_of

#: What their clients parse as a version of Cog.
COG: Final = "0.16.0"
#: When a version was made; nothing depends on it, and their clients want a date.
SINCE: Final = "2026-01-01T00:00:00Z"

router = APIRouter(tags=["replicate"])


@router.get("/v1/models/{owner}/{name}", responses=NOT_FOUND, summary="Describe a model")
async def read(request: Request, owner: str, name: str) -> Response:
    """Describe one model."""
    services, _ = caller_of(request)
    model = model_of(f"{owner}/{name}", services.models)
    return JSONResponse(
        {
            "url": f"{services.urls.public_url}/v1/models",
            "owner": OWNER,
            "name": model,
            "description": f"A model of the family {services.models[model].family}.",
            "visibility": "private",
            "run_count": 0,
            "latest_version": _version(model),
        }
    )


@router.get(
    "/v1/models/{owner}/{name}/versions", responses=NOT_FOUND, summary="List a model's versions"
)
async def versions(request: Request, owner: str, name: str) -> Response:
    """List the one version of a model."""
    services, _ = caller_of(request)
    model = model_of(f"{owner}/{name}", services.models)
    return JSONResponse({"previous": None, "next": None, "results": [_version(model)]})


@router.get(
    "/v1/models/{owner}/{name}/versions/{version}",
    responses=NOT_FOUND,
    summary="Describe a version of a model",
)
async def version(request: Request, owner: str, name: str, version: str) -> Response:
    """Describe the one version of a model."""
    services, _ = caller_of(request)
    return JSONResponse(_version(_model(services, f"{owner}/{name}:{version}")))


def _model(services: Services, reference: str) -> str:
    return model_of(reference, services.models)


def _version(model: str) -> dict[str, Any]:
    image = {"type": "array", "items": {"type": "string", "format": "uri"}, "title": "Output"}
    return {
        "id": version_of(model),
        "created_at": SINCE,
        "cog_version": COG,
        "openapi_schema": {
            "components": {"schemas": {"Input": JobCreate.model_json_schema(), "Output": image}}
        },
    }
