"""Read the pictures that a job begins with, and find the models that make images of their size."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from api.intake.decode_images import Picture, read_mask, read_template
from api.intake.draft import Draft
from api.intake.images import ImageIntake
from core.errors import FieldError, InvalidRequest
from core.job import Edit
from core.model import Model
from core.request.upscale import Upscale, windows_of
from core.uploads.upload import UploadKind

OF_TEMPLATE, OF_MASK = (UploadKind.TEMPLATE, UploadKind.FILE), (UploadKind.FILE,)


async def add_edit(images: ImageIntake, draft: Draft) -> Draft:
    """Read the images of an edit, which has the size of its template.

    Raises:
        InvalidRequest: an image, or both; or no model makes this size, or another is asked for.
        Unavailable: a store cannot serve now.
    """
    create = draft.create
    template, mask = await images.read(
        draft.tenant,
        [
            ("template", create.template or "", OF_TEMPLATE, read_template),
            ("mask", create.mask or "", OF_MASK, read_mask),
        ],
    )
    if (template.width, template.height) != (mask.width, mask.height):
        sizes = f"is {_size(mask)} pixels, the template {_size(template)}"
        raise InvalidRequest([FieldError("mask", f"{sizes}: they must be of one size")])
    able = _able(draft, template)
    edit = Edit(
        template=draft.key_of("template"),
        template_sha256=template.sha256,
        mask=draft.key_of("mask"),
        strength=1.0 if create.strength is None else create.strength,
        masked=mask.masked,
    )
    filled = tuple(name for name in draft.request.filled if name not in ("width", "height"))
    size = {"width": template.width, "height": template.height, "filled": filled}
    seed = edit.default_seed if create.seed is None else create.seed
    draft = draft.keep(able, edit=edit, seed=seed, **size)
    return replace(draft, images=((edit.template, template), (edit.mask, mask)))


async def add_image(images: ImageIntake, draft: Draft) -> Draft:
    """Read the picture that an image starts from; what the client leaves open has its size.

    Raises: as `add_edit`.
    """
    create, init = draft.create, draft.request.init_image
    if create.image is None or init is None:
        return draft
    named = ("image", create.image, OF_TEMPLATE, read_template)
    [picture] = await images.read(draft.tenant, [named])
    own = {"width": picture.width, "height": picture.height}
    size = {side: own[side] for side in own if getattr(create, side) is None}
    width, height = (size.get(side) or getattr(create, side) for side in own)
    able = editors(draft.models, width, height)
    if not able:
        fault = f"{_misfit(draft.models, width, height)}, or say which width and height to make"
        raise InvalidRequest([FieldError("image", fault)])
    filled = tuple(name for name in draft.request.filled if name not in size)
    init = replace(init, image=draft.key_of("image"))
    draft = draft.keep(able, init_image=init, filled=filled, **size)
    return replace(draft, images=((init.image, picture),))


async def add_picture(images: ImageIntake, draft: Draft) -> Draft:
    """Read the picture that is to be enlarged, a window at a time: its windows are the steps.

    Raises: as `add_edit`.
    """
    named = ("image", draft.create.image or "", OF_TEMPLATE, read_template)
    [picture] = await images.read(draft.tenant, [named])
    width, height = picture.width, picture.height
    able = [model for model in draft.models if _fits(model, width, height)]
    if not able:
        raise InvalidRequest([FieldError("image", _misfit(draft.models, width, height))])
    told = {"width": width, "height": height, "steps": len(windows_of(width, height))}
    filled = tuple(name for name in draft.request.filled if name not in told)
    upscale = Upscale(image=draft.key_of("picture"))
    draft = draft.keep(able, upscale=upscale, filled=filled, **told)
    return replace(draft, images=((upscale.image, picture),))


def editors(models: Iterable[Model], width: int, height: int) -> list[Model]:
    """List those of `models` that edit templates of a size."""
    return [model for model in models if model.can_edit and _fits(model, width, height)]


def check_template(models: Iterable[Model], width: int, height: int) -> None:
    """Refuse a template that none of `models` can edit.

    Raises:
        InvalidRequest: it has a size that none of them makes.
    """
    able = [model for model in models if model.can_edit]
    if able and not editors(able, width, height):
        raise InvalidRequest([FieldError("body", _misfit(able, width, height))])


def _able(draft: Draft, template: Picture) -> list[Model]:
    """Keep the models that make the size of a template.

    Raises:
        InvalidRequest: there is none, or the client asks for another size.
    """
    width, height = template.width, template.height
    wrong = [
        FieldError(field, f"must be {own}, as the template's is, or left out")
        for field, asked, own in (
            ("width", draft.create.width, width),
            ("height", draft.create.height, height),
        )
        if asked not in (None, own)
    ]
    able = editors(draft.models, width, height)
    if not able:
        wrong.append(FieldError("template", _misfit(draft.models, width, height)))
    if wrong:
        raise InvalidRequest(wrong)
    return able


def _fits(model: Model, width: int, height: int) -> bool:
    return model.makes(width) and model.makes(height)


def _misfit(models: Sequence[Model], width: int, height: int) -> str:
    made = dict.fromkeys((m.size_multiple, m.min_size, m.max_size) for m in models)
    sizes = " or ".join(f"a multiple of {step} from {low} to {high}" for step, low, high in made)
    return f"is {width} x {height} pixels; each side must be {sizes}: scale or crop it"


def _size(picture: Picture) -> str:
    return f"{picture.width} x {picture.height}"
