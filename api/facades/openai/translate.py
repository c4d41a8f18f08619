"""Translate between OpenAI's images API and jobs. Pure."""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from api.facades.openai.schemas import ANY_MODEL, IN_FULL, TEXTS, ImageParams, check_words
from api.intake.schemas import JobCreate
from api.services.requests import check_marks, parse
from core.errors import FieldError, InvalidRequest, NotFound
from core.job import Quality


def to_job(
    params: ImageParams,
    *,
    models: Mapping[str, object],
    aliases: Mapping[str, str],
    **brought: str,
) -> JobCreate:
    """Say in our words what is asked for; `brought` are images, as `data:` URLs by our fields.

    Raises:
        NotFound: there is no such model.
        InvalidRequest: a field of ours that came beside cannot be what it is.
    """
    check_words(params)
    said = {
        "prompt": params.prompt,
        "model": _model(params.model, models, aliases),
        "n": params.n,
        "quality": Quality.EXACT if params.quality in IN_FULL else None,
        **_size(params.size),
        **_encoding(params),
        **brought,
    }
    told = {name: value for name, value in said.items() if value is not None}
    return parse(JobCreate, msgspec.json.encode(params.more | told))


def from_texts(fields: Mapping[str, str]) -> dict[str, Any]:
    """Read the values of a form: what is no text in our jobs is written as JSON.

    Raises:
        InvalidRequest: there are more values in them than in any that is right.
    """
    check_marks("".join(fields.values()).encode())
    return {name: _value(name, text) for name, text in fields.items()}


def data_url(image: bytes) -> str:
    """Write an image so that a request can bring it; its bytes say which format it has."""
    return f"data:;base64,{base64.b64encode(image).decode()}"


def _model(
    asked: str | None, models: Mapping[str, object], aliases: Mapping[str, str]
) -> str | None:
    name = aliases.get(asked, asked) if asked else None
    if name in (None, "", ANY_MODEL):
        return None
    if name not in models:
        raise NotFound(f"the model does not exist; GET /v1/models lists {', '.join(models)}")
    return name


def _size(size: str | None) -> dict[str, int]:
    if size in (None, "auto"):
        return {}
    width, _, height = str(size).partition("x")
    return {"width": int(width), "height": int(height)}


def _encoding(params: ImageParams) -> dict[str, Any]:
    chosen, quality = params.output_format or "png", params.output_compression
    if chosen != "png":
        return {"output_format": chosen, "output_quality": quality and max(1, quality)}
    if quality not in (None, 100):
        fault = "is of lossy formats: choose output_format jpeg, webp or avif"
        raise InvalidRequest([FieldError("output_compression", fault)])
    return {}


def _value(name: str, text: str) -> object:
    if name in TEXTS:
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):  # whoever reads the field refuses the text
        return text
