"""Rows of how an image is denoised beside its sampler: guidance, noise levels, noise anew. Pure.

What they change is in the latents of an image: none are borrowed or lent.
"""

from collections.abc import Mapping
from itertools import pairwise

from core.errors import FieldError
from core.family import EXPLICIT, SPACED, STOCHASTIC
from core.identity.trait import BY_PROMPT, Key, Trait, whole
from core.job import JobRequest
from core.model import Model


def _guidance_rescale(model: Model, request: JobRequest) -> FieldError | None:
    if not request.guidance_rescale or not model.family_facts.is_flow:
        return None
    return FieldError("guidance_rescale", f"is not heeded by {model.name}: leave it out")


def _spacing(model: Model, request: JobRequest) -> FieldError | None:
    if request.sigma_spacing is None:
        return None
    known = sorted(SPACED & {*model.samplers}) if not model.family_facts.is_flow else ["euler"]
    if request.sigmas:
        return FieldError("sigma_spacing", "is not for sigmas that are listed: leave out either")
    if request.scheduler in known:
        return None
    fault = f"is for a scheduler that is named, of {', '.join(known)} for {model.name}"
    return FieldError("sigma_spacing", fault)


def _sigmas(model: Model, request: JobRequest) -> FieldError | None:
    """Refuse noise levels that stock would not take, or make no image of."""
    if not request.sigmas:
        return None
    is_flow = model.family_facts.is_flow
    if request.scheduler not in EXPLICIT:
        return FieldError("sigmas", f"are for a scheduler that is named: {', '.join(EXPLICIT)}")
    if any(after >= before for before, after in pairwise(request.sigmas)):
        return FieldError("sigmas", "must fall from each to the next")
    if is_flow and not 0 < request.sigmas[-1] <= request.sigmas[0] <= 1:
        return FieldError("sigmas", f"must be above 0 and at most 1 for {model.name}")
    steps = model.steps_of(request.sigmas)
    if steps == request.steps:
        return None
    end = "none for its end, at 0" if is_flow else "the last one its end"
    told = f"are {len(request.sigmas)} for {request.steps} steps of {model.name}: one a step, {end}"
    return FieldError("sigmas", told)


def _eta(model: Model, request: JobRequest) -> FieldError | None:
    known = sorted(STOCHASTIC & {*model.samplers})
    if not request.eta or (request.scheduler in known and not model.family_facts.is_flow):
        return None
    if not known or model.family_facts.is_flow:
        return FieldError("eta", f"is not heeded by {model.name}: leave it out")
    return FieldError("eta", f"is for a scheduler that is named, of {', '.join(known)}")


#: Field of `JobRequest` -> what it decides.
STEPS: Mapping[str, Trait] = {
    "sigma_spacing": Trait(
        why="noise levels depend on it, of a template too",
        bars=BY_PROMPT,
        is_set=lambda request: request.sigma_spacing is not None,
        keys=whole("sigma_spacing", Key.RECORDING),
        refuses=_spacing,
    ),
    "sigmas": Trait(
        why="they are the noise levels, of a template too",
        bars=BY_PROMPT,
        is_set=lambda request: bool(request.sigmas),
        keys=whole("sigmas", Key.RECORDING),
        refuses=_sigmas,
    ),
    "eta": Trait(
        why="noise is drawn at each step; a template is noised as ever",
        bars=BY_PROMPT,
        is_set=lambda request: bool(request.eta),
        refuses=_eta,
    ),
    "guidance_rescale": Trait(
        why="how far a prompt is weighed; a template knows none",
        bars=BY_PROMPT,
        is_set=lambda request: bool(request.guidance_rescale),
        refuses=_guidance_rescale,
    ),
}
