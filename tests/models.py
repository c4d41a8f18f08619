"""Tiny models with random weights, built in code and saved as stock pipeline folders."""

import json
from dataclasses import asdict
from pathlib import Path

import torch
from diffusers import (
    AutoencoderKL,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    PNDMScheduler,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    T5Config,
    T5EncoderModel,
)

from core.model import Model
from tests.tokenizers import make_t5_tokenizer, make_tokenizer
from worker.masking.blocks.flux import FLUX_CUTS
from worker.masking.blocks.joint import JOINT_CUTS
from worker.masking.blocks.unet import UNET_CUTS

#: Of all architectures.
CUTS = {**UNET_CUTS, **JOINT_CUTS, **FLUX_CUTS}

#: diffusers hands tensors to numpy 2 in a way that numpy warns of; not ours to change.
OF_DIFFUSERS = "ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"

NOISE = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}


def tiny_model(name="tiny", family="sdxl", **changes):
    limits = {"default_size": 32, "min_size": 16, "max_size": 64, "size_multiple": 8}
    return Model(name=name, family=family, **(limits | changes))


def save_sdxl(folder: Path, name="tiny") -> Model:
    """A folder that `StableDiffusionXLPipeline.from_pretrained` loads."""
    tokenizer = make_tokenizer()
    pipe = StableDiffusionXLPipeline(
        vae=make_vae(),
        text_encoder=make_text_encoder(tokenizer),
        text_encoder_2=make_text_encoder(tokenizer, is_projecting=True),
        tokenizer=tokenizer,
        tokenizer_2=make_tokenizer(),
        unet=make_unet(
            cross_attention_dim=64,
            addition_embed_type="text_time",
            addition_time_embed_dim=8,
            projection_class_embeddings_input_dim=80,
            use_linear_projection=True,
        ),
        scheduler=EulerDiscreteScheduler(timestep_spacing="leading", steps_offset=1, **NOISE),
        add_watermarker=False,
    )
    return save(pipe, folder, tiny_model(name, "sdxl"))


def save_sd(folder: Path, name="tiny-sd", prediction_type="epsilon", time_cond_dim=None) -> Model:
    """A folder that `StableDiffusionPipeline.from_pretrained` loads: 1.5, or 2.x with velocity."""
    tokenizer = make_tokenizer()
    pipe = StableDiffusionPipeline(
        vae=make_vae(),
        text_encoder=make_text_encoder(tokenizer),
        tokenizer=tokenizer,
        unet=make_unet(cross_attention_dim=32, time_cond_proj_dim=time_cond_dim),
        scheduler=PNDMScheduler(
            skip_prk_steps=True, steps_offset=1, prediction_type=prediction_type, **NOISE
        ),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    return save(pipe, folder, tiny_model(name, "sd"))


def save_sd3(folder: Path, name="tiny-sd3", has_t5=False, channels=4, **changes) -> Model:
    """A folder that `StableDiffusion3Pipeline.from_pretrained` loads: as 3, or as 3.5."""
    tokenizer, model = make_tokenizer(), tiny_model(name, "sd3", size_multiple=4)
    pipe = StableDiffusion3Pipeline(
        transformer=make_transformer(in_channels=channels, out_channels=channels, **changes),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=make_vae(scaling_factor=1.5, shift_factor=0.06, latent_channels=channels),
        text_encoder=make_text_encoder(tokenizer, is_projecting=True),
        tokenizer=tokenizer,
        text_encoder_2=make_text_encoder(tokenizer, is_projecting=True, seed=4),
        tokenizer_2=make_tokenizer(),
        text_encoder_3=make_t5() if has_t5 else None,
        tokenizer_3=make_t5_tokenizer() if has_t5 else None,
    )
    return save(pipe, folder, model)


def save_flux(folder: Path, name="tiny-flux", shift=True, **changes) -> Model:
    """A folder that `FluxPipeline.from_pretrained` loads: dev, or schnell without guidance."""
    tokenizer, model = make_tokenizer(), tiny_model(name, "flux", size_multiple=4)
    pipe = FluxPipeline(
        transformer=make_flux_transformer(**changes),
        scheduler=FlowMatchEulerDiscreteScheduler(
            use_dynamic_shifting=shift, base_image_seq_len=16, max_image_seq_len=256
        ),
        vae=make_vae(scaling_factor=0.36, shift_factor=0.11),
        text_encoder=make_text_encoder(tokenizer),
        tokenizer=tokenizer,
        text_encoder_2=make_t5(),
        tokenizer_2=make_t5_tokenizer(),
    )
    return save(pipe, folder, model)


def save(pipe, folder: Path, model: Model) -> Model:
    pipe.save_pretrained(folder, safe_serialization=True)
    (folder / "atelier.json").write_text(json.dumps(asdict(model)))
    return model


def make_text_encoder(tokenizer, is_projecting=False, seed=None):
    torch.manual_seed(int(is_projecting) if seed is None else seed)
    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        hidden_size=32,
        intermediate_size=37,
        num_attention_heads=4,
        num_hidden_layers=3,
        projection_dim=32,
        max_position_embeddings=77,
    )
    return (CLIPTextModelWithProjection if is_projecting else CLIPTextModel)(config).eval()


def make_unet(**changes):
    """As narrow as one with two levels and heads of attention may be: half of all tests run it."""
    torch.manual_seed(2)
    return UNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(16, 32),
        attention_head_dim=(2, 4),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=8,
        **changes,
    ).eval()


def make_transformer(**changes):
    torch.manual_seed(5)
    transformer = SD3Transformer2DModel(
        **{
            "sample_size": 16,
            "patch_size": 2,
            "in_channels": 4,
            "out_channels": 4,
            "num_layers": 3,
            "attention_head_dim": 8,
            "num_attention_heads": 4,
            "joint_attention_dim": 72,
            "caption_projection_dim": 32,
            "pooled_projection_dim": 64,
            "pos_embed_max_size": 24,
        }
        | changes
    )
    return sensitive(transformer).eval()


def make_flux_transformer(**changes):
    torch.manual_seed(7)
    transformer = FluxTransformer2DModel(
        **{
            "in_channels": 16,
            "num_layers": 1,
            "num_single_layers": 1,
            "attention_head_dim": 8,
            "num_attention_heads": 2,
            "joint_attention_dim": 72,
            "pooled_projection_dim": 32,
            "axes_dims_rope": (2, 2, 4),
            "guidance_embeds": True,
        }
        | changes
    )
    return sensitive(transformer).eval()


def sensitive(transformer):
    """Let time, guidance and prompt matter, which they hardly do to weights drawn at random."""
    for name, weight in transformer.named_parameters():
        if "norm" in name and name.endswith("linear.weight"):
            torch.nn.init.normal_(weight, std=0.2)
    return transformer


def make_t5():
    torch.manual_seed(6)
    config = T5Config(
        vocab_size=100, d_model=72, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0
    )
    return T5EncoderModel(config).eval()


def make_vae(**changes):
    torch.manual_seed(3)
    return AutoencoderKL(
        block_out_channels=(16, 32),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=8,
        sample_size=32,
        force_upcast=False,
        **{"latent_channels": 4} | changes,
    ).eval()
