"""Check a request against the models served and the limits of the service. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import uuid4

from api.intake.controls import faults_of_controls, faults_on_model
from api.intake.draft import Draft, fill
from api.intake.schemas import MAX_SEED, PROMPTS, JobCreate
from api.intake.tokenizers import TokenCounter
from core.application import Application
from core.errors import FieldError, InvalidRequest, NoPlan
from core.family import SAMPLERS
from core.job import JobRequest, Task
from core.model import Model
from core.traits import faults
from core.uploads.controlnet import ControlNet

#: C0 without tab, line feed and carriage return; DEL; C1.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a request must keep to: the models served and the limits of this service."""

    models: Mapping[str, Model]  #: by name
    tokens: TokenCounter  #: counts what a model's text encoders read
    max_images: int  #: n of one job
    max_prompt_chars: int
    controlnets: Mapping[str, ControlNet]  #: those of the service, by name
    max_controls: int  #: of one job

    def draft(
        self,
        tenant: str,
        create: JobCreate,
        application: Application | None = None,
        slo_s: float | None = None,
    ) -> Draft:
        """Draft a job for the models that can make it: those of its application, if it names one.

        `slo_s`: by when it is promised, from acceptance.

        Raises:
            InvalidRequest: there is none; each wrong field is named with what it must be.
            NoPlan: this service serves no model at all.
        """
        if not self.models:
            raise NoPlan("no model is served")
        allowed = self._allowed(application)
        wrong = [*_task(create), *self._general(create, allowed)]
        asked = [allowed[name] for name in allowed if create.model in (None, name)]
        if not asked:
            raise InvalidRequest(wrong)
        offers = list(zip(asked, fill(create, asked, slo_s=slo_s), strict=True))
        own = [self._faults(create, *offer) for offer in offers]
        if wrong or all(own):
            told = {fault.field for fault in wrong}
            nearest = [fault for fault in min(own, key=len) if fault.field not in told]
            raise InvalidRequest([*wrong, *nearest])
        able = tuple(offer for offer, found in zip(offers, own, strict=True) if not found)
        return Draft(id=uuid4().hex, tenant=tenant, create=create, offers=able)

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
        if create.controls:
            yield from faults_of_controls(create, self.controlnets, self.max_controls)

    def _texts(self, create: JobCreate) -> Iterator[FieldError]:
        if not create.prompt.strip():
            yield FieldError("prompt", "must not be empty")
        for field in PROMPTS:
            text = getattr(create, field)
            if text and (fault := fault_of(text, self.max_prompt_chars)):
                yield FieldError(field, fault)

    def _faults(self, create: JobCreate, model: Model, request: JobRequest) -> list[FieldError]:
        """Say why a model cannot make a request: what only the door can tell beside its limits."""
        wrong = [*faults(model, request), *self._tokens(model, request)]
        if create.controls:
            wrong += faults_on_model(create, self.controlnets, model)
        return wrong

    def _tokens(self, model: Model, request: JobRequest) -> Iterator[FieldError]:
        limit = model.max_prompt_tokens
        for field in PROMPTS:
            text = getattr(request, field)
            if not text or is_short(text, limit) or len(text) > self.max_prompt_chars:
                continue
            if (tokens := self.tokens.count(model.name, text)) > limit:
                yield FieldError(field, f"has {tokens} tokens; {model.name} reads at most {limit}")


def fault_of(text: str, max_chars: int) -> str | None:
    """Say what makes `text` unfit for every model, if anything does."""
    if len(text) > max_chars:
        return f"has {len(text)} characters; at most {max_chars} are read"
    if found := CONTROL.search(text):
        return f"has a control character (U+{ord(found[0]):04X}) at position {found.start()}"
    return None


def is_short(text: str, limit: int) -> bool:
    """Tell without tokenizing: byte-pair encoding never makes more tokens than bytes."""
    return len(text) <= limit and text.isascii()


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
