"""Who operates, and what of it is noted: who did what, from where."""

from starlette.requests import Request

from api.services.auth import KeyHolder, address_of
from api.services.requests import services_of
from api.services.services import Services
from core.errors import Conflict
from core.log import get_logger

#: Who did what, from where.
audit = get_logger("api.audit")


def operated(request: Request) -> tuple[Services, KeyHolder]:
    """Return the services, and the operator that asks.

    Raises:
        Conflict: this service asks for no keys, so that one would mean nothing.
    """
    services = services_of(request)
    operator = services.keyring.holder_of(request)
    if services.keyring.is_open:
        raise Conflict(
            "this service asks for no keys: start it with ATELIER_OPERATOR_KEYS='[\"<a long random "
            "key>\"]', and ask with that one"
        )
    return services, operator


def note(request: Request, holder: KeyHolder, event: str, **facts: object) -> None:
    """Note who did something, from where."""
    audit.info(
        event,
        **facts,
        by=holder.key_id,
        by_tenant=holder.tenant,
        address=address_of(request),
        request_id=request.scope.get("request_id", ""),
    )
