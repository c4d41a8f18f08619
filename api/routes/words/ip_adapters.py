"""Route `GET /v1/ip-adapters`: the IP-Adapters of the service."""

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from api.services.requests import caller_of

router = APIRouter(tags=["ip-adapters"])


class IpAdapterView(BaseModel):
    """One IP-Adapter, and the models that it was made for."""

    id: str = Field(description="Its name, as `ip_adapter.id` of a job.")
    object: str = "ip_adapter"
    models: list[str] = Field(description="Names of the models that it was made for.")


class IpAdapterList(BaseModel):
    """All of them, by name."""

    object: str = "list"
    data: list[IpAdapterView] = Field(description="The IP-Adapters of the service.")


@router.get("/v1/ip-adapters", summary="List the IP-Adapters")
async def list_ip_adapters(request: Request) -> IpAdapterList:
    """List what jobs may name as `ip_adapter`: the operator's folders."""
    services, _ = caller_of(request)
    known = services.rules.ip_adapters.values()
    data = [IpAdapterView(id=each.name, models=list(each.models)) for each in known]
    return IpAdapterList(data=data)
