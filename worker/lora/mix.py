"""Weighted sum of LoRAs that an image asks for, as low-rank products per layer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from catalog.lora.parse import Pair

_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """The change of one layer's weight: `scale * up @ down`."""

    down: Tensor  #: [r, in], or [r, in, k, k] of a convolution
    up: Tensor  #: [out, r]
    scale: float


@dataclass(frozen=True, slots=True, eq=False)
class Lora:
    """One LoRA in memory."""

    id: str  #: says which; two with the same id hold the same
    products: Mapping[str, Product]  #: by layer, such as `unet.conv_in`

    @classmethod
    def of(cls, id: str, data: Tensor, pairs: Iterable[Pair]) -> "Lora":
        """Look at the bytes of a file as tensors, without copying them."""
        return cls(id, {pair.layer: _product(data, pair) for pair in pairs})


def _product(whole: Tensor, pair: Pair) -> Product:
    down, up = (
        _aligned(whole[each.begin : each.end]).view(_DTYPES[each.dtype]).view(each.shape)
        for each in (pair.down, pair.up)
    )
    return Product(down, up.flatten(1), pair.scale)


def _aligned(data: Tensor) -> Tensor:
    """Copy what does not begin where its numbers can: files may be written so."""
    return data if data.storage_offset() % 4 == 0 else data.clone()


@dataclass(frozen=True, slots=True)
class Mix:
    """LoRAs with their strengths. Mixes of the same are equal, in whatever order they came."""

    key: tuple[tuple[str, float], ...] = ()  #: id and strength of each, sorted
    loras: tuple[Lora, ...] = field(default=(), compare=False, repr=False)  #: in this order

    @classmethod
    def of(cls, uses: Iterable[tuple[Lora, float]]) -> "Mix":
        """Mix LoRAs by their strengths; those of no strength are left out."""
        used = sorted((u for u in uses if u[1]), key=lambda use: (use[0].id, use[1]))
        key = tuple((lora.id, strength) for lora, strength in used)
        return cls(key, tuple(lora for lora, _ in used))

    def layers(self) -> set[str]:
        """Name the layers that it changes."""
        return {layer for lora in self.loras for layer in lora.products}

    def product(self, layer: str, like: Tensor) -> tuple[Tensor, Tensor] | None:
        """Give the factors of the change of a layer's weight; None if there is none.

        Shapes: like [out, in] or [out, in, k, k] -> down [R, in] or [R, in, k, k], up [out, R],
        single precision, on the same device.
        """
        downs, ups = [], []
        for lora, (_, strength) in zip(self.loras, self.key, strict=True):
            if (product := lora.products.get(layer)) is not None:
                down = product.down.to(like.device, torch.float32)
                downs.append(down.reshape(len(down), *like.shape[1:]))
                ups.append(product.up.to(like.device, torch.float32) * (product.scale * strength))
        if not downs:
            return None
        return torch.cat(downs), torch.cat(ups, dim=1)


#: The model as it is.
PLAIN = Mix()
