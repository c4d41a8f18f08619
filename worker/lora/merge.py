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
        self._changed: set[str] = set()  #: layers whose weights are not their own
        self._originals: dict[str, Tensor] = {}  #: on the host, of every layer once changed

    @torch.inference_mode()
    def apply(self, mix: Mix) -> None:
        """Have the weights be those of this mix, and of no other."""
        if mix == self._merged:
            return
        self._merged = None
        for layer in self._changed:
            self.layers[layer].weight.copy_(self._originals[layer], non_blocking=True)
        self._changed.clear()
        for layer in mix.layers() & self.layers.keys():
            self._change(layer, mix)
        self._merged = mix

    def close(self) -> None:
        """Let go of the layers, as they are."""
        self.layers = {}
        self._originals.clear()

    def _change(self, layer: str, mix: Mix) -> None:
        weight: Tensor = self.layers[layer].weight
        if layer not in self._originals:
            self._originals[layer] = to_host(weight)
        self._changed.add(layer)
        _add(weight, mix, layer)


def _add(weight: Tensor, mix: Mix, layer: str) -> None:
    """Add the change of one weight, rounded once."""
    product = mix.product(layer, weight)
    if product is None:
        return
    down, up = product
    if weight.dtype == torch.float32 and weight.ndim == 2:
        weight.addmm_(up, down)
    else:
        weight.add_((up @ down.flatten(1)).view_as(weight))
