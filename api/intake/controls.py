"""Read the pictures that the ControlNets and the IP-Adapter of a job are shown."""

from collections.abc import Mapping
from dataclasses import replace

from api.intake.decode_images import read_template
from api.intake.draft import Draft
from api.intake.images import ImageIntake
from core.job import Control
from core.uploads.controlnet import ControlNet
from core.uploads.ip_adapter import AppliedIpAdapter, IpAdapter
from core.uploads.upload import UploadKind

KINDS = (UploadKind.FILE, UploadKind.TEMPLATE)


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
