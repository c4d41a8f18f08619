"""Translate what Replicate's clients ask for into a job. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from api.facades.replicate.schemas import PredictionCreate
from api.intake.schemas import JobCreate
from api.services.requests import parse
from core.cells.ids import PATTERN
from core.errors import FieldError, InvalidRequest, NotFound
from tasks.jobs.prediction import NAMES, OWNER, version_of

#: What they call it -> the field of a job.
FIELDS: Final[Mapping[str, str]] = {theirs: ours for ours, theirs in NAMES.items()} | {
    "prompt_strength": "strength",
}
#: Their events -> ours.
EVENTS: Final[Mapping[str, str]] = {
    "start": "started",
    "output": "progress",
    "logs": "progress",
    "completed": "completed",
}
#: Said beside `input`, not in it.
OUTSIDE: Final = frozenset({"model", "webhook", "task", "template"})
#: What names images, which their clients upload first.
BRINGING: Final = ("image", "mask", "controls", "ip_adapter")
#: How deep images lie in these: controls are a list of objects.
DEPTH: Final = 2


def to_job(body: PredictionCreate, model: str, public_url: str) -> JobCreate:
    """Say in our words what is asked for.

    Raises:
        InvalidRequest: a part of the input cannot be what it is, or is not known.
    """
    if wrong := sorted(OUTSIDE & body.input.keys()):
        raise InvalidRequest([FieldError(f"input.{name}", "is not of the input") for name in wrong])
    said: dict[str, Any] = {FIELDS.get(name, name): x for name, x in body.input.items()}
    said |= {name: _named(said[name], public_url) for name in BRINGING if name in said}
    said |= _encoding(said)
    if "mask" in said:
        said |= {"task": "edit", "template": said.pop("image", None)}
    return parse(JobCreate, msgspec.json.encode(said | {"model": model} | _webhook(body)))


def model_of(reference: str, models: Mapping[str, object]) -> str:
    """Find which model `owner/name`, `owner/name:version`, a version or a name means.

    Raises:
        NotFound: none that is served.
    """
    named, _, version = reference.rpartition(":")
    name = (named or version).removeprefix(f"{OWNER}/")
    for model in models:
        if name in (model, version_of(model)) and version in (reference, version_of(model)):
            return model
    raise NotFound(f"there is no such model or version; models are {OWNER}/<name of /v1/models>")


def _named(said: object, public_url: str, depth: int = DEPTH) -> object:
    """Name what was uploaded by its id, in lists and objects too: their clients send its URL."""
    if isinstance(said, str):
        own = re.fullmatch(re.escape(public_url) + rf"/v1/files/({PATTERN})", said)
        return own[1] if own else said
    if isinstance(said, list) and depth:
        return [_named(each, public_url, depth - 1) for each in said]
    if isinstance(said, dict) and depth:
        return {name: _named(each, public_url, depth - 1) for name, each in said.items()}
    return said


def _encoding(said: Mapping[str, Any]) -> dict[str, Any]:
    """Say how images are written: models there take a quality of 0, and one of png unused."""
    chosen, quality = said.get("output_format", "png"), said.get("output_quality")
    if chosen == "png":
        return {"output_quality": None}
    return {
        "output_format": "jpeg" if chosen == "jpg" else chosen,
        "output_quality": 1 if quality == 0 else quality,
    }


def _webhook(body: PredictionCreate) -> dict[str, Any]:
    url = body.webhook or body.webhook_completed
    if url is None:
        return {}
    every = tuple(EVENTS) if body.webhook else ("completed",)
    asked: Sequence[str] = body.webhook_events_filter or every
    events = list(dict.fromkeys(EVENTS[event] for event in asked))
    return {"webhook": {"url": url, "events": events, "format": "prediction"}}
