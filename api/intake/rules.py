"""Check a request against the models served and the limits of the service. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from api.intake.controls import faults_of_controls, faults_on_model
from api.intake.draft import Draft, fill
from api.intake.schemas import MAX_SEED, PROMPTS, JobCreate
from api.intake.tokenizers import TokenCounter
from api.intake.words.ip_adapters import faults_of_id, shown_on_model
from catalog.prompts.syntax import MAX_CHUNKS, num_chunks, parse
from core.application import Application
from core.cells.ids import new_id
from core.errors import FieldError, InvalidRequest, NoPlan, PromptRefused
from core.family import SAMPLERS, T5
from core.job import JobRequest, Task
from core.model import Model
from core.request.prompt_syntax import PromptSyntax
from core.traits import faults
from core.uploads.controlnet import ControlNet
from core.uploads.ip_adapter import IpAdapter

#: C0 without tab, line feed and carriage return; DEL; C1.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

#: Fields that say something of a picture that is enlarged.
OF_UPSCALES = frozenset(("task", "image", "model", "application", "output_format"))
OF_UPSCALES |= {"output_quality", "quality", "deadline_s", "priority", "webhook", "metadata"}


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
        wrong = [*_task(create), *self._general(create, allowed)]
        asked = self._asked(create, allowed)
        if not asked:
            raise InvalidRequest(wrong or [_without_model(create)])
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
        wrong = [*faults(model, request), *self._layers(model, request)]
        if not create.embeddings:  # how long a prompt is with them is known once they are found
            wrong += self._tokens(model, request)
        if create.controls:
            wrong += faults_on_model(create, self.controlnets, model)
        if create.ip_adapter is not None:
            wrong += shown_on_model(create, self.ip_adapters, model)
        return wrong

    def check_words(self, draft: Draft) -> Draft:
        """Keep the models that can read prompts with learned words, now that these are found.

        Raises: InvalidRequest naming each prompt that is too long for all of them.
        """
        wrong = [list(self._tokens(*offer)) for offer in draft.offers]
        if all(wrong):
            raise InvalidRequest(min(wrong, key=len))
        offers = zip(draft.offers, wrong, strict=True)
        return replace(draft, offers=tuple(offer for offer, own in offers if not own))

    def _count(self, model: Model, request: JobRequest, text: str) -> int:
        """Count the tokens of a text: each learned word has as many as vectors."""
        learned = 0
        for each in request.embeddings:
            text, found = re.subn(re.escape(each.token), " ", text, flags=re.IGNORECASE)
            learned += found * each.num_vectors
        return learned + self.tokens.count(model.name, text)

    def _tokens(self, model: Model, request: JobRequest) -> Iterator[FieldError]:
        if request.prompt_syntax is PromptSyntax.WEIGHTED:
            yield from self._chunks(model, request)
            return
        for field in PROMPTS:
            text = getattr(request, field)
            if not text or len(text) > self.max_prompt_chars:
                continue
            t5 = model.family_facts.t5
            is_for_t5 = t5 is not None and field.endswith(t5.field)
            fault = None if is_for_t5 else self._too_long(model, request, field, text)
            if t5 is not None and (is_for_t5 or not getattr(request, _own(t5, field))):
                fault = fault or self._too_long_for(t5, model, text, is_own=is_for_t5)
            if fault is not None:
                yield FieldError(field, fault)

    def _too_long(self, model: Model, request: JobRequest, field: str, text: str) -> str | None:
        """Say that CLIP does not read all of a prompt, and what to do."""
        limit, t5 = model.max_prompt_tokens, model.family_facts.t5
        if not request.embeddings and is_short(text, limit):
            return None
        if (tokens := self._count(model, request, text)) <= limit:
            return None
        cure = f"; give T5 all of it as {_own(t5, field)}, and less here" if t5 else ""
        if "prompt_syntax" in model.family_facts.words:
            cure = "; more with prompt_syntax 'weighted'"
        return f"has {tokens} tokens; {model.name} reads at most {limit}{cure}"

    def _too_long_for(self, t5: T5, model: Model, text: str, *, is_own: bool) -> str | None:
        """Say that T5 does not read all of a prompt, or that there is none for one of its own."""
        if not is_own and is_short(text, t5.tokens - 1):
            return None
        tokens = self.tokens.count_t5(model.name, text)
        if tokens is None and is_own:
            return f"is for T5, of which {model.name} has no tokenizer.json: leave it out"
        if tokens is None or tokens <= t5.tokens:
            return None
        return f"has {tokens} tokens; the T5 of {model.name} reads at most {t5.tokens}"

    def _chunks(self, model: Model, request: JobRequest) -> Iterator[FieldError]:
        limit = model.max_prompt_tokens
        for field in PROMPTS:
            text = getattr(request, field) or ""
            if len(text) > self.max_prompt_chars:
                continue
            try:
                sections = parse(text)
            except PromptRefused as error:
                yield FieldError(field, str(error))
                continue
            counts = (sum(self._count(model, request, p.text) for p in each) for each in sections)
            if (chunks := num_chunks(counts, limit)) > MAX_CHUNKS:
                most = f"at most {MAX_CHUNKS} are read"
                yield FieldError(field, f"fills {chunks} chunks of {limit} tokens; {most}")

    def _layers(self, model: Model, request: JobRequest) -> Iterator[FieldError]:
        if (skip := request.clip_skip) is None:
            return
        layers = self.tokens.layers(model.name)
        if layers is not None and skip >= layers:
            has = f"{model.name} reads prompts by {layers} layers"
            yield FieldError("clip_skip", f"must be from 0 to {layers - 1}: {has}")


def _own(t5: T5, field: str) -> str:
    """Name what T5 reads in place of a prompt, or of a negative one."""
    return f"negative_{t5.field}" if field.startswith("negative_") else t5.field


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
    if create.task is Task.UPSCALE:
        yield from _upscale(create)
    elif is_edit and create.image is not None:
        yield FieldError("image", "is for task 'generate' alone: an edit starts from its template")
    elif not is_edit and create.image is None and create.strength is not None:
        yield FieldError("strength", "is for task 'edit', or with an image to start from")


def _without_model(create: JobCreate) -> FieldError:
    """Say that no model is there for a task."""
    is_upscale = create.task is Task.UPSCALE
    needed = "an upscaler" if is_upscale else "a model that makes images"
    fault = "and none is served, or allowed here: add one by `atelier models add`, or name one"
    return FieldError("task", f"{create.task.value!r} needs {needed}, {fault}")


def _upscale(create: JobCreate) -> Iterator[FieldError]:
    """Name what an enlarged picture lacks, or what says nothing of it."""
    if create.image is None:
        yield FieldError("image", "is needed by task 'upscale'")
    for name, field in JobCreate.model_fields.items():
        if name not in OF_UPSCALES and getattr(create, name) != field.get_default():
            yield FieldError(name, "is not for task 'upscale': leave it out")
