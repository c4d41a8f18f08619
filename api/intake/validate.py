"""Find the served models that can run a request, or say why none can. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from api.intake.prompts import TokenCounter, fault_of
from api.intake.schemas import MAX_SEED, JobCreate
from core.application import Application
from core.errors import FieldError, InvalidRequest, NoPlan
from core.family import SAMPLERS
from core.job import OPEN, Control, Edit, JobRequest, Task, WebhookTarget
from core.uploads.controlnet import ControlNet, is_kept
from core.uploads.lora import AppliedLora
from core.variant import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a request must keep to: the models served and the limits of this service."""

    models: Mapping[str, Model]  #: by name
    tokens: TokenCounter  #: counts what a model's text encoders read
    max_images: int  #: n of one job
    max_prompt_chars: int
    controlnets: Mapping[str, ControlNet]  #: those of the service, by name
    max_controls: int  #: of one job

    def candidates(
        self, create: JobCreate, application: Application | None = None
    ) -> tuple[Model, ...]:
        """Return the models that can make `create`, of which the placement picks one.

        Those of its application alone, where it names one.

        Raises:
            InvalidRequest: there is none; each wrong field is named with what it must be.
            NoPlan: this service serves no model at all.
        """
        if not self.models:
            raise NoPlan("no model is served")
        allowed = self._allowed(application)
        general = [*_task(create), *self._general(create, allowed)]
        general += self._controls(create)
        asked = [allowed[name] for name in allowed if create.model in (None, name)]
        faults = {model.name: list(self._model_faults(create, model)) for model in asked}
        able = tuple(model for model in asked if not faults[model.name])
        if general or not able:
            nearest: list[FieldError] = min(faults.values(), key=len, default=[])
            raise InvalidRequest([*general, *nearest])
        return able

    def of_template(
        self, create: JobCreate, able: Sequence[Model], width: int, height: int
    ) -> tuple[Model, ...]:
        """Return those of `able` that make edits of a template of this size.

        Raises:
            InvalidRequest: there is none, or `create` asks for another size.
        """
        faults = [
            FieldError(field, f"must be {own}, as the template's is, or left out")
            for field, asked, own in (
                ("width", create.width, width),
                ("height", create.height, height),
            )
            if asked not in (None, own)
        ]
        fitting = tuple(model for model in able if _fits(model, width, height))
        if not fitting:
            faults.append(FieldError("template", _misfit(able, width, height)))
        if faults:
            raise InvalidRequest(faults)
        return fitting

    def check_template(self, width: int, height: int) -> None:
        """Refuse a template that no model served can edit.

        Raises:
            InvalidRequest: it has a size that none of them makes.
        """
        editors = [model for model in self.models.values() if model.can_edit]
        if editors and not self.editors(width, height):
            raise InvalidRequest([FieldError("body", _misfit(editors, width, height))])

    def editors(self, width: int, height: int) -> list[Model]:
        """List the models that edit templates of a size."""
        models = self.models.values()
        return [model for model in models if model.can_edit and _fits(model, width, height)]

    def _allowed(self, application: Application | None) -> Mapping[str, Model]:
        """Keep the models that may serve an application.

        Raises:
            InvalidRequest: none of them is served any more.
        """
        if application is None:
            return self.models
        kept = {name: self.models[name] for name in application.models if name in self.models}
        if not kept:
            names = ", ".join(application.models)
            fault = f"none of its models is served any more: {names}; register it anew"
            raise InvalidRequest([FieldError("application", fault)])
        return kept

    def _general(self, create: JobCreate, allowed: Mapping[str, Model]) -> Iterator[FieldError]:
        yield from self._texts(create)
        if create.model is not None and create.model not in allowed:
            yield FieldError("model", f"must be one of {', '.join(allowed)}")
        if create.scheduler is not None and create.scheduler not in SAMPLERS:
            yield FieldError("scheduler", f"must be one of {', '.join(SAMPLERS)}")
        if create.n > self.max_images:
            yield FieldError("n", f"must be at most {self.max_images}")
        elif create.seed is not None and create.seed + create.n - 1 > MAX_SEED:
            yield FieldError("seed", f"seed + n - 1 must be at most {MAX_SEED}")

    def _controls(self, create: JobCreate) -> Iterator[FieldError]:
        if len(create.controls) > self.max_controls:
            yield FieldError("controls", f"must be at most {self.max_controls}")
        if create.controls and create.task is Task.EDIT:
            yield FieldError("controls", "are for task 'generate' alone")
        for at, control in enumerate(create.controls):
            if control.id not in self.controlnets and not is_kept(control.id):
                names = ", ".join([*self.controlnets, "the id of a kept one"])
                yield FieldError(f"controls.{at}.id", f"must be one of {names}")
            if control.start >= control.end:
                yield FieldError(f"controls.{at}.end", "must be more than `start`")

    def _texts(self, create: JobCreate) -> Iterator[FieldError]:
        if not create.prompt.strip():
            yield FieldError("prompt", "must not be empty")
        for field, text in (("prompt", create.prompt), ("negative_prompt", create.negative_prompt)):
            if text and (fault := fault_of(text, self.max_prompt_chars)):
                yield FieldError(field, fault)

    def _model_faults(self, create: JobCreate, model: Model) -> Iterator[FieldError]:
        if create.task is Task.EDIT and not model.can_edit:
            yield FieldError("model", f"{model.name} makes no edits")
        for field, size in (("width", create.width), ("height", create.height)):
            if size is not None and not model.makes(size):
                yield FieldError(
                    field,
                    f"must be a multiple of {model.size_multiple} from {model.min_size} "
                    f"to {model.max_size} for {model.name}",
                )
        if create.scheduler in SAMPLERS and create.scheduler not in model.samplers:
            names = ", ".join(model.samplers)
            yield FieldError("scheduler", f"must be one of {names} for {model.name}")
        if create.negative_prompt and not model.reads_negative_prompts:
            yield FieldError("negative_prompt", f"is not read by {model.name}: leave it out")
        for at, control in enumerate(create.controls):
            controlnet = self.controlnets.get(control.id)
            if controlnet is not None and model.name not in controlnet.models:
                fitting = ", ".join(controlnet.models)
                yield FieldError(f"controls.{at}.id", f"is for {fitting}, not for {model.name}")
        yield from _steps(create, model)
        yield from _strength(create, model)
        yield from self._tokens(create, model)

    def _tokens(self, create: JobCreate, model: Model) -> Iterator[FieldError]:
        limit = model.max_prompt_tokens
        for field, text in (("prompt", create.prompt), ("negative_prompt", create.negative_prompt)):
            if not text or _is_short(text, limit) or len(text) > self.max_prompt_chars:
                continue
            if (tokens := self.tokens.count(model.name, text)) > limit:
                yield FieldError(field, f"has {tokens} tokens; {model.name} reads at most {limit}")


