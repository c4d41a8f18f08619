"""Check the ControlNets that a job names, and read the condition images that it keeps to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from api.intake.decode_images import read_template
from api.intake.draft import Draft
from api.intake.images import ImageIntake
from api.intake.schemas import ControlUse, JobCreate
from core.errors import FieldError
from core.job import Control
from core.model import Model
from core.uploads.controlnet import ControlNet, KeptControlNet, is_kept
from core.uploads.upload import UploadKind

#: Families whose Unions are told of all their pictures at once.
_FUSING = ("sd", "sdxl")
KINDS = (UploadKind.FILE, UploadKind.TEMPLATE)


def faults_of_controls(
    create: JobCreate, known: Mapping[str, ControlNet], most: int
) -> Iterator[FieldError]:
    """Say what is wrong with the controls of a job, whoever makes it; `known` by name."""
    if len(create.controls) > most:
        yield FieldError("controls", f"must be at most {most}")
    for at, control in enumerate(create.controls):
        if control.id not in known and not is_kept(control.id):
            names = ", ".join([*known, "the id of a kept one"])
            yield FieldError(f"controls.{at}.id", f"must be one of {names}")
        if control.start >= control.end:
            yield FieldError(f"controls.{at}.end", "must be more than `start`")
        if control.id in known:
            yield from faults_of_use(at, control, known[control.id])


def faults_of_use(
    at: int, control: ControlUse, of: ControlNet | KeptControlNet
) -> Iterator[FieldError]:
    """Say what a ControlNet, or T2I-Adapter, of this kind cannot be asked."""
    if fault := _fault_of_mode(control, of.modes):
        yield FieldError(f"controls.{at}.mode", fault)
    if of.is_adapter and control.start:
        fault = "must be 0: a T2I-Adapter acts from the first step on"
        yield FieldError(f"controls.{at}.start", fault)


def _fault_of_mode(control: ControlUse, modes: int) -> str | None:
    """Say why a ControlNet that tells so many kinds of pictures apart cannot take a mode."""
    if not modes:
        return None if control.mode is None else "is for Union ControlNets alone: leave it out"
    if control.mode is not None and control.mode < modes:
        return None
    return f"must say what the picture shows: a number from 0 to {modes - 1}"


def _is_one_of_several(control: ControlUse, controls: Sequence[ControlUse]) -> bool:
    is_alike = [other.id == control.id and other.mode is not None for other in controls]
    return control.mode is not None and sum(is_alike) > 1


def faults_on_model(
    create: JobCreate, known: Mapping[str, ControlNet], model: Model
) -> Iterator[FieldError]:
    """Say which of the service's own ControlNets do not steer a model, and what it cannot do."""
    for at, control in enumerate(create.controls):
        is_fused = model.family in _FUSING and _is_one_of_several(control, create.controls)
        if is_fused and (control.start, control.end) != (0, 1):
            fault = "several pictures of one Union ControlNet act at all steps: leave it out"
            yield FieldError(f"controls.{at}.{'start' if control.start else 'end'}", fault)
        controlnet = known.get(control.id)
        if controlnet is not None and model.name not in controlnet.models:
            made_for = ", ".join(controlnet.models)
            yield FieldError(f"controls.{at}.id", f"is for {made_for}, not for {model.name}")


async def add_conditions(
    images: ImageIntake, draft: Draft, known: Mapping[str, ControlNet]
) -> Draft:
    """Read the picture of each control; raises like `ImageIntake.read`."""
    uses = draft.create.controls
    named = [
        (f"controls.{at}.image", use.image, KINDS, read_template) for at, use in enumerate(uses)
    ]
    pictures = await images.read(draft.tenant, named)
    controls = tuple(
        Control(
            controlnet=use.id,
            image=draft.key_of(f"condition-{at}"),
            scale=use.scale,
            start=use.start,
            end=use.end,
            mode=use.mode,
            is_adapter=known[use.id].is_adapter if use.id in known else use.id in draft.adapters,
        )
        for at, use in enumerate(uses)
    )
    brought = tuple((c.image, picture) for c, picture in zip(controls, pictures, strict=True))
    draft = draft.keep(draft.models, controls=controls)
    return replace(draft, images=(*draft.images, *brought))
