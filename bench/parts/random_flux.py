"""A Flux transformer with random weights, built in code, and its step inputs."""

from typing import Any

import torch
from diffusers import FluxTransformer2DModel

#: Tokens of a caption, as the stock pipeline pads it.
_CAPTION = 512
#: Tokens of a picture, on a side.
_SIDE = 48


def build_flux() -> Any:  # noqa: ANN401 - a module of diffusers
    """Build a transformer of two double and four single blocks, 2,304 tokens of width 256."""
    torch.manual_seed(0)
    return FluxTransformer2DModel(
        in_channels=64,
        num_layers=2,
        num_single_layers=4,
        attention_head_dim=32,
        num_attention_heads=8,
        joint_attention_dim=64,
        pooled_projection_dim=64,
        guidance_embeds=True,
        axes_dims_rope=(4, 14, 14),
    ).eval()


def flux_inputs() -> dict[str, torch.Tensor]:
    """Draw the inputs of one row: guidance is a number of it."""
    rows, columns = torch.meshgrid(torch.arange(_SIDE), torch.arange(_SIDE), indexing="ij")
    places = torch.stack([torch.zeros_like(rows), rows, columns], dim=-1).flatten(0, 1)
    return {
        "hidden_states": torch.randn(1, _SIDE * _SIDE, 64),
        "timestep": torch.tensor([0.5]),
        "guidance": torch.tensor([3.5]),
        "encoder_hidden_states": torch.randn(1, _CAPTION, 64),
        "pooled_projections": torch.randn(1, 64),
        "txt_ids": torch.zeros(_CAPTION, 3),
        "img_ids": places.float(),
    }
