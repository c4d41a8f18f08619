"""Check the IP-Adapter that a job names, and read the picture that it shows."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from api.intake.controls import KINDS
from api.intake.decode_images import read_template
from api.intake.draft import Draft
from api.intake.images import ImageIntake
from api.intake.schemas import JobCreate
from core.errors import FieldError
from core.identity.refusals import fault_of_ip_adapter
from core.model import Model
from core.uploads.ip_adapter import AppliedIpAdapter, IpAdapter


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


async def add_shown(images: ImageIntake, draft: Draft, known: Mapping[str, IpAdapter]) -> Draft:
    """Read the picture that an IP-Adapter shows; raises like `ImageIntake.read`."""
    use = draft.create.ip_adapter
    if use is None:
        return draft
    named = ("ip_adapter.image", use.image, KINDS, read_template)
    [picture] = await images.read(draft.tenant, [named])
    key = draft.key_of("shown")
    applied = AppliedIpAdapter(id=use.id, image=key, models=known[use.id].models, scale=use.scale)
    draft = draft.keep(draft.models, ip_adapter=applied)
    return replace(draft, images=(*draft.images, (key, picture)))
