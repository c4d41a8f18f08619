"""Weighted sum of LoRAs that an image asks for: per layer short products, and wholes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from catalog.lora.parse import LayerChange
from worker.lora.changes import Product, Whole, read_change


@dataclass(frozen=True, slots=True, eq=False)
class Lora:
    """One LoRA in memory, or another adapter that changes layers."""

    id: str  #: says which; two with the same id hold the same
    products: Mapping[str, Product]  #: by layer, such as `unet.conv_in`
    wholes: Mapping[str, Whole] = field(default_factory=dict)  #: changes without short factors

    @classmethod
    def of(cls, id: str, data: Tensor, changes: Iterable[LayerChange]) -> "Lora":
        """Look at the bytes of a file as tensors."""
        made = {change.layer: read_change(data, change) for change in changes}
        return cls(
            id,
            {layer: each for layer, each in made.items() if isinstance(each, Product)},
            {layer: each for layer, each in made.items() if isinstance(each, Whole)},
        )


@dataclass(frozen=True, slots=True)
class Mix:
    """LoRAs with their strengths. Mixes of the same are equal, in whatever order they came."""

    key: tuple[tuple[str, float], ...] = ()  #: id and strength of each, sorted
    loras: tuple[Lora, ...] = field(default=(), compare=False, repr=False)  #: in this order
    is_fixed: bool = False  #: whether it is added row by row if it can be, whoever is in the batch

    @classmethod
    def of(cls, uses: Iterable[tuple[Lora, float]], *, is_fixed: bool = False) -> "Mix":
        """Mix LoRAs by their strengths; those of no strength are left out."""
        used = sorted((u for u in uses if u[1]), key=lambda use: (use[0].id, use[1]))
        key = tuple((lora.id, strength) for lora, strength in used)
        return cls(key, tuple(lora for lora, _ in used), is_fixed and bool(used))

    def layers(self) -> set[str]:
        """Name the layers that it changes."""
        return {layer for lora in self.loras for layer in lora.products.keys() | lora.wholes.keys()}

    @property
    def is_short(self) -> bool:
        """Whether all of it can be added row by row; else it is merged."""
        return not any(lora.wholes for lora in self.loras)

    def change(self, layer: str, original: Tensor) -> Tensor | None:
        """Compute the change of a layer's weight as a whole; None if there is none.

        Shapes: [out, in] or [out, in, k, k], single precision.
        """
        wholes = [
            lora.wholes[layer].weight(original, strength)
            for lora, (_, strength) in zip(self.loras, self.key, strict=True)
            if layer in lora.wholes
        ]
        if (product := self.product(layer, original)) is not None:
            wholes.append((product[1] @ product[0].flatten(1)).view_as(original))
        return torch.stack(wholes).sum(0) if wholes else None

    def bias(self, layer: str, like: Tensor) -> Tensor | None:
        """Add up what a layer adds beside; None if nothing. Shapes: [out], single precision."""
        biases = []
        for lora, (_, strength) in zip(self.loras, self.key, strict=True):
            if (product := lora.products.get(layer)) is not None:
                bias = product.bias
            elif (whole := lora.wholes.get(layer)) is not None:
                bias = whole.bias(like)
            else:
                continue
            if bias is not None:
                biases.append(bias.to(like.device, torch.float32) * strength)
        return torch.stack(biases).sum(0) if biases else None

    def product(self, layer: str, like: Tensor) -> tuple[Tensor, Tensor] | None:
        """Give the short factors of the change of a layer's weight; None if there are none.

        Shapes: like [out, in] or [out, in, k, k] -> down [R, in] or [R, in, k, k], up [out, R],
        single precision, on the same device.
        """
        downs, ups = [], []
        for lora, (_, strength) in zip(self.loras, self.key, strict=True):
            product = lora.products.get(layer)
            if product is not None and len(product.down):
                down = product.down.to(like.device, torch.float32)
                downs.append(down.reshape(len(down), *like.shape[1:]))
                ups.append(product.up.to(like.device, torch.float32) * (product.scale * strength))
        if not downs:
            return None
        return torch.cat(downs), torch.cat(ups, dim=1)


#: The model as it is.
PLAIN = Mix()
