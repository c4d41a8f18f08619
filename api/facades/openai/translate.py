"""Translate between OpenAI's images API and jobs. Pure."""

import base64
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from api.facades.openai.schemas import (
    ANY_MODEL,
    IN_FULL,
    TEXTS,
    TEXTS_BY_KEY,
    ImageParams,
    check_words,
)
from api.intake.schemas import JobCreate
from api.services.requests import check_marks, parse
from core.errors import FieldError, InvalidRequest, NotFound
from core.job import Quality

#: How their client names one value of an object in a form.
PART: Final = re.compile(r"([^\[\]]+)\[([^\[\]]+)\]")


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

    Objects come as that, or in parts: `name[key]` for each of their values.

    Raises:
        InvalidRequest: there are more values in them than in any that is right; parts are of a
            list, or of an object that comes whole as well.
    """
    check_marks("".join(fields.values()).encode())
    whole = {name: _value(name, text) for name, text in fields.items() if "[" not in name}
    parts = _gathered({name: text for name, text in fields.items() if "[" in name})
    if twice := sorted(whole.keys() & parts.keys()):
        fault = "came whole and in parts: send one of them"
        raise InvalidRequest([FieldError(name, fault) for name in twice])
    return whole | parts


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
        own = params.more.get("output_quality", 100)
        return {
            "output_format": chosen,
            "output_quality": own if quality is None else max(1, quality),
        }
    if quality not in (None, 100):
        fault = "is of lossy formats: choose output_format jpeg, webp or avif"
        raise InvalidRequest([FieldError("output_compression", fault)])
    return {}


def _gathered(fields: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Gather what comes in parts, one level deep: where an item of a list ends is not told."""
    objects: dict[str, dict[str, Any]] = {}
    for name, text in fields.items():
        if (part := PART.fullmatch(name)) is None:
            fault = "cannot be read in parts: send a list, or what has objects in it, as JSON text"
            raise InvalidRequest([FieldError(name.partition("[")[0], fault)])
        objects.setdefault(part[1], {})[part[2]] = _value(name, text)
    return objects


def _value(name: str, text: str) -> object:
    outer, bracket, _ = name.partition("[")
    if name in TEXTS or (bracket and outer in TEXTS_BY_KEY):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):  # whoever reads the field refuses the text
        return text
