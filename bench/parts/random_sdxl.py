"""An SDXL pipeline with random weights, built on the device: real shapes, nothing downloaded."""

from dataclasses import dataclass, replace
from typing import Any

import diffusers
import torch
import transformers

from worker.diffusion.stock import Pipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The shape of an SDXL pipeline."""

    channels: tuple[int, ...]  #: of the UNet, by level
    heads: tuple[int, ...]
    depth: tuple[int, ...]  #: transformer blocks, by level
    vae_channels: tuple[int, ...]
    text: tuple[int, int, int]  #: width, layers, heads of the first text encoder
    text_2: tuple[int, int, int]  #: of the second
    time_width: int  #: of one embedded size
    groups: int  #: of a norm
    side: int  #: of a latent
    attends: tuple[bool, ...] = (False, True, True)  #: whether there is attention, by level


#: As published for SDXL 1.0 base.
SDXL = Size(
    channels=(320, 640, 1280),
    heads=(5, 10, 20),
    depth=(1, 2, 10),
    vae_channels=(128, 256, 512, 512),
    text=(768, 12, 12),
    text_2=(1280, 32, 20),
    time_width=256,
    groups=32,
    side=128,
)

#: Attention at every token of a latent, as in SD 1.5, where masks save most: 17.8 M parameters.
MEDIUM = Size(
    channels=(64, 128, 256),
    heads=(2, 4, 8),
    depth=(1, 1, 1),
    vae_channels=(32, 64),
    text=(32, 3, 4),
    text_2=(32, 3, 4),
    time_width=8,
    groups=32,
    side=64,
    attends=(True, True, False),
)

#: The same topology, for a dry run on a laptop.
TINY = Size(
    channels=(32, 64, 64),
    heads=(2, 4, 4),
    depth=(1, 1, 1),
    vae_channels=(16, 32),
    text=(32, 2, 2),
    text_2=(32, 2, 2),
    time_width=8,
    groups=8,
    side=16,
)

#: One level: what is run only to see whether it runs.
LEAST = replace(
    TINY, channels=(32,), heads=(2,), depth=(1,), vae_channels=(16,), side=32, attends=(True,)
)

SIZES = {"sdxl": SDXL, "medium": MEDIUM, "tiny": TINY, "least": LEAST}


def build(size: Size, *, device: str, dtype: torch.dtype) -> Pipe:
    """Build the pipeline on its device. Weights are random, but the same every time."""
    torch.manual_seed(0)
    tokenizer = _tokenizer()
    with torch.device(device):
        parts = {
            "unet": _unet(size),
            "vae": _vae(size),
            "text_encoder": _text_encoder(size.text, tokenizer, "CLIPTextModel"),
            "text_encoder_2": _text_encoder(size.text_2, tokenizer, "CLIPTextModelWithProjection"),
        }
    parts = {name: part.to(dtype).eval().requires_grad_(False) for name, part in parts.items()}
    scheduler = diffusers.EulerDiscreteScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        timestep_spacing="leading",
        steps_offset=1,
    )
    return diffusers.StableDiffusionXLPipeline(
        **parts,
        tokenizer=tokenizer,
        tokenizer_2=tokenizer,
        scheduler=scheduler,
        add_watermarker=False,
    )


def _unet(size: Size) -> Any:  # noqa: ANN401 - a module of diffusers
    return diffusers.UNet2DConditionModel(
        sample_size=size.side,
        down_block_types=tuple(
            "CrossAttnDownBlock2D" if attends else "DownBlock2D" for attends in size.attends
        ),
        up_block_types=tuple(
            "CrossAttnUpBlock2D" if attends else "UpBlock2D" for attends in reversed(size.attends)
        ),
        block_out_channels=size.channels,
        attention_head_dim=size.heads,
        transformer_layers_per_block=size.depth,
        layers_per_block=2,
        norm_num_groups=size.groups,
        cross_attention_dim=size.text[0] + size.text_2[0],
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=size.time_width,
        projection_class_embeddings_input_dim=size.text_2[0] + 6 * size.time_width,
    )


def _vae(size: Size) -> Any:  # noqa: ANN401 - a module of diffusers
    levels = len(size.vae_channels)
    return diffusers.AutoencoderKL(
        block_out_channels=size.vae_channels,
        down_block_types=("DownEncoderBlock2D",) * levels,
        up_block_types=("UpDecoderBlock2D",) * levels,
        layers_per_block=2,
        latent_channels=4,
        norm_num_groups=size.groups,
        scaling_factor=0.13025,
        force_upcast=True,
    )


def _text_encoder(shape: tuple[int, int, int], tokenizer: Any, class_name: str) -> Any:  # noqa: ANN401
    width, layers, heads = shape
    config = transformers.CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        projection_dim=width,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return getattr(transformers, class_name)(config)


def _tokenizer() -> Any:  # noqa: ANN401 - of transformers
    """CLIP's byte-level vocabulary without merges: one token a character."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    chars = [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]
    words = [*chars, *(char + "</w>" for char in chars), "<|startoftext|>", "<|endoftext|>"]
    vocab = {word: index for index, word in enumerate(words)}
    return transformers.CLIPTokenizer(vocab=vocab, merges=[], model_max_length=77)
