"""LoRAs with random weights, for any model: real shapes, nothing trained."""

import torch

from catalog.lora.names import Shapes
from worker.lora.changes import Product
from worker.lora.mix import Lora

#: Ends of the names of layers that LoRAs adapt: in peft's recipes for SDXL, and in LoCon too.
LINEAR = ("to_q", "to_k", "to_v", "to_out.0", "proj_in", "proj_out", "ff.net.0.proj", "ff.net.2")
CONVOLUTIONS = ("conv1", "conv2", "conv_in", "conv_out")


def random_lora(name: str, shapes: Shapes, ends: tuple[str, ...], *, rank: int, seed: int) -> Lora:
    """Draw a LoRA for the UNet's layers with one of these ends, each changed a little."""
    draw = torch.Generator().manual_seed(seed)
    products = {}
    for layer, (out, *into) in shapes.items():
        if layer.startswith("unet.") and layer.endswith(ends):
            down = torch.randn(rank, *into, generator=draw) * 0.01
            products[layer] = Product(down, torch.randn(out, rank, generator=draw) * 0.01, 1.0)
    return Lora(name, products)
