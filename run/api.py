"""The HTTP front: `python -m run.api`."""

import asyncio
import gc
import ipaddress
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from socket import socket
from typing import Any, cast

import uvicorn
from fastapi import FastAPI

from api.facades.openai import images
from api.facades.replicate import files as form_files
from api.facades.replicate import models as model_versions
from api.facades.replicate import predictions
from api.facades.replicate.schemas import PredictionCreate
from api.intake.schemas import JobCreate
from api.middleware import RequestScope
from api.protocol import LimitedProtocol
from api.protocol_faults import MAX_CONNECTIONS
from api.routes import (
    applications,
    buried,
    controlnets,
    events,
    files,
    health,
    jobs,
    listing,
    loras,
    metrics,
    models,
    submit,
    uploads,
    webhooks,
)
from api.routes.applications import ApplicationCreate
from api.routes.models import ModelCreate
from api.routes.operators import fleet, history
from api.routes.pages import front
from api.routes.pages import reference as manual
from api.routes.tenants import audit, keys, secrets, tenants, usage
from api.routes.tenants.keys import KeyCreate
from api.routes.tenants.tenants import TenantChange
from api.routes.words import embeddings, ip_adapters
from api.services.services import OpenServices, open_services
from api.services.startup_checks import check, check_store
from api.views import errors
from api.views.glossary import describe
from api.views.operations import name_operations
from api.views.problems import declare
from catalog.prompts.embedding_file import MAX_BYTES
from core.errors import ConfigurationError
from core.log import configure, end
from core.settings import Settings, get_settings
from core.telemetry.traces import TRACES
from run.open_files import allow_files
from storage.boards.schema import announcing

VERSION = "0.1.0"
#: Seconds a stopping server gives the requests it has.
DRAIN_S = 10
#: Seconds an idle connection stays open: longer than proxies keep theirs, so that they close first.
KEEP_ALIVE_S = 75

#: Seconds after which a thread lets the event loop have the interpreter.
SWITCH_S = 0.001
#: Files that are open at a time beside connections: of the store, of uploads, of what is served.
OTHER_FILES = 1000

#: The modules that have routes; the first is asked most.
ROUTED = (
    submit,
    jobs,
    listing,
    buried,
    events,
    form_files,  # before uploads, to whom it hands on what is no form
    uploads,
    loras,
    embeddings,
    ip_adapters,
    files,
    applications,
    models,
    keys,
    tenants,
    usage,
    secrets,
    audit,
    controlnets,
    webhooks,
    images,
    predictions,
    model_versions,
    fleet,
    history,
    health,
    metrics,
    manual,
)

#: How requests are signed, where keys are configured.
KEY = {"type": "http", "scheme": "bearer", "description": "A key of this service."}


#: Bodies that routes read themselves.
READ_BY_ROUTES = (
    *(JobCreate, ApplicationCreate, ModelCreate, KeyCreate, TenantChange),
    PredictionCreate,
)


class Api(FastAPI):
    """FastAPI, except that some routes read their own body, so that its schema is added here."""

    def openapi(self) -> dict[str, Any]:
        """Describe the routes."""
        if not self.openapi_schema:
            described = super().openapi()
            for kind in READ_BY_ROUTES:
                body = kind.model_json_schema(ref_template="#/components/schemas/{model}")
                described["components"]["schemas"] |= body.pop("$defs", {}) | {kind.__name__: body}
            declare(described)
            describe(described)
            name_operations(described)
            described["components"]["securitySchemes"] = {"key": KEY}
            described["security"] = [{"key": []}, {}]  # none where no keys are configured
        return self.openapi_schema or {}


def create_app(settings: Settings, open_: OpenServices = open_services) -> FastAPI:
    """Build the application; `open_` opens what its routes use, fakes in tests."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_(settings) as services:
            app.state.services = services
            yield

    app = Api(
        title="Atelier",
        version=VERSION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        routes=[
            *(route for module in ROUTED for route in module.router.routes),
            *front.router_of(settings).routes,
        ],
    )
    app.add_middleware(
        RequestScope,
        max_body_bytes=settings.max_body_bytes,
        larger={
            "/v1/loras": settings.max_lora_bytes,
            "/v1/embeddings": MAX_BYTES,
            "/v1/controlnets": settings.max_controlnet_bytes,
        },
    )
    errors.install(app)
    return app


def check_binding(settings: Settings) -> None:
    """Keep a service without keys to this machine.

    Keys of the store do not count: the store may be away, or empty, when the process starts, and
    who would make the first one there?

    Raises:
        ConfigurationError: it would listen beyond loopback and nobody needs a key.
    """
    has_keys = bool(settings.api_keys or settings.operator_keys)
    if not has_keys and not is_loopback(settings.api_host):
        raise ConfigurationError(
            f"ATELIER_API_HOST: {settings.api_host} is reachable from outside; "
            "set ATELIER_OPERATOR_KEYS or ATELIER_API_KEYS first"
        )


def is_loopback(host: str) -> bool:
    """Tell whether an address to listen on is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ApiServer(uvicorn.Server):
    """Stops long polls before it waits for the requests it has."""

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Open everything, and keep what is there by now out of every garbage collection.

        The description takes half a second: nobody is to wait while it is written.
        """
        cast(FastAPI, self.config.app).openapi()
        await super().startup(sockets)
        gc.collect()
        gc.freeze()

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Answer who waits, then everybody else, then stop."""
        cast(FastAPI, self.config.app).state.services.stop()
        await super().shutdown(sockets)


def main() -> None:
    """Serve until told to stop."""
    allow_files(MAX_CONNECTIONS + OTHER_FILES)
    sys.setswitchinterval(SWITCH_S)
    try:
        settings = get_settings()
        configure(settings.log_level, is_json=settings.log_json, process="api")
        check_binding(settings)
        check(settings)
        asyncio.run(check_store(settings))
        serve(settings)
    except ConfigurationError as error:
        end("api", error)


def serve(settings: Settings) -> None:
    """Answer until told to stop."""
    config = uvicorn.Config(
        create_app(settings),
        host=settings.api_host,
        port=settings.api_port,
        loop="uvloop",
        http=LimitedProtocol,
        ws="none",
        access_log=False,
        server_header=False,
        log_config=None,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
    )
    server = ApiServer(config)
    TRACES.start(settings.otlp_endpoint, "api")
    with announcing(settings, "api"):
        server.run()
    TRACES.stop()
    if not server.started:
        sys.exit("api: it did not start; the log says why")


if __name__ == "__main__":
    main()
