"""Keep text encoders on the host: each layer is brought to the device while it reads, then let go.

So a device holds a layer at a time beside the steps of other images, whatever the encoders weigh.
The host's weights stay what and where they are, pages of the model's files as a rule; LoRAs are
merged into them there. Hooks of other libraries leave hollow weights on the host meanwhile.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from worker.diffusion.device import on_side_stream
from worker.diffusion.stock import Argument, Module

#: What an encoder makes of a prompt, and of its negative if it has one.
Made = tuple[Argument, ...]


class _Visit:
    """The tensors of one layer, away from the host while it computes."""

    def __init__(self, layer: Module, device: torch.device) -> None:
        self._device = device
        self._own = own_tensors(layer)
        self._homes: list[tuple[Tensor, ...]] = []  #: innermost call last
        layer.register_forward_pre_hook(self._go)
        layer.register_forward_hook(self._come_back, always_call=True)

    def _go(self, layer: Module, given: Argument) -> None:
        del layer, given
        self._homes.append(tuple(each.data for each in self._own))
        with torch.inference_mode(False):  # weights are none of its tensors
            for tensor in self._own:
                tensor.data = tensor.data.to(self._device, copy=True)

    def _come_back(self, layer: Module, given: Argument, out: Argument) -> None:
        del layer, given, out
        for tensor, home in zip(self._own, self._homes.pop(), strict=True):
            tensor.data = home


def offload(encoders: Iterable[Module], device: torch.device) -> None:
    """Have encoders whose weights are on the host compute on a device."""
    for encoder in encoders:

        def bring(whole: Module, args: Argument, named: Argument) -> Argument:
            del whole
            moved = {name: _moved(each, device) for name, each in named.items()}
            return tuple(_moved(each, device) for each in args), moved

        encoder.register_forward_pre_hook(bring, with_kwargs=True)
        for layer in encoder.modules():
            if own_tensors(layer):
                _Visit(layer, device)


def _moved(given: Argument, device: torch.device) -> Argument:
    return given.to(device) if isinstance(given, Tensor) else given


def own_tensors(layer: Module) -> list[Tensor]:
    """List the weights and buffers that lie in a layer itself, not in layers of its own."""
    return [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]


def encode_apart(device: torch.device, encode: Callable[[], Made]) -> Made:
    """Encode in a stream of its own, so that no layer waits for the steps of others.

    What it makes belongs to the caller's stream; what it took is the device's again.
    """
    with on_side_stream(device):
        made = encode()
    kept = tuple(each.clone() if each is not None else None for each in made)
    del made
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return kept
