"""Forms to `/v1/files`, as Replicate's clients upload; other bodies are our own API's."""

from datetime import UTC, datetime

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from api.facades.forms import FORM, files_of, read_form
from api.routes.uploads import FILES
from api.services.requests import caller_of, media_type_of
from api.services.tenants.webhook_secrets import secret_of, with_own_secret
from core.errors import FieldError, InvalidRequest
from core.uploads.upload import Upload

router = APIRouter(tags=["replicate"])


@router.post("/v1/files", include_in_schema=False)
async def keep(request: Request) -> Response:
    """Keep an image that comes as the part `content` of a form."""
    if media_type_of(request) != FORM:
        return await FILES.keep(request)
    services, tenant = caller_of(request)
    async with read_form(request) as form, services.turns.of(tenant):
        found = files_of(form, "content")
        if len(found) != 1:
            fault = f"must be one file; there are {len(found)}"
            raise InvalidRequest([FieldError("content", fault)])
        name, data = found[0].filename or "", await found[0].read()
        kept = await FILES.store(services, tenant, data)
    return JSONResponse(_view(kept, name, services.urls.public_url), 201)


@router.get("/v1/webhooks/default/secret", summary="Read what signs webhooks")
async def secret(request: Request) -> Response:
    """Read the secret that the tenant's webhooks are signed by, drawn at the first time."""
    services, tenant = caller_of(request)
    key = secret_of(services, await with_own_secret(request, tenant))
    return JSONResponse({"key": key}, headers={"Cache-Control": "no-store"})


def _view(kept: Upload, name: str, public_url: str) -> dict[str, object]:
    return {
        "id": kept.id,
        "name": name[:200],
        "content_type": kept.content_type,
        "size": kept.size_bytes,
        "etag": kept.sha256,
        "checksums": {"sha256": kept.sha256},
        "metadata": {},
        "created_at": datetime.fromtimestamp(kept.created_at, UTC).isoformat(),
        "expires_at": None,
        "urls": {"get": f"{public_url}/v1/files/{kept.id}"},
    }
