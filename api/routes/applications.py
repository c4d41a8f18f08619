"""Routes of `/v1/applications`: SLO and quality floor that a tenant sets for its jobs."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.responses import Response

from api.intake.schemas import MAX_DEADLINE_S, Inbound, Named
from api.routes.jobs import as_json
from api.services.requests import caller_of, read_json, require_json
from api.services.services import Services
from api.views.openapi import APPLICATION, APPLICATION_NOT_FOUND, APPLICATION_PROBLEMS
from core.application import DEFAULT, Application
from core.errors import FieldError, InvalidRequest
from core.model import offered

#: Models that one application may name.
MAX_MODELS = 100

Name = Annotated[
    str, StringConstraints(max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
]

router = APIRouter(tags=["applications"])


class ApplicationCreate(Inbound):
    """What a tenant says of its jobs of one kind."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "avatars", "models": ["shapes-xl", "shapes-m"], "slo_s": 5.0},
                {"name": "print", "quality_floor": 0.95},
            ]
        }
    )

    name: Name = Field(description="What jobs name as their `application`.")
    models: list[Named] | None = Field(
        None,
        min_length=1,
        max_length=MAX_MODELS,
        description="Names of `GET /v1/models` that may serve it; null: all whose quality is "
        "known, or all where no quality is.",
    )
    slo_s: float | None = Field(
        None,
        gt=0,
        le=MAX_DEADLINE_S,
        description="Seconds from acceptance to images; null: three times the best model's.",
    )
    quality_floor: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Mean relative quality that a level must have to be used for its prompts.",
    )


class ApplicationView(BaseModel):
    """One application."""

    name: str
    object: str = "application"
    models: list[str]
    slo_s: float | None
    quality_floor: float


class ApplicationList(BaseModel):
    """The applications of a tenant, by name. Jobs that name none are of `default`."""

    object: str = "list"
    data: list[ApplicationView]


class ApplicationGone(BaseModel):
    """What was deleted."""

    name: str
    object: str = "application"
    deleted: bool = True


async def register(request: Request) -> Response:
    """Register an application; jobs may name it from now on."""
    services, tenant = caller_of(request)
    create = await read_json(request, ApplicationCreate)
    require_json(request)
    application = _application(services, tenant, create)
    await services.applications.add(application)
    response = as_json(_view(application), 201)
    url = f"{services.urls.public_url}/v1/applications/{application.name}"
    response.headers["Location"] = url
    return response


router.add_api_route(
    "/v1/applications",
    register,
    methods=["POST"],
    status_code=201,
    response_model=ApplicationView,
    responses=APPLICATION_PROBLEMS,
    openapi_extra=APPLICATION,
    summary="Register an application",
)


@router.get("/v1/applications", response_model=ApplicationList, summary="List applications")
async def list_applications(request: Request) -> Response:
    """List the tenant's applications, by name."""
    services, tenant = caller_of(request)
    found = await services.applications.list(tenant)
    return as_json(ApplicationList(data=[_view(each) for each in found]))


@router.get(
    "/v1/applications/{name}",
    response_model=ApplicationView,
    responses=APPLICATION_NOT_FOUND,
    summary="Read one application",
)
async def read(request: Request, name: str) -> Response:
    """Read one application."""
    services, tenant = caller_of(request)
    return as_json(_view(await services.applications.get(tenant, name)))


@router.delete(
    "/v1/applications/{name}",
    response_model=ApplicationGone,
    responses=APPLICATION_NOT_FOUND,
    summary="Delete an application",
)
async def remove(request: Request, name: str) -> Response:
    """Delete an application; jobs that were accepted are made all the same."""
    services, tenant = caller_of(request)
    await services.applications.remove(tenant, name)
    return as_json(ApplicationGone(name=name))


def _application(services: Services, tenant: str, create: ApplicationCreate) -> Application:
    """Check an application against what is served.

    Raises:
        InvalidRequest: a model is not served, or the name is taken by the service itself.
    """
    faults = [
        FieldError(f"models.{i}", f"must be one of {', '.join(services.models)}")
        for i, name in enumerate(create.models or ())
        if name not in services.models
    ]
    if create.name == DEFAULT:
        faults.append(FieldError("name", f"{DEFAULT!r} is what jobs belong to that name none"))
    if faults:
        raise InvalidRequest(faults)
    return Application(
        name=create.name,
        tenant=tenant,
        models=tuple(sorted(set(create.models or offered(services.models)))),
        slo_s=create.slo_s,
        quality_floor=create.quality_floor,
    )


def _view(application: Application) -> ApplicationView:
    return ApplicationView(
        name=application.name,
        models=list(application.models),
        slo_s=application.slo_s,
        quality_floor=application.quality_floor,
    )
