"""Add to each request the template, mask, LoRAs and ControlNets that it brings. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from loadgen.ask import TimedRequest, Value
from loadgen.client.inventory import Inventory, mask_size
from loadgen.mixes.adapters import CONTROLS, LORAS, AdapterService
from loadgen.mixes.popularity import Shares, zipf

#: An edit has the size of its template.
SIZES = ("width", "height")


def dress(
    requests: Iterable[TimedRequest], inventory: Inventory, *, seed: int
) -> Iterator[TimedRequest]:
    """Draw what each request brings, by its popularity; plain ones stay as they are."""
    rng = np.random.default_rng([seed, 40])
    templates = zipf(max(1, len(inventory.templates)))
    loras = zipf(max(1, len(inventory.loras)), LORAS[AdapterService.A].exponent)
    controls = zipf(max(1, len(inventory.controls)), CONTROLS[AdapterService.A].exponent)
    for request in requests:
        body: dict[str, Value] = dict(request.options)
        if request.mask_ratio > 0:
            template = inventory.templates[rng.choice(len(templates), p=templates)]
            body = {name: value for name, value in body.items() if name not in SIZES}
            body |= {"task": "edit", "template": template}
            body["mask"] = _mask(inventory.masks, request.mask_ratio)
        if request.loras:
            drawn = _some(inventory.loras, request.loras, loras, rng)
            body["loras"] = [{"id": each} for each in drawn]
        if request.controls:
            count = min(request.controls, inventory.max_controls)
            drawn = _some(inventory.controls, count, controls, rng)
            body["controls"] = [{"id": each, "image": inventory.picture} for each in drawn]
        yield replace(request, options=body)


def _mask(masks: Mapping[int, str], ratio: float) -> str:
    """Choose the mask of that size, or else the next: trials draw sizes that a sample had not."""
    size = mask_size(ratio)
    return masks[min(masks, key=lambda each: abs(each - size))]


def _some(
    names: tuple[str, ...], count: int, shares: Shares, rng: np.random.Generator
) -> list[str]:
    """Draw different ones; all if there are no more."""
    chosen = rng.choice(len(names), size=min(count, len(names)), replace=False, p=shares)
    return [names[i] for i in chosen]
