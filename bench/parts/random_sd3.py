"""An SD3 transformer with random weights, built in code, and what a guided step of it is given."""

from typing import Any

import torch
from diffusers import SD3Transformer2DModel
from torch import Tensor

#: Tokens of a caption, with T5's.
_CAPTION = 333


def build_transformer() -> Any:  # noqa: ANN401 - a module of diffusers
    """Build a transformer of six joint blocks, 2,304 tokens of width 256."""
    torch.manual_seed(0)
    return SD3Transformer2DModel(
        sample_size=96,
        patch_size=2,
        in_channels=4,
        out_channels=4,
        num_layers=6,
        attention_head_dim=32,
        num_attention_heads=8,
        joint_attention_dim=64,
        caption_projection_dim=256,
        pooled_projection_dim=64,
        pos_embed_max_size=48,
    ).eval()


def transformer_inputs(transformer: Any) -> dict[str, Tensor]:  # noqa: ANN401
    """Draw the inputs of two rows: one with the prompt, one without."""
    side = transformer.config.sample_size
    return {
        "hidden_states": torch.randn(2, 4, side, side),
        "timestep": torch.tensor([500.0, 500.0]),
        "encoder_hidden_states": torch.randn(2, _CAPTION, 64),
        "pooled_projections": torch.randn(2, 64),
    }
