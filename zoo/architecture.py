"""How large is each network of the model, and which noise schedule does it use?"""

from diffusers import AutoencoderKL, EulerDiscreteScheduler, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

IMAGE_SIDE = 64
LATENT_SIDE = 16
LATENT_CHANNELS = 4
#: Longest caption of the grammar, 41 tokens, and a margin.
MAX_TOKENS = 48

_TIME_DIM = 32
_POOLED = 128
_WIDTHS = (96, 160)

#: Stock settings but for zero terminal SNR: without it flat backgrounds come out washed.
SCHEDULE = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "num_train_timesteps": 1000,
    "prediction_type": "v_prediction",
    "rescale_betas_zero_snr": True,
    "timestep_spacing": "trailing",
}


def unet() -> UNet2DConditionModel:
    """Build the denoiser, 4.5 M parameters."""
    return UNet2DConditionModel(
        sample_size=LATENT_SIDE,
        in_channels=LATENT_CHANNELS,
        out_channels=LATENT_CHANNELS,
        block_out_channels=(32, 64, 128),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=(1, 1, 1),
        attention_head_dim=(1, 2, 4),
        cross_attention_dim=sum(_WIDTHS),
        use_linear_projection=True,
        norm_num_groups=16,
        addition_embed_type="text_time",
        addition_time_embed_dim=_TIME_DIM,
        projection_class_embeddings_input_dim=_POOLED + 6 * _TIME_DIM,
    )


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


def _text_config(vocabulary: int, width: int, heads: int, act: str, pad: int) -> CLIPTextConfig:
    """Describe a text encoder.

    The end token is the last of the vocabulary, as in CLIP; transformers pools at its first place.
    """
    return CLIPTextConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=width * 4,
        num_hidden_layers=3,
        num_attention_heads=heads,
        max_position_embeddings=MAX_TOKENS,
        projection_dim=_POOLED,
        hidden_act=act,
        bos_token_id=vocabulary - 2,
        eos_token_id=vocabulary - 1,
        pad_token_id=pad,
    )


def text_encoder(vocabulary: int) -> CLIPTextModel:
    """Build the first text encoder, 0.4 M parameters."""
    return CLIPTextModel(_text_config(vocabulary, _WIDTHS[0], 4, "quick_gelu", vocabulary - 1))


def text_encoder_2(vocabulary: int) -> CLIPTextModelWithProjection:
    """Build the second text encoder, 1.1 M parameters."""
    return CLIPTextModelWithProjection(_text_config(vocabulary, _WIDTHS[1], 5, "gelu", 0))


def scheduler() -> EulerDiscreteScheduler:
    """Build the default sampler."""
    return EulerDiscreteScheduler(**SCHEDULE)
