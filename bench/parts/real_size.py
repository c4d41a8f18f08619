"""Model folders of real size, as diffusers saves them: random weights, written by shards."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers
from safetensors.torch import save_file

from tests.tokenizers import make_t5_tokenizer, make_tokenizer

SHARD_BYTES = 2**29
NOISE = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
CLIP_WORDS, T5_WORDS = 49408, 32128

#: Modules and configurations of both libraries.
Part = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A model of real size."""

    name: str
    pipeline: str  #: class of diffusers
    parts: Callable[[], Mapping[str, Part]]  #: makes everything that the pipeline consists of
    cut: str = ""  #: what it lacks of the published one


def write(checkpoint: Checkpoint, folder: Path) -> int:
    """Write a folder of float16. Units: bytes of weights."""
    with torch.device("meta"):
        parts = checkpoint.parts()
    index: dict[str, object] = {"_class_name": checkpoint.pipeline, "_diffusers_version": "0.42.1"}
    written = 0
    for name, part in parts.items():
        library = type(part).__module__.partition(".")[0]
        index[name] = [library, type(part).__name__] if part is not None else [None, None]
        if isinstance(part, torch.nn.Module):
            written += _write_module(part, folder / name, library)
        elif part is not None:
            part.save_pretrained(folder / name)
    (folder / "model_index.json").write_text(json.dumps(index))
    return written


def _write_module(part: Part, folder: Path, library: str) -> int:
    if library == "diffusers":
        part.save_config(folder)
    else:
        part.config.save_pretrained(folder)
    stem = "diffusion_pytorch_model" if library == "diffusers" else "model"
    names = {*part.state_dict()} - {
        name for name, _ in part.named_parameters(remove_duplicate=False)
    }
    names |= {name for name, _ in part.named_parameters()}  # what is tied is written once
    shards = list(_shards({k: v for k, v in part.state_dict().items() if k in names}))
    places: dict[str, str] = {}
    written = 0
    for number, shard in enumerate(shards, 1):
        ending = f"-{number:05}-of-{len(shards):05}" if len(shards) > 1 else ""
        file = folder / f"{stem}{ending}.safetensors"
        save_file({name: _draw(name, shard[name].shape) for name in shard}, file, {"format": "pt"})
        places |= dict.fromkeys(shard, file.name)
        written += sum(each.numel() for each in shard.values()) * 2
    if len(shards) > 1:
        index = {"metadata": {"total_size": written}, "weight_map": places}
        (folder / f"{stem}.safetensors.index.json").write_text(json.dumps(index))
    return written


def _once(part: Part) -> dict[str, torch.Tensor]:
    """Name what is to be written: of weights that are tied one alone."""
    every = dict(part.named_parameters(remove_duplicate=False))
    tied = every.keys() - dict(part.named_parameters()).keys()
    return {name: tensor for name, tensor in part.state_dict().items() if name not in tied}


def _shards(tensors: Mapping[str, torch.Tensor]) -> Iterator[dict[str, torch.Tensor]]:
    shard: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        if shard and 2 * sum(t.numel() for t in (*shard.values(), tensor)) > SHARD_BYTES:
            yield shard
            shard = {}
        shard[name] = tensor
    yield shard


_DRAWN = torch.randn(2**22, generator=torch.Generator().manual_seed(0)).mul(0.02).half()


