"""Why a model cannot make what a field of a request asks for. Pure."""

import math
from collections.abc import Sequence

from core.errors import FieldError
from core.job import JobRequest, Task
from core.model import Model


def refuse_size(name: str, model: Model, request: JobRequest) -> FieldError | None:
    """Refuse a width or a height, by its name, that a model does not make."""
    if model.makes(getattr(request, name)):
        return None
    made = f"a multiple of {model.size_multiple} from {model.min_size} to {model.max_size}"
    return FieldError(name, f"must be {made} for {model.name}")


def refuse_task(model: Model, request: JobRequest) -> FieldError | None:
    """Refuse an edit to a model that makes none, and anything but pictures to an upscaler."""
    if (request.task is Task.UPSCALE) != model.is_upscaler:
        does = "enlarges pictures, by task 'upscale'" if model.is_upscaler else "is no upscaler"
        return FieldError("model", f"{model.name} {does}: name another model, or none")
    is_edit = request.task is Task.EDIT or request.edit is not None
    if not is_edit or model.can_edit:
        return None
    return FieldError("model", f"{model.name} makes no edits")


def refuse_steps(model: Model, request: JobRequest) -> FieldError | None:
    """Refuse more steps than a model takes."""
    limit = model.max_steps_with(request.scheduler)
    if request.steps <= limit:
        return None
    reason = f"{model.name} with {request.scheduler}" if request.scheduler else model.name
    return FieldError("steps", f"must be from 1 to {limit} for {reason}")


def refuse_strength(_: Model, request: JobRequest) -> FieldError | None:
    """Refuse a strength that leaves no step to take, of an edit or of a picture."""
    steps = request.steps
    if int(steps * request.strength) >= 1:
        return None
    least = math.ceil(1000 / steps) / 1000
    return FieldError("strength", f"leaves none of {steps} steps; must be at least {least:g}")


def refuse_init_image(model: Model, request: JobRequest) -> FieldError | None:
    """Refuse a picture to start from to a model without an encoder of pictures."""
    if request.init_image is None or model.can_edit:
        return None
    return FieldError("image", f"{model.name} makes no images from images: leave it out")


def refuse_ip_adapter(model: Model, request: JobRequest) -> FieldError | None:
    """Refuse an IP-Adapter to a model of a family without, or that it was not made for."""
    if (use := request.ip_adapter) is None:
        return None
    return fault_of_ip_adapter(model, use.models)


def fault_of_ip_adapter(model: Model, made_for: Sequence[str]) -> FieldError | None:
    """Say why an IP-Adapter that was made for some models does nothing for this one."""
    if "ip_adapter" not in model.family_facts.words:
        return FieldError("ip_adapter", f"is for Stable Diffusion and SDXL alone, not {model.name}")
    if model.name not in made_for:
        return FieldError("ip_adapter.id", f"is for {', '.join(made_for)}, not for {model.name}")
    return None


def refuse_loras(model: Model, request: JobRequest) -> FieldError | None:
    """Refuse LoRAs that were made for other models."""
    for at, use in enumerate(request.loras):
        if model.name not in use.models:
            fault = f"fits {', '.join(use.models)}, and the request leaves {model.name}"
            return FieldError(f"loras.{at}.id", fault)
    return None


def refuse_scheduler(model: Model, request: JobRequest) -> FieldError | None:
    """Refuse a sampler that does not fit a model."""
    if request.scheduler is None or request.scheduler in model.samplers:
        return None
    return FieldError("scheduler", f"must be one of {', '.join(model.samplers)} for {model.name}")


def refuse_second_pass(model: Model, request: JobRequest) -> FieldError | None:
    """Refuse a second pass that a model cannot make, or that would not be stock's."""
    second, following = request.second_pass, request.following
    if second is None or following is None:
        return None
    for name in ("edit", "controls", "ip_adapter", "sigmas"):
        if getattr(request, name):
            return FieldError("second_pass", f"is not for jobs with {name}: leave out either")
    if not model.can_edit:
        return FieldError("second_pass", f"{model.name} makes no images from images: leave it out")
    for side in ("width", "height"):
        if (fault := refuse_size(side, model, following)) is not None:
            made = f"makes a {side} of {getattr(following, side)} pixels, which {fault.detail}"
            return FieldError("second_pass.scale", made)
    for refuse, field in ((refuse_steps, "steps"), (refuse_strength, "strength")):
        if (fault := refuse(model, following)) is not None:
            return FieldError(f"second_pass.{field}", fault.detail)
    return None


def refuse_output(model: Model, request: JobRequest) -> FieldError | None:
    """Refuse a format that cannot say how large the images are."""
    format_, made = request.output.format, request.following or request
    side = max(made.width, made.height) * model.scale
    if format_.max_side is None or side <= format_.max_side:
        return None
    fault = f"{format_} holds at most {format_.max_side} pixels a side: ask for png or avif"
    return FieldError("output_format", fault)
