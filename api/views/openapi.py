"""OpenAPI descriptions of bodies and errors that FastAPI cannot infer. Pure."""

from collections.abc import Callable, Coroutine
from typing import Any, cast

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from api.views.responses import Problem

Responses = dict[int | str, dict[str, Any]]

PROBLEMS: Responses = {
    code: {"model": Problem, "description": text}
    for code, text in {
        401: "No valid API key",
        409: "The Idempotency-Key was used for another request",
        413: "The body is too large",
        422: "Fields that cannot be accepted, each named",
        429: "The queue is full, a limit of the tenant is reached (`RateLimit` says what is left), "
        "or the job would miss its deadline; see Retry-After",
        503: "A dependency does not answer; see Retry-After",
    }.items()
}
NOT_FOUND: Responses = {404: {"model": Problem, "description": "No such job, or another tenant's"}}
DELETE_PROBLEMS: Responses = {
    **NOT_FOUND,
    409: {"model": Problem, "description": "The job is tried again while it is deleted"},
}
RETRY_PROBLEMS: Responses = {
    **NOT_FOUND,
    409: {"model": Problem, "description": "The job is not buried, or its deadline has passed"},
    410: {"model": Problem, "description": "What the job needs is not kept any more"},
}
KEPT_NOT_FOUND: Responses = {
    404: {"model": Problem, "description": "Nothing is kept under this id, or by another tenant"}
}
WEBHOOK_NOT_FOUND: Responses = {
    404: {"model": Problem, "description": "No such webhook was given up, or another tenant's"}
}
UPLOAD_PROBLEMS: Responses = {
    **{code: PROBLEMS[code] for code in (401, 413, 422, 503)},
    415: {"model": Problem, "description": "The body is not sent as an image"},
    429: {"model": Problem, "description": "As many are kept as may be: delete some"},
}
APPLICATION_NOT_FOUND: Responses = {
    404: {"model": Problem, "description": "No such application, or another tenant's"}
}
APPLICATION_PROBLEMS: Responses = {
    **{code: PROBLEMS[code] for code in (401, 413, 422, 503)},
    409: {"model": Problem, "description": "There is one of this name"},
    415: {"model": Problem, "description": "The body is not sent as JSON"},
    429: {"model": Problem, "description": "As many are registered as may be: delete some"},
}
MODEL_PROBLEMS: Responses = {
    **{code: PROBLEMS[code] for code in (401, 413, 422, 503)},
    403: {"model": Problem, "description": "The key has not the scope `operate`"},
    415: {"model": Problem, "description": "The body is not sent as JSON"},
}
OPERATED: Responses = {code: MODEL_PROBLEMS[code] for code in (401, 403, 503)}
KEYS_PROBLEMS: Responses = {
    **MODEL_PROBLEMS,
    409: {
        "model": Problem,
        "description": "The service asks for no keys, or others change them now",
    },
}
KEY_PROBLEMS: Responses = {
    **{code: KEYS_PROBLEMS[code] for code in (401, 403, 422, 503)},
    404: {"model": Problem, "description": "There is no key of this id"},
    409: {"model": Problem, "description": "The key works no more, or others change keys now"},
}
MODEL_NOT_FOUND: Responses = {
    **{code: MODEL_PROBLEMS[code] for code in (401, 403, 422)},
    404: {"model": Problem, "description": "There is no model of this name"},
}
MODEL: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ModelCreate"}}},
    }
}
KEY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KeyCreate"}}},
    }
}
TENANT: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/TenantChange"}}},
    }
}
SECRET_PROBLEMS: Responses = {
    **{code: MODEL_PROBLEMS[code] for code in (401, 403, 422, 503)},
    404: {"model": Problem, "description": "This api does not know what signs webhooks"},
    409: {"model": Problem, "description": "Others change tenants at the same time"},
}
REVOKE_PROBLEMS: Responses = {
    **{code: MODEL_PROBLEMS[code] for code in (401, 403, 422, 503)},
    409: {"model": Problem, "description": "S3 serves the images, whose URLs stay as they are"},
}
APPLICATION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/ApplicationCreate"}}
        },
    }
}
UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The image itself: `curl --data-binary @photo.png -H 'content-type: "
        "image/png'`. Its bytes say which format it has.",
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}}
            for kind in ("image/png", "image/jpeg", "image/webp", "application/octet-stream")
        },
    }
}
WEIGHTS_PROBLEMS: Responses = {
    **UPLOAD_PROBLEMS,
    415: {"model": Problem, "description": "The body is not sent as application/octet-stream"},
}
LORA: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The safetensors file itself, of peft, diffusers, sd-scripts, LyCORIS or "
        "XLabs: LoRA, DoRA, LoHa, LoKr or differences of weights (docs/parity.md): `curl "
        "--data-binary @style.safetensors -H 'content-type: application/octet-stream'`.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
EMBEDDING: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A learned embedding (textual inversion) as safetensors, of diffusers, "
        "A1111 or, for SDXL, with `clip_l` and `clip_g`: `curl --data-binary @cat.safetensors -H "
        "'content-type: application/octet-stream'`. At most 64 vectors, 1 MiB.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
CONTROLNET: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The weights of a `ControlNetModel`, as safetensors: `curl --data-binary "
        "@diffusion_pytorch_model.safetensors -H 'content-type: application/octet-stream'`. Its "
        "config follows from the model that it was made for.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
SUBMIT: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/JobCreate"}}},
    },
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": "The same key and body answer with the same job for a day; "
            "nothing is fetched or stored again.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        }
    ],
}


PREDICTION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/PredictionCreate"}}
        },
    }
}


def event_stream(description: str, *names: str) -> Responses:
    """Describe a stream by its events; clients that were generated read it as one text."""
    event = {
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "event": {"type": "string", "enum": list(names), "description": "What it tells."},
            "data": {"type": "string", "description": "What happened, in JSON or as text."},
            "id": {"type": "string", "description": "Send as `Last-Event-ID` to go on after it."},
            "retry": {"type": "integer", "description": "Milliseconds until a next connection."},
        },
    }
    either = {"anyOf": [event, {"type": "string", "description": "The whole stream."}]}
    return {200: {"description": description, "content": {"text/event-stream": {"schema": either}}}}


class DirectRoute(APIRoute):
    """A described route whose endpoint takes the request alone: nothing is injected."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Hand the request over; looking for parameters would take a tenth of a submit's time."""
        return cast(Callable[[Request], Coroutine[Any, Any, Response]], self.endpoint)
