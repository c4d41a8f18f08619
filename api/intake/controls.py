"""Check the ControlNets that a job names, and read the condition images that it keeps to."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from api.intake.decode_images import read_template
from api.intake.draft import Draft
from api.intake.images import ImageIntake
from api.intake.schemas import JobCreate
from core.errors import FieldError
from core.job import Control, Task
from core.model import Model
from core.uploads.controlnet import ControlNet, is_kept
from core.uploads.upload import UploadKind

KINDS = (UploadKind.FILE, UploadKind.TEMPLATE)


def faults_of_controls(
    create: JobCreate, known: Mapping[str, ControlNet], most: int
) -> Iterator[FieldError]:
    """Say what is wrong with the controls of a job, whoever makes it; `known` by name."""
    if len(create.controls) > most:
        yield FieldError("controls", f"must be at most {most}")
    if create.task is Task.EDIT:
        yield FieldError("controls", "are for task 'generate' alone")
    for at, control in enumerate(create.controls):
        if control.id not in known and not is_kept(control.id):
            names = ", ".join([*known, "the id of a kept one"])
            yield FieldError(f"controls.{at}.id", f"must be one of {names}")
        if control.start >= control.end:
            yield FieldError(f"controls.{at}.end", "must be more than `start`")


def faults_on_model(
    create: JobCreate, known: Mapping[str, ControlNet], model: Model
) -> Iterator[FieldError]:
    """Say which of the service's own ControlNets do not steer a model."""
    for at, control in enumerate(create.controls):
        controlnet = known.get(control.id)
        if controlnet is not None and model.name not in controlnet.models:
            made_for = ", ".join(controlnet.models)
            yield FieldError(f"controls.{at}.id", f"is for {made_for}, not for {model.name}")


async def add_conditions(images: ImageIntake, draft: Draft) -> Draft:
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
        )
        for at, use in enumerate(uses)
    )
    brought = tuple((c.image, picture) for c, picture in zip(controls, pictures, strict=True))
    return replace(draft.keep(draft.models, controls=controls), images=brought)
