"""Architectures shared by the models: autoencoder, text encoders, noise schedule."""

from diffusers import AutoencoderKL, EulerDiscreteScheduler
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

IMAGE_SIDE = 64
LATENT_SIDE = 16
LATENT_CHANNELS = 4
#: Longest caption of the grammar, 41 tokens, and a margin.
MAX_TOKENS = 48

#: Widths of the text encoders, and of the pooled vector.
FIRST_WIDTH, SECOND_WIDTH, POOLED = 96, 160, 128

_TEXT_LAYERS = 4

#: Stock settings but for zero terminal SNR: without it flat backgrounds come out washed.
SCHEDULE = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "num_train_timesteps": 1000,
    "prediction_type": "v_prediction",
    "rescale_betas_zero_snr": True,
    "timestep_spacing": "trailing",
    # Trailing steps do not read it; stock pipelines complain of any other value.
    "steps_offset": 1,
}


def vae() -> AutoencoderKL:
    """Build the autoencoder, 1.5 M parameters, factor 4.

    Groups of fewer channels normalise the absolute colour away, hence norm_num_groups=4.
    """
    return AutoencoderKL(
        block_out_channels=(24, 48, 96),
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        layers_per_block=1,
        latent_channels=LATENT_CHANNELS,
        norm_num_groups=4,
        sample_size=IMAGE_SIDE,
        force_upcast=False,
    )


def text_config(vocabulary: int, width: int, heads: int, act: str, pad: int) -> CLIPTextConfig:
    """Describe a text encoder.

    The end token is the last of the vocabulary, as in CLIP; transformers pools at its first place.
    """
    return CLIPTextConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=width * 4,
        num_hidden_layers=_TEXT_LAYERS,
        num_attention_heads=heads,
        max_position_embeddings=MAX_TOKENS,
        projection_dim=POOLED,
        hidden_act=act,
        bos_token_id=vocabulary - 2,
        eos_token_id=vocabulary - 1,
        pad_token_id=pad,
    )


def text_encoder(vocabulary: int) -> CLIPTextModel:
    """Build the first text encoder of SDXL, or the only one of SD 1.x."""
    return CLIPTextModel(text_config(vocabulary, FIRST_WIDTH, 4, "quick_gelu", vocabulary - 1))


def text_encoder_2(vocabulary: int) -> CLIPTextModelWithProjection:
    """Build the second text encoder of SDXL."""
    return CLIPTextModelWithProjection(text_config(vocabulary, SECOND_WIDTH, 5, "gelu", 0))


def scheduler() -> EulerDiscreteScheduler:
    """Build the default sampler."""
    return EulerDiscreteScheduler(**SCHEDULE)
