"""Who operates, and what of it is noted: who did what, from where."""

from typing import Annotated

from fastapi import Query
from starlette.requests import Request

from api.services.auth import TENANT_PATTERN, KeyHolder, address_of
from api.services.requests import sender_of, services_of
from api.services.services import Services
from core.errors import Conflict, MissingScope, Unavailable
from core.log import get_logger
from storage.tenants.audit import AuditEntry
from storage.tenants.key import Scope

#: A tenant that an operator names.
NamedTenant = Annotated[
    str | None,
    Query(
        max_length=64,
        pattern=f"^{TENANT_PATTERN}$",
        description="Another tenant, named by an operator.",
    ),
]

#: Seconds that what is rotated, a key or a secret, works on beside what takes its place.
DEFAULT_OVERLAP_S = 86_400.0
MAX_OVERLAP_S = 30 * 86_400.0

#: Who did what, from where.
audit = get_logger("api.audit")


def operated(request: Request) -> tuple[Services, KeyHolder]:
    """Return the services, and the operator that asks.

    Raises:
        Conflict: this service asks for no keys, so that one would mean nothing.
    """
    services = services_of(request)
    operator = sender_of(request)
    if services.keyring.is_open:
        raise Conflict(
            "this service asks for no keys: start it with ATELIER_OPERATOR_KEYS='[\"<a long random "
            "key>\"]', and ask with that one"
        )
    return services, operator


def subject_of(request: Request, tenant: str | None) -> tuple[Services, str, KeyHolder]:
    """Return the services, whose things are meant, and who asks: operators may name a tenant.

    Raises:
        MissingScope: another tenant is named, by a key without the scope `operate`.
    """
    services = services_of(request)
    holder = sender_of(request)
    if tenant not in (None, holder.tenant) and Scope.OPERATE not in holder.scopes:
        raise MissingScope("`tenant` names another: this needs a key with the scope `operate`")
    return services, tenant or holder.tenant, holder


async def note(request: Request, holder: KeyHolder, event: str, **facts: object) -> None:
    """Note who did something, from where: in the log, and among the last in the store.

    It is done by now: a store that does not take the note refuses nothing.
    """
    who = {
        "by": holder.key_id,
        "by_tenant": holder.tenant,
        "address": address_of(request),
        "request_id": request.scope.get("request_id", ""),
    }
    audit.info(event, **facts, **who)
    try:
        await services_of(request).audit.add(AuditEntry(event=event, facts=facts, **who))
    except Unavailable as error:
        audit.warning("not_among_the_last", event_noted=event, reason=str(error))
