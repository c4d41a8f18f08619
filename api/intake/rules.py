"""Check what few jobs have: fields of edits and upscales, ControlNets, IP-Adapters. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from api.intake.schemas import ControlUse, JobCreate
from core.errors import FieldError
from core.identity.refusals import fault_of_ip_adapter
from core.job import Task
from core.model import Model
from core.uploads.controlnet import ControlNet, KeptControlNet, is_kept
from core.uploads.ip_adapter import IpAdapter

#: Fields that say something of a picture that is enlarged.
OF_UPSCALES = frozenset(("task", "image", "model", "application", "output_format"))
OF_UPSCALES |= {"output_quality", "quality", "deadline_s", "priority", "webhook", "metadata"}
#: Families whose Unions are told of all their pictures at once.
_FUSING = ("sd", "sdxl")


def faults_of_task(create: JobCreate) -> Iterator[FieldError]:
    """Name what an edit lacks, or what only an edit may have."""
    is_edit = create.task is Task.EDIT
    for field, given in (("template", create.template), ("mask", create.mask)):
        if is_edit and given is None:
            yield FieldError(field, "is needed by task 'edit'")
        if not is_edit and given is not None:
            yield FieldError(field, "is for task 'edit' alone")
    if create.task is Task.UPSCALE:
        yield from _faults_of_upscale(create)
    elif is_edit and create.image is not None:
        yield FieldError("image", "is for task 'generate' alone: an edit starts from its template")
    elif not is_edit and create.image is None and create.strength is not None:
        yield FieldError("strength", "is for task 'edit', or with an image to start from")


def fault_without_model(create: JobCreate) -> FieldError:
    """Say that no model is there for a task."""
    is_upscale = create.task is Task.UPSCALE
    needed = "an upscaler" if is_upscale else "a model that makes images"
    fault = "and none is served, or allowed here: add one by `atelier models add`, or name one"
    return FieldError("task", f"{create.task.value!r} needs {needed}, {fault}")


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


def faults_of_id(create: JobCreate, known: Mapping[str, IpAdapter]) -> Iterator[FieldError]:
    """Say what is wrong with the IP-Adapter of a job, whoever makes it; `known` by name."""
    use = create.ip_adapter
    if use is not None and use.id not in known:
        names = ", ".join(known) or "none: this service has no IP-Adapters"
        yield FieldError("ip_adapter.id", f"must be one of {names}")


def shown_on_model(
    create: JobCreate, known: Mapping[str, IpAdapter], model: Model
) -> Iterator[FieldError]:
    """Say why the IP-Adapter of a job does nothing for a model."""
    use = create.ip_adapter
    if use is None or use.id not in known:
        return
    if fault := fault_of_ip_adapter(model, known[use.id].models):
        yield fault


def _faults_of_upscale(create: JobCreate) -> Iterator[FieldError]:
    """Name what an enlarged picture lacks, or what says nothing of it."""
    if create.image is None:
        yield FieldError("image", "is needed by task 'upscale'")
    for name, field in JobCreate.model_fields.items():
        if name not in OF_UPSCALES and getattr(create, name) != field.get_default():
            yield FieldError(name, "is not for task 'upscale': leave it out")