def fill(
    create: JobCreate,
    model: Model,
    *,
    seed: int,
    edit: Edit | None = None,
    controls: tuple[Control, ...] = (),
    slo_s: float | None = None,
    loras: tuple[AppliedLora, ...] = (),
) -> JobRequest:
    """Fill in what the client left to the service, from the model that makes it."""
    own = model.defaults(create.scheduler)
    return JobRequest(
        task=create.task,
        prompt=create.prompt,
        model=model.name,
        width=own["width"] if create.width is None else create.width,
        height=own["height"] if create.height is None else create.height,
        steps=own["steps"] if create.steps is None else create.steps,
        guidance=own["guidance"] if create.guidance is None else create.guidance,
        seed=seed if create.seed is None else create.seed,
        negative_prompt=create.negative_prompt,
        n=create.n,
        edit=edit,
        controls=controls,
        loras=loras,
        scheduler=create.scheduler,
        application=create.application,
        slo_s=slo_s,
        quality=create.quality,
        priority=create.priority,
        webhook=_webhook(create),
        metadata=create.metadata,
        filled=tuple(name for name in OPEN if getattr(create, name) is None),
    )


def _webhook(create: JobCreate) -> WebhookTarget | None:
    if create.webhook is None:
        return None
    return WebhookTarget(url=create.webhook.url, events=tuple(create.webhook.events))


def _fits(model: Model, width: int, height: int) -> bool:
    return model.makes(width) and model.makes(height)


def _misfit(models: Sequence[Model], width: int, height: int) -> str:
    made = dict.fromkeys((m.size_multiple, m.min_size, m.max_size) for m in models)
    sizes = " or ".join(f"a multiple of {step} from {low} to {high}" for step, low, high in made)
    return f"is {width} x {height} pixels; each side must be {sizes}: scale or crop it"


def _task(create: JobCreate) -> Iterator[FieldError]:
    """Name what an edit lacks, or what only an edit may have."""
    is_edit = create.task is Task.EDIT
    for field, given in (("template", create.template), ("mask", create.mask)):
        if is_edit and given is None:
            yield FieldError(field, "is needed by task 'edit'")
        if not is_edit and given is not None:
            yield FieldError(field, "is for task 'edit' alone")
    if not is_edit and create.strength != 1.0:
        yield FieldError("strength", "is for task 'edit' alone")


def _strength(create: JobCreate, model: Model) -> Iterator[FieldError]:
    own = model.defaults(create.scheduler)
    steps = own["steps"] if create.steps is None else create.steps
    if int(steps * create.strength) < 1:
        least = math.ceil(1000 / steps) / 1000
        yield FieldError("strength", f"leaves none of {steps} steps; must be at least {least:g}")


def _steps(create: JobCreate, model: Model) -> Iterator[FieldError]:
    limit = model.max_steps_with(create.scheduler)
    if create.steps is not None and create.steps > limit:
        reason = f"{model.name} with {create.scheduler}" if create.scheduler else model.name
        yield FieldError("steps", f"must be from 1 to {limit} for {reason}")


def _is_short(text: str, limit: int) -> bool:
    """Tell without tokenizing: byte-pair encoding never makes more tokens than bytes."""
    return len(text) <= limit and text.isascii()
