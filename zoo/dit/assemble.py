"""Assemble a trained transformer into a stock SD3 pipeline."""

from collections.abc import Sequence

from diffusers import AutoencoderKL, SD3Transformer2DModel, StableDiffusion3Pipeline
from diffusers.models.attention_processor import JointAttnProcessor2_0
from transformers import CLIPTokenizer

from zoo.dit.architecture import scheduler
from zoo.dit.silent import silent_t5, silent_tokenizer
from zoo.dit.text import Captions


def sd3_pipeline(
    transformer: SD3Transformer2DModel,
    vae: AutoencoderKL,
    captions: Captions,
    tokenizers: Sequence[CLIPTokenizer],
    scale: int = 1,
) -> StableDiffusion3Pipeline:
    """Put trained parts together; the place of T5 is taken by one that says nothing."""
    transformer.set_attn_processor(JointAttnProcessor2_0())
    # The pipeline adds it to every latent; ours are only scaled.
    vae.register_to_config(shift_factor=0.0)
    return StableDiffusion3Pipeline(
        transformer=transformer,
        scheduler=scheduler(scale),
        vae=vae,
        text_encoder=captions.first,
        tokenizer=tokenizers[0],
        text_encoder_2=captions.second,
        tokenizer_2=tokenizers[1],
        text_encoder_3=silent_t5(captions.context),
        tokenizer_3=silent_tokenizer(),
    )
