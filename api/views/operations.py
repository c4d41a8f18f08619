"""How operations are called in the API's description, so that generated clients read well. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

#: Method and path -> its id: a verb and what it is done to. Facades say whose they are.
OPERATIONS: Final[Mapping[str, str]] = {
    "POST /v1/jobs": "create_job",
    "GET /v1/jobs": "list_jobs",
    "GET /v1/jobs/{job_id}": "read_job",
    "DELETE /v1/jobs/{job_id}": "delete_job",
    "POST /v1/jobs/{job_id}/cancel": "cancel_job",
    "POST /v1/jobs/{job_id}/retry": "retry_job",
    "GET /v1/jobs/{job_id}/events": "follow_job",
    "POST /v1/templates": "add_template",
    "GET /v1/templates": "list_templates",
    "GET /v1/templates/{upload_id}": "read_template",
    "DELETE /v1/templates/{upload_id}": "delete_template",
    "POST /v1/files": "add_file",
    "GET /v1/files": "list_files",
    "GET /v1/files/{upload_id}": "read_file",
    "DELETE /v1/files/{upload_id}": "delete_file",
    "POST /v1/loras": "add_lora",
    "GET /v1/loras": "list_loras",
    "GET /v1/loras/{lora_id}": "read_lora",
    "DELETE /v1/loras/{lora_id}": "delete_lora",
    "POST /v1/embeddings": "add_embedding",
    "GET /v1/embeddings": "list_embeddings",
    "GET /v1/embeddings/{embedding_id}": "read_embedding",
    "DELETE /v1/embeddings/{embedding_id}": "delete_embedding",
    "POST /v1/controlnets": "add_controlnet",
    "GET /v1/controlnets": "list_controlnets",
    "GET /v1/controlnets/{controlnet_id}": "read_controlnet",
    "DELETE /v1/controlnets/{controlnet_id}": "delete_controlnet",
    "GET /v1/ip-adapters": "list_ip_adapters",
    "GET /files/{key}": "fetch_image",
    "POST /v1/applications": "add_application",
    "GET /v1/applications": "list_applications",
    "GET /v1/applications/{name}": "read_application",
    "DELETE /v1/applications/{name}": "delete_application",
    "GET /v1/webhooks/dead": "list_dead_webhooks",
    "POST /v1/webhooks/{webhook_id}/replay": "replay_webhook",
    "GET /v1/webhooks/default/secret": "replicate_read_webhook_secret",
    "GET /v1/webhooks/secret": "read_webhook_secret",
    "POST /v1/webhooks/secret/rotate": "rotate_webhook_secret",
    "POST /v1/urls/revoke": "revoke_urls",
    "GET /v1/models": "list_models",
    "GET /v1/models/{name}": "read_model",
    "POST /v1/models": "add_model",
    "DELETE /v1/models/{name}": "remove_model",
    "POST /v1/keys": "add_key",
    "GET /v1/keys": "list_keys",
    "POST /v1/keys/{key_id}/rotate": "rotate_key",
    "DELETE /v1/keys/{key_id}": "revoke_key",
    "GET /v1/tenants": "list_tenants",
    "GET /v1/tenants/{tenant}": "read_tenant",
    "PATCH /v1/tenants/{tenant}": "change_tenant",
    "GET /v1/audit": "read_audit",
    "GET /v1/usage": "read_usage",
    "GET /v1/fleet": "read_fleet",
    "GET /v1/plan": "read_plan",
    "GET /v1/history": "read_history",
    "GET /healthz": "is_alive",
    "GET /readyz": "is_ready",
    "GET /metrics": "read_metrics",
    "POST /v1/images/generations": "openai_generate",
    "POST /v1/images/edits": "openai_edit",
    "POST /v1/predictions": "replicate_create",
    "POST /v1/models/{owner}/{name}/predictions": "replicate_create_by_model",
    "GET /v1/predictions": "replicate_list",
    "GET /v1/predictions/{job_id}": "replicate_read",
    "GET /v1/predictions/{job_id}/stream": "replicate_follow",
    "POST /v1/predictions/{job_id}/cancel": "replicate_cancel",
    "GET /v1/models/{owner}/{name}": "replicate_read_model",
    "GET /v1/models/{owner}/{name}/versions": "replicate_list_versions",
    "GET /v1/models/{owner}/{name}/versions/{version}": "replicate_read_version",
}


def name_operations(document: dict[str, Any]) -> None:
    """Call each operation what the table says; one without a row keeps the framework's id."""
    for row, operation in operations_of(document):
        operation["operationId"] = OPERATIONS.get(row, operation["operationId"])


def operations_of(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every operation, with its method and path as the table has them."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation
