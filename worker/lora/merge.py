"""Merge LoRAs into model weights in place, and restore the weights exactly.

A layer's weight is copied before its first change, and taken back from that copy: subtracting in
half precision would change one weight in six by the first time (docs/adr/0014).
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from worker.diffusion.device import to_host
from worker.diffusion.stock import Module
from worker.lora.mix import PLAIN, Mix


class Merging:
    """Some layers of a model, with at most one mix merged into them."""

    def __init__(self, layers: Mapping[str, Module]) -> None:
        self.layers = layers
        self._merged: Mix | None = PLAIN  #: None once a change has failed half way
        #: Layers, and which of their tensors, that are not their own.
        self._changed: set[tuple[str, str]] = set()
        #: These on the host, of every layer once changed.
        self._originals: dict[tuple[str, str], Tensor] = {}

    def has(self, mix: Mix) -> bool:
        """Tell whether the weights are those of this mix now."""
        return mix == self._merged

    @torch.inference_mode()
    def apply(self, mix: Mix) -> None:
        """Have the weights be those of this mix, and of no other."""
        if mix == self._merged:
            return
        self._merged = None
        for layer, name in self._changed:
            own: Tensor = getattr(self.layers[layer], name)
            own.copy_(self._originals[layer, name], non_blocking=True)
        self._changed.clear()
        for layer in mix.layers() & self.layers.keys():
            self._change(layer, mix)
        self._merged = mix

    def close(self) -> None:
        """Let go of the layers, as they are."""
        self.layers = {}
        self._originals.clear()

    def _change(self, layer: str, mix: Mix) -> None:
        module = self.layers[layer]
        bias = mix.bias(layer, module.weight)
        self._keep(layer, "weight")
        if bias is not None:
            self._keep(layer, "bias")
            module.bias.copy_(module.bias.float() + bias)
        _add(module.weight, mix, layer)

    def _keep(self, layer: str, name: str) -> None:
        if (layer, name) not in self._originals:
            self._originals[layer, name] = to_host(getattr(self.layers[layer], name))
        self._changed.add((layer, name))


def _add(weight: Tensor, mix: Mix, layer: str) -> None:
    """Add the change of one weight, rounded once."""
    if not any(layer in lora.wholes for lora in mix.loras) and weight.dtype == torch.float32:
        product = mix.product(layer, weight)
        if product is not None and weight.ndim == 2:
            weight.addmm_(product[1], product[0])
            return
    if (change := mix.change(layer, weight)) is not None:
        weight.add_(change)
