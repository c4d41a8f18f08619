"""Draft a job from what a client asks for: fields by name, defaults of the model that makes it."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from secrets import randbits

from api.intake.decode_images import Picture
from api.intake.schemas import JobCreate
from core.application import DEFAULT
from core.errors import InvalidRequest
from core.job import OPEN, Edit, JobRequest, Task, WebhookTarget
from core.model import Model
from core.request.init_image import DEFAULT_STRENGTH, InitImage
from core.request.output import Output
from core.request.second_pass import SecondPass
from core.request.upscale import Upscale
from core.traits import faults

#: Fields of a request that are no copies of what is sent: `fill` or a later stage makes them.
MADE = frozenset(("seed", "sigmas", "edit", "init_image", "second_pass", "controls", "loras"))
MADE |= {"upscale", "ip_adapter", "embeddings", "output", "webhook", "slo_s", "filled"}
_COPIED = tuple(field.name for field in fields(JobRequest) if field.name not in MADE)

#: Random seeds stay exact in every client's JSON numbers.
SEED_BITS = 32


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
