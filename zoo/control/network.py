"""Initialise a ControlNet from a UNet, and write it as a stock folder."""

import json
from pathlib import Path

from diffusers import ControlNetModel, UNet2DConditionModel
from torch import nn

#: The stock default of four widths shrinks by 8; the latents here are smaller by 4.
EMBEDDING_WIDTHS = (16, 32, 64)


def from_unet(unet: UNet2DConditionModel) -> ControlNetModel:
    """Copy the first half of a denoiser, with an embedding that lets the condition through.

    The stock embedding ends in zeros and damps what it is given at every layer. Behind it stand the
    zero convolutions, which alone keep the start harmless, so here it begins at full strength.
    """
    controlnet = ControlNetModel.from_unet(
        unet, conditioning_embedding_out_channels=EMBEDDING_WIDTHS
    )
    for name, weight in controlnet.controlnet_cond_embedding.named_parameters():
        if name.endswith("weight"):
            nn.init.kaiming_normal_(weight, nonlinearity="relu")
        else:
            nn.init.zeros_(weight)
    return controlnet


def zero_convolutions(controlnet: ControlNetModel) -> nn.ModuleList:
    """Give the layers whose outputs are added to the denoiser."""
    return nn.ModuleList([*controlnet.controlnet_down_blocks, controlnet.controlnet_mid_block])


def write(controlnet: ControlNetModel, folder: Path) -> None:
    """Write a half-precision stock folder; the network itself is half precision afterwards."""
    controlnet.half().save_pretrained(folder, safe_serialization=True)
    config = folder / "config.json"
    fields = json.loads(config.read_text())
    fields.pop("_name_or_path", None)
    config.write_text(json.dumps(fields, indent=2) + "\n")
    for path in folder.glob("*.safetensors"):
        path.chmod(0o644)