def _draw(name: str, shape: torch.Size) -> torch.Tensor:
    """Draw weights that keep what passes finite: of norms 1, of biases 0."""
    if len(shape) < 2:
        return torch.full(shape, 0.0 if name.endswith("bias") else 1.0, dtype=torch.float16)
    count = shape.numel()
    return _DRAWN.repeat(-(-count // len(_DRAWN)))[:count].view(shape)


def clip(width: int, layers: int, *, projects: bool = False) -> Part:
    """A text encoder of CLIP's kind."""
    config = transformers.CLIPTextConfig(
        vocab_size=CLIP_WORDS,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        projection_dim=width,
        hidden_act="gelu" if width > 768 else "quick_gelu",
    )
    return (transformers.CLIPTextModelWithProjection if projects else transformers.CLIPTextModel)(
        config
    )


def t5(layers: int) -> Part:
    """A T5 of XXL's width."""
    return transformers.T5EncoderModel(
        transformers.T5Config(
            vocab_size=T5_WORDS,
            d_model=4096,
            d_kv=64,
            d_ff=10240,
            num_layers=layers,
            num_heads=64,
            feed_forward_proj="gated-gelu",
        )
    )


def vae(channels: int, scaling: float, **changes: object) -> Part:
    """A decoder and encoder of eight pixels to a latent."""
    return diffusers.AutoencoderKL(
        block_out_channels=(128, 256, 512, 512),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        latent_channels=channels,
        scaling_factor=scaling,
        **changes,
    )


def _t5_tokenizer() -> Part:
    made: Part = make_t5_tokenizer()
    return made


def _scheduler(name: str, **kwargs: object) -> Part:
    with torch.device("cpu"):  # it computes as it is made
        return getattr(diffusers, f"{name}Scheduler")(**kwargs)


def _sd15() -> dict[str, Part]:
    return {
        "unet": diffusers.UNet2DConditionModel(sample_size=64, cross_attention_dim=768),
        "vae": vae(4, 0.18215, sample_size=512),
        "text_encoder": clip(768, 12),
        "tokenizer": make_tokenizer(),
        "scheduler": _scheduler("DDIM", clip_sample=False, steps_offset=1, **NOISE),
        "safety_checker": None,
        "feature_extractor": None,
    }


def _sdxl(depth: int) -> dict[str, Part]:
    return {
        "unet": diffusers.UNet2DConditionModel(
            sample_size=128,
            block_out_channels=(320, 640, 1280),
            attention_head_dim=(5, 10, 20),
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
            transformer_layers_per_block=(1, 2, depth),
            cross_attention_dim=2048,
            use_linear_projection=True,
            addition_embed_type="text_time",
            addition_time_embed_dim=256,
            projection_class_embeddings_input_dim=2816,
        ),
        "vae": vae(4, 0.13025, sample_size=1024, force_upcast=True),
        "text_encoder": clip(768, 12),
        "text_encoder_2": clip(1280, 32, projects=True),
        "tokenizer": make_tokenizer(),
        "tokenizer_2": make_tokenizer(),
        "scheduler": _scheduler(
            "EulerDiscrete", timestep_spacing="leading", steps_offset=1, **NOISE
        ),
    }


def _sd3(layers: int) -> dict[str, Part]:
    return {
        "transformer": diffusers.SD3Transformer2DModel(
            sample_size=128,
            num_layers=layers,
            num_attention_heads=24,
            caption_projection_dim=1536,
            pos_embed_max_size=192,
        ),
        "vae": vae(
            16,
            1.5305,
            sample_size=1024,
            shift_factor=0.0609,
            use_quant_conv=False,
            use_post_quant_conv=False,
        ),
        "text_encoder": clip(768, 12, projects=True),
        "text_encoder_2": clip(1280, 8, projects=True),
        "text_encoder_3": t5(1),
        "tokenizer": make_tokenizer(),
        "tokenizer_2": make_tokenizer(),
        "tokenizer_3": _t5_tokenizer(),
        "scheduler": _scheduler("FlowMatchEulerDiscrete", shift=3.0),
        "image_encoder": None,
        "feature_extractor": None,
    }


def _flux(double: int, single: int) -> dict[str, Part]:
    return {
        "transformer": diffusers.FluxTransformer2DModel(
            num_layers=double, num_single_layers=single, guidance_embeds=True
        ),
        "vae": vae(
            16,
            0.3611,
            sample_size=1024,
            shift_factor=0.1159,
            use_quant_conv=False,
            use_post_quant_conv=False,
        ),
        "text_encoder": clip(768, 12),
        "text_encoder_2": t5(1),
        "tokenizer": make_tokenizer(),
        "tokenizer_2": _t5_tokenizer(),
        "scheduler": _scheduler("FlowMatchEulerDiscrete", use_dynamic_shifting=True),
        "image_encoder": None,
        "feature_extractor": None,
    }


def checkpoints(sdxl_depth: int = 10) -> dict[str, Checkpoint]:
    """List the models, each as published but for what its `cut` says."""
    whole = [
        Checkpoint(
            name="sd15",
            pipeline="StableDiffusionPipeline",
            parts=_sd15,
        ),
        Checkpoint(
            name="sdxl",
            pipeline="StableDiffusionXLPipeline",
            parts=lambda: _sdxl(sdxl_depth),
            cut="" if sdxl_depth == 10 else f"{sdxl_depth} of 10 blocks at its deepest levels",
        ),
        Checkpoint(
            name="sd3",
            pipeline="StableDiffusion3Pipeline",
            parts=lambda: _sd3(6),
            cut="6 of 24 blocks, 8 of 32 layers of CLIP-G, 1 of 24 of T5",
        ),
        Checkpoint(
            name="flux",
            pipeline="FluxPipeline",
            parts=lambda: _flux(2, 4),
            cut="2 of 19 double blocks, 4 of 38 single ones, 1 of 24 layers of T5",
        ),
    ]
    return {checkpoint.name: checkpoint for checkpoint in whole}
