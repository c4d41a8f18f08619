"""Which scope a key needs for each route: one table, a row a route. Pure.

Whatever makes, changes or deletes what is a tenant's needs `submit`, what reads it `read`, what is
not any tenant's `operate`. Routes of None ask for no key: probes, the pages, files by signed URL.
"""

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request

from storage.tenants.key import Scope

SUBMIT, READ, OPERATE = Scope.SUBMIT, Scope.READ, Scope.OPERATE

#: Method and path, as the route has it -> the scope its keys need.
NEEDED: Final[Mapping[str, Scope | None]] = {
    "POST /v1/jobs": SUBMIT,
    "GET /v1/jobs": READ,
    "GET /v1/jobs/{job_id}": READ,
    "GET /v1/jobs/{job_id}/events": READ,
    "POST /v1/jobs/{job_id}/cancel": SUBMIT,
    "POST /v1/jobs/{job_id}/retry": SUBMIT,
    "DELETE /v1/jobs/{job_id}": SUBMIT,
    "POST /v1/templates": SUBMIT,
    "GET /v1/templates": READ,
    "GET /v1/templates/{upload_id}": READ,
    "DELETE /v1/templates/{upload_id}": SUBMIT,
    "POST /v1/files": SUBMIT,
    "GET /v1/files": READ,
    "GET /v1/files/{upload_id}": READ,
    "DELETE /v1/files/{upload_id}": SUBMIT,
    "POST /v1/loras": SUBMIT,
    "GET /v1/loras": READ,
    "GET /v1/loras/{lora_id}": READ,
    "DELETE /v1/loras/{lora_id}": SUBMIT,
    "POST /v1/embeddings": SUBMIT,
    "GET /v1/embeddings": READ,
    "GET /v1/embeddings/{embedding_id}": READ,
    "DELETE /v1/embeddings/{embedding_id}": SUBMIT,
    "GET /v1/ip-adapters": READ,
    "POST /v1/controlnets": SUBMIT,
    "GET /v1/controlnets": READ,
    "GET /v1/controlnets/{controlnet_id}": READ,
    "DELETE /v1/controlnets/{controlnet_id}": SUBMIT,
    "POST /v1/applications": SUBMIT,
    "GET /v1/applications": READ,
    "GET /v1/applications/{name}": READ,
    "DELETE /v1/applications/{name}": SUBMIT,
    "GET /v1/webhooks/dead": READ,
    "POST /v1/webhooks/{webhook_id}/replay": SUBMIT,
    "GET /v1/webhooks/default/secret": SUBMIT,  # who reads it can sign webhooks
    "POST /v1/images/generations": SUBMIT,
    "POST /v1/images/edits": SUBMIT,
    "POST /v1/predictions": SUBMIT,
    "POST /v1/models/{owner}/{name}/predictions": SUBMIT,
    "GET /v1/predictions": READ,
    "GET /v1/predictions/{job_id}": READ,
    "GET /v1/predictions/{job_id}/stream": READ,
    "POST /v1/predictions/{job_id}/cancel": SUBMIT,
    "GET /v1/models": READ,
    "GET /v1/models/{name}": READ,
    "GET /v1/models/{owner}/{name}": READ,
    "GET /v1/models/{owner}/{name}/versions": READ,
    "GET /v1/models/{owner}/{name}/versions/{version}": READ,
    "POST /v1/models": OPERATE,
    "DELETE /v1/models/{name}": OPERATE,
    "GET /v1/fleet": OPERATE,
    "GET /v1/plan": OPERATE,
    "GET /v1/history": OPERATE,
    "POST /v1/keys": OPERATE,
    "GET /v1/keys": OPERATE,
    "POST /v1/keys/{key_id}/rotate": OPERATE,
    "DELETE /v1/keys/{key_id}": OPERATE,
    "GET /v1/webhooks/secret": SUBMIT,  # who reads it can sign webhooks; another's: and `operate`
    "POST /v1/webhooks/secret/rotate": SUBMIT,
    "POST /v1/urls/revoke": SUBMIT,
    "GET /v1/usage": READ,  # another tenant's: and `operate`
    "GET /v1/audit": OPERATE,
    "GET /v1/tenants": OPERATE,
    "GET /v1/tenants/{tenant}": OPERATE,
    "PATCH /v1/tenants/{tenant}": OPERATE,
    "GET /files/{key:path}": None,
    "HEAD /files/{key:path}": None,
    "GET /healthz": None,
    "GET /readyz": None,
    "GET /metrics": None,  # Prometheus reads it inside the network; see docs/tenants.md
    "GET /": None,
    "GET /assets/{name}": None,
    "GET /docs": None,
    "GET /docs/{name}": None,
    "GET /openapi.json": None,
    "HEAD /openapi.json": None,
}


def scope_of(request: Request) -> Scope:
    """Tell the scope that a request needs; one whose route has no row is an operator's alone."""
    path = getattr(request.scope.get("route"), "path", "")
    return NEEDED.get(f"{request.method} {path}") or OPERATE
