"""Draft a job from what a client asks for, for the models that can make it.

Fields are taken by name and checked against the models served and the limits of the service; what
the client left open is as the model that makes it does it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from secrets import randbits

from api.intake.decode_images import Picture
from api.intake.rules import (
    fault_without_model,
    faults_of_controls,
    faults_of_id,
    faults_of_task,
    faults_on_model,
    shown_on_model,
)
from api.intake.schemas import MAX_SEED, PROMPTS, JobCreate
from api.intake.tokenizers import TokenCounter
from api.intake.words.prompts import PromptReader, is_short
from core.application import DEFAULT, Application
from core.cells.ids import new_id
from core.errors import FieldError, InvalidRequest, NoPlan
from core.family import SAMPLERS
from core.job import OPEN, Edit, JobRequest, Task, WebhookTarget
from core.model import Model
from core.request.init_image import DEFAULT_STRENGTH, InitImage
from core.request.output import Output
from core.request.prompt_syntax import PromptSyntax
from core.request.second_pass import SecondPass
from core.request.upscale import Upscale
from core.traits import faults
from core.uploads.controlnet import ControlNet
from core.uploads.ip_adapter import IpAdapter

#: Fields of a request that are no copies of what is sent: `fill` or a later stage makes them.
MADE = frozenset(("seed", "sigmas", "edit", "init_image", "second_pass", "controls", "loras"))
MADE |= {"upscale", "ip_adapter", "embeddings", "output", "webhook", "slo_s", "filled"}
_COPIED = tuple(field.name for field in fields(JobRequest) if field.name not in MADE)

#: Random seeds stay exact in every client's JSON numbers.
SEED_BITS = 32

#: C0 without tab, line feed and carriage return; DEL; C1.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A job on its way in: each stage gives one that says more."""

    id: str
    tenant: str
    create: JobCreate  #: as the client sent it
    #: Models that can make it, of which the placement picks one; at least one, each with what it
    #: would make: what the client left open is as that model does it.
    offers: tuple[tuple[Model, JobRequest], ...]
    images: tuple[tuple[str, Picture], ...] = ()  #: what it brings, each with its key in the store
    adapters: frozenset[str] = frozenset()  #: kept ControlNets that it names and are T2I-Adapters

    @property
    def request(self) -> JobRequest:
        """What is asked for, beside what each model fills in."""
        return self.offers[0][1]

    @property
    def models(self) -> tuple[Model, ...]:
        """Models that can make it."""
        return tuple(model for model, _ in self.offers)

    def key_of(self, image: str) -> str:
        """Name where an image that it brings will be."""
        return f"{self.tenant}/{self.id}/inputs/{image}.png"

    def of_known_quality(self) -> "Draft":
        """Keep the models whose quality is known where the client leaves the choice to us.

        Whoever adds a model may use it at once, by its name, and nobody else gets its images
        unasked; but what no other model can make it makes.
        """
        create = self.create
        if create.model is not None or create.application not in (None, DEFAULT):
            return self
        known = tuple(offer for offer in self.offers if offer[0].is_known)
        return replace(self, offers=known or self.offers)

    def keep(self, models: Sequence[Model], **changes: object) -> "Draft":
        """Say more of the request, and keep those of `models` that can make it.

        Raises:
            InvalidRequest: none can; the faults are those of the nearest.
        """
        changed = [
            (model, replace(request, **changes))  # type: ignore[arg-type]
            for model, request in self.offers
            if model in models
        ]
        wrong = [faults(model, request) for model, request in changed]
        if all(wrong):
            raise InvalidRequest(min(wrong, key=len))
        offers = tuple(offer for offer, own in zip(changed, wrong, strict=True) if not own)
        return replace(self, offers=offers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a request must keep to: the models served and the limits of this service."""

    models: Mapping[str, Model]  #: by name
    tokens: TokenCounter  #: counts what a model's text encoders read
    max_images: int  #: n of one job
    max_prompt_chars: int
    controlnets: Mapping[str, ControlNet]  #: those of the service, by name
    max_controls: int  #: of one job
    ip_adapters: Mapping[str, IpAdapter]  #: those of the service, by name
    cell: str = ""  #: that ids name

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
        wrong = [*_of_task(create), *self._general(create, allowed)]
        asked = self._asked(create, allowed)
        if not asked:
            raise InvalidRequest(wrong or [fault_without_model(create)])
        offers = list(zip(asked, fill(create, asked, slo_s=slo_s), strict=True))
        own = [self._faults(create, *offer) for offer in offers]
        if wrong or all(own):
            told = {fault.field for fault in wrong}
            nearest = [fault for fault in min(own, key=len) if fault.field not in told]
            raise InvalidRequest([*wrong, *nearest])
        able = tuple(offer for offer, found in zip(offers, own, strict=True) if not found)
        return Draft(id=new_id(self.cell), tenant=tenant, create=create, offers=able)

    def _asked(self, create: JobCreate, allowed: Mapping[str, Model]) -> list[Model]:
        """List the model that is named, or those for the task; the others' faults say nothing."""
        if create.model is not None:
            return [allowed[create.model]] if create.model in allowed else []
        is_upscale = create.task is Task.UPSCALE
        return [each for each in allowed.values() if each.is_upscaler == is_upscale]

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
        if create.output_quality is not None and not create.output_format.is_lossy:
            fault = f"is not for {create.output_format}, which keeps every pixel: leave it out"
            yield FieldError("output_quality", fault)
        if create.controls:
            yield from faults_of_controls(create, self.controlnets, self.max_controls)
        if create.ip_adapter is not None:
            yield from faults_of_id(create, self.ip_adapters)

    def _texts(self, create: JobCreate) -> Iterator[FieldError]:
        if not create.prompt.strip() and create.task is not Task.UPSCALE:
            yield FieldError("prompt", "must not be empty")
        for field in PROMPTS:
            text = getattr(create, field)
            if text and (fault := fault_of(text, self.max_prompt_chars)):
                yield FieldError(field, fault)

    def _faults(self, create: JobCreate, model: Model, request: JobRequest) -> list[FieldError]:
        """Say why a model cannot make a request: what only the door can tell beside its limits."""
        wrong = list(faults(model, request))
        if request.clip_skip is not None:
            wrong += self._reader.faults_of_layers(model, request.clip_skip)
        # With embeddings it is known how long a prompt is once they are found.
        if not (create.embeddings or _are_short(model, request)):
            wrong += self._reader.faults(model, request)
        if create.controls:
            wrong += faults_on_model(create, self.controlnets, model)
        if create.ip_adapter is not None:
            wrong += shown_on_model(create, self.ip_adapters, model)
        return wrong

    def check_words(self, draft: Draft) -> Draft:
        """Keep the models that can read prompts with learned words, now that these are found.

        Raises: InvalidRequest naming each prompt that is too long for all of them.
        """
        wrong = [list(self._reader.faults(*offer)) for offer in draft.offers]
        if all(wrong):
            raise InvalidRequest(min(wrong, key=len))
        offers = zip(draft.offers, wrong, strict=True)
        return replace(draft, offers=tuple(offer for offer, own in offers if not own))

    @property
    def _reader(self) -> PromptReader:
        return PromptReader(tokens=self.tokens, max_chars=self.max_prompt_chars)


def fault_of(text: str, max_chars: int) -> str | None:
    """Say what makes `text` unfit for every model, if anything does."""
    if len(text) > max_chars:
        return f"has {len(text)} characters; at most {max_chars} are read"
    if found := CONTROL.search(text):
        return f"has a control character (U+{ord(found[0]):04X}) at position {found.start()}"
    return None


def _are_short(model: Model, request: JobRequest) -> bool:
    """Tell without counting that CLIP reads all of each prompt, and nothing else reads any."""
    if request.prompt_syntax is not PromptSyntax.PLAIN or model.family_facts.t5 is not None:
        return False
    texts = [getattr(request, field) for field in PROMPTS]
    return all(is_short(text, model.max_prompt_tokens) for text in texts if text)


def _of_task(create: JobCreate) -> Iterator[FieldError]:
    """Name what a task lacks or may not have; what makes images from words alone has none of it."""
    given = (create.template, create.mask, create.strength)
    if create.task is not Task.GENERATE or any(each is not None for each in given):
        yield from faults_of_task(create)


def fill(
    create: JobCreate, models: Sequence[Model], *, slo_s: float | None = None
) -> list[JobRequest]:
    """Fill in what the client left to the service, from each model that may make it."""
    given = {name: getattr(create, name) for name in _COPIED}
    left_open = tuple(name for name in OPEN if given[name] is None)
    given |= {
        "seed": randbits(SEED_BITS) if create.seed is None else create.seed,
        "sigmas": tuple(create.sigmas or ()),
        "edit": _edit(create),
        "init_image": _init_image(create),
        "upscale": Upscale(image="") if create.task is Task.UPSCALE else None,
        "second_pass": second_pass_of(create),
        "output": Output.of(create.output_format, create.output_quality),
        "slo_s": slo_s,
        "webhook": _webhook(create),
        "filled": tuple(n for n in left_open if n != "steps" or create.sigmas is None),
    }
    owns = (_own(create, model) for model in models)
    return [JobRequest(**given | {name: own[name] for name in left_open}) for own in owns]


def _own(create: JobCreate, model: Model) -> dict[str, object]:
    """Say what a model makes of what is left open. Noise levels that are listed are its steps."""
    own: dict[str, object] = {**model.defaults(create.scheduler), "model": model.name}
    return own | ({"steps": model.steps_of(create.sigmas)} if create.sigmas else {})


def _edit(create: JobCreate) -> Edit | None:
    """Say of an edit what is known before its images are read."""
    if create.task is not Task.EDIT:
        return None
    strength = 1.0 if create.strength is None else create.strength
    return Edit(template="", template_sha256="", mask="", strength=strength)


def _init_image(create: JobCreate) -> InitImage | None:
    """Say likewise of a picture to start from."""
    if create.image is None or create.task is Task.UPSCALE:
        return None
    strength = DEFAULT_STRENGTH if create.strength is None else create.strength
    return InitImage(image="", strength=strength)


def second_pass_of(create: JobCreate) -> SecondPass | None:
    """Say what is asked for after the first pass."""
    asked = create.second_pass
    if asked is None:
        return None
    return SecondPass(scale=asked.scale, strength=asked.strength, steps=asked.steps)


def _webhook(create: JobCreate) -> WebhookTarget | None:
    if create.webhook is None:
        return None
    asked = create.webhook
    return WebhookTarget(url=asked.url, events=tuple(asked.events), format=asked.format)
