"""Find what a service has for edits and adapters, and upload pictures for them once."""

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import aiohttp
import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from core.errors import ConfigurationError
from core.job import Task
from loadgen.client.session import ERRORS, name_of
from loadgen.workload import Workload

#: Different templates: few are used again and again (InstGenIE §2.2).
TEMPLATES = 8
#: Masks are of as many sizes at most: a ratio is rounded to the next.
SIZES_OF_MASKS = 50

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A LoRA or a ControlNet that the service has."""

    id: str
    models: tuple[str, ...]  #: that it fits
    modes: int = 0  #: of a Union ControlNet: kinds of pictures that it tells apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What requests of a run may bring, by ids of the service."""

    templates: tuple[str, ...] = ()
    masks: Mapping[int, str] = field(default_factory=dict)  #: by size, in `SIZES_OF_MASKS`
    loras: tuple[str, ...] = ()  #: the most popular first
    controls: tuple[str, ...] = ()  #: the most popular first
    max_controls: int = 0  #: of one job
    picture: str = ""  #: that ControlNets look at


class _Sizes(msgspec.Struct):
    default: int


class _Model(msgspec.Struct):
    id: str
    tasks: list[str]
    sizes: _Sizes


class _Models(msgspec.Struct):
    data: list[_Model]


class _Adapters(msgspec.Struct):
    data: list[Adapter]
    max_controls: int = 0
    cursor: str | None = None


class _Kept(msgspec.Struct):
    id: str


def mask_size(ratio: float) -> int:
    """Round a mask ratio to a size that is uploaded."""
    return max(1, round(ratio * SIZES_OF_MASKS))


async def stock(http: aiohttp.ClientSession, workload: Workload, *, seed: int) -> Inventory:
    """Find or upload everything that the requests of a workload bring.

    Raises:
        ConfigurationError: the service has none, or cannot be reached; the message says of what.
    """
    is_edited = bool((workload.mask_ratio > 0).any())
    has_loras, has_controls = bool(workload.loras.any()), bool(workload.controls.any())
    if not (is_edited or has_loras or has_controls):
        return Inventory()
    try:
        return await _stock(http, workload, is_edited, has_loras, has_controls, seed)
    except (*ERRORS, msgspec.DecodeError) as error:
        raise ConfigurationError(f"what requests bring: {name_of(error)}: {error}") from error


async def _stock(
    http: aiohttp.ClientSession,
    workload: Workload,
    is_edited: bool,
    has_loras: bool,
    has_controls: bool,
    seed: int,
) -> Inventory:
    rng = np.random.default_rng([seed, 30])
    models = (await _get(http, "/v1/models", _Models)).data
    loras = await _adapters(http, "/v1/loras") if has_loras else _Adapters(data=[])
    controls = await _adapters(http, "/v1/controlnets") if has_controls else _Adapters(data=[])
    asked = set(workload.models)
    model = _served(models, asked, is_edited, [*loras.data, *controls.data])
    side = model.sizes.default
    ratios = workload.mask_ratio[workload.mask_ratio > 0]
    sizes = sorted({mask_size(float(ratio)) for ratio in np.unique(ratios)})
    return Inventory(
        templates=tuple(
            [
                await _put(http, "/v1/templates", _scene(side, rng))
                for _ in range(TEMPLATES if is_edited else 0)
            ]
        ),
        masks={size: await _put(http, "/v1/files", _mask(side, size, rng)) for size in sizes},
        loras=_that_fit(loras, model.id, "LoRA") if has_loras else (),
        controls=_that_fit(controls, model.id, "ControlNet") if has_controls else (),
        max_controls=controls.max_controls,
        picture=await _put(http, "/v1/files", _scene(side, rng)) if has_controls else "",
    )


def _served(
    models: Sequence[_Model], asked: set[str], is_edited: bool, adapters: Sequence[Adapter]
) -> _Model:
    """Choose the model that images are drawn for: one asked for, or that most adapters fit."""
    task = Task.EDIT if is_edited else Task.GENERATE
    able = [each for each in models if (not asked or each.id in asked) and task in each.tasks]
    if not able:
        what = "edits images" if is_edited else "is served"
        raise ConfigurationError(f"none of {', '.join(sorted(asked)) or 'the models'} {what}")
    fitting = Counter(name for adapter in adapters for name in adapter.models)
    return max(able, key=lambda model: fitting[model.id])


def _that_fit(adapters: _Adapters, model: str, kind: str) -> tuple[str, ...]:
    # A Union must be told what its picture shows, and all requests have the same picture.
    found = tuple(each.id for each in adapters.data if model in each.models and not each.modes)
    if not found:
        add = f"{kind.lower()}s add"
        raise ConfigurationError(f"the service has no {kind} for {model}: see `atelier {add}`")
    return found


async def _get(http: aiohttp.ClientSession, path: str, kind: type[T]) -> T:
    async with http.get(path) as answer:
        answer.raise_for_status()
        return msgspec.json.decode(await answer.read(), type=kind)


async def _adapters(http: aiohttp.ClientSession, path: str) -> _Adapters:
    page = await _get(http, f"{path}?limit=100", _Adapters)
    found = list(page.data)
    while page.cursor:
        page = await _get(http, f"{path}?limit=100&cursor={page.cursor}", _Adapters)
        found += [each for each in page.data if each not in found]
    return msgspec.structs.replace(page, data=found)


async def _put(http: aiohttp.ClientSession, path: str, pixels: NDArray[np.uint8]) -> str:
    png = io.BytesIO()
    Image.fromarray(pixels).save(png, "PNG")
    headers = {"Content-Type": "image/png"}
    async with http.post(path, data=png.getvalue(), headers=headers) as answer:
        answer.raise_for_status()
        return msgspec.json.decode(await answer.read(), type=_Kept).id


def _scene(side: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Paint a few rectangles on a ground. Shapes: [side, side, 3]"""
    pixels = np.full((side, side, 3), rng.integers(0, 256, 3), np.uint8)
    for _ in range(4):
        (top, bottom), (left, right) = np.sort(rng.integers(0, side, (2, 2)), axis=1)
        pixels[top : bottom + 1, left : right + 1] = rng.integers(0, 256, 3)
    return pixels


def _mask(side: int, size: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Put a white rectangle of that share of the image anywhere. Shapes: [side, side]"""
    area = side * side * size / SIZES_OF_MASKS
    height = int(np.clip(round(np.sqrt(area) * rng.uniform(0.8, 1.25)), 1, side))
    width = int(np.clip(round(area / height), 1, side))
    height = int(np.clip(round(area / width), 1, side))
    top, left = rng.integers(0, side - height + 1), rng.integers(0, side - width + 1)
    pixels = np.zeros((side, side), np.uint8)
    pixels[top : top + height, left : left + width] = 255
    return pixels
