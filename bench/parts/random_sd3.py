"""An SD3 transformer with random weights, built in code, and inputs of a guided step."""

from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
)
from torch import Tensor

from worker.diffusion.stock import Pipe

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


def build_pipeline() -> Pipe:
    """Build a pipeline of that transformer, and an autoencoder that halves a picture's sides."""
    return StableDiffusion3Pipeline(
        transformer=build_transformer(),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=AutoencoderKL(
            block_out_channels=(16, 32),
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            norm_num_groups=8,
            shift_factor=0.06,
        ).eval(),
        **dict.fromkeys(["text_encoder", "text_encoder_2", "text_encoder_3"]),
        **dict.fromkeys(["tokenizer", "tokenizer_2", "tokenizer_3"]),
    )


def transformer_inputs(transformer: Any) -> dict[str, Tensor]:  # noqa: ANN401
    """Draw the inputs of two rows: one with the prompt, one without."""
    side = transformer.config.sample_size
    return {
        "hidden_states": torch.randn(2, 4, side, side),
        "timestep": torch.tensor([500.0, 500.0]),
        "encoder_hidden_states": torch.randn(2, _CAPTION, 64),
        "pooled_projections": torch.randn(2, 64),
    }
