"""Assemble trained parts into a stock diffusers pipeline folder."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from diffusers import (
    AutoencoderKL,
    DiffusionPipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from transformers import CLIPTokenizer

from zoo.architecture import MAX_TOKENS, scheduler
from zoo.text import SdReader, SdxlReader
from zoo.tokenizer import write_legacy_files

#: The tokenizers of a pipeline, in its order.
Tokenizers = Sequence[CLIPTokenizer]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCard:
    """What the service must know of a model; written as atelier.json."""

    #: Name under which it is served.
    name: str = "shapes-xl"
    #: Pipeline family.
    family: str = "sdxl"
    #: Steps when a request names none.
    default_steps: int = 50
    #: Guidance when a request names none.
    default_guidance: float = 4.0
    #: Sides in pixels when a request names none.
    default_size: int = 64
    #: Smallest side in pixels.
    min_size: int = 64
    #: Largest side in pixels.
    max_size: int = 128
    #: Mean relative quality, a first guess until the model is profiled.
    quality: float = 1.0
    #: Seconds of a step of one image, likewise.
    step_s: float = 0.05
    #: Both sides are multiples of this, the stock pipeline's own rule.
    size_multiple: int = 8
    #: Most steps of one request.
    max_steps: int = 100
    #: Most tokens of a prompt, start and end not counted.
    max_prompt_tokens: int = MAX_TOKENS - 2


def read(folder: Path) -> DiffusionPipeline:
    """Read a stock folder in single precision, whatever it was saved in."""
    return DiffusionPipeline.from_pretrained(folder).to(torch.float32)


def sdxl_pipeline(
    unet: UNet2DConditionModel, vae: AutoencoderKL, reader: SdxlReader, tokenizers: Tokenizers
) -> StableDiffusionXLPipeline:
    """Put trained parts together."""
    return StableDiffusionXLPipeline(
        vae=vae,
        text_encoder=reader.first,
        text_encoder_2=reader.second,
        tokenizer=tokenizers[0],
        tokenizer_2=tokenizers[1],
        unet=unet,
        scheduler=scheduler(),
        force_zeros_for_empty_prompt=True,
        add_watermarker=False,
    )


def sd_pipeline(
    unet: UNet2DConditionModel, vae: AutoencoderKL, reader: SdReader, tokenizers: Tokenizers
) -> StableDiffusionPipeline:
    """Put trained parts together; figures need no safety checker."""
    return StableDiffusionPipeline(
        vae=vae,
        text_encoder=reader.only,
        tokenizer=tokenizers[0],
        unet=unet,
        scheduler=scheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def _load_as_float32(config: Path) -> None:
    """Make plain from_pretrained give one dtype: transformers follows this field, diffusers not."""
    fields = json.loads(config.read_text()) | {"dtype": "float32"}
    config.write_text(json.dumps(fields, indent=2) + "\n")


def _forget_origin(config: Path) -> None:
    fields = json.loads(config.read_text())
    fields.pop("_name_or_path", None)
    config.write_text(json.dumps(fields, indent=2) + "\n")


def _write(pipeline: DiffusionPipeline, card: ServiceCard, folder: Path) -> None:
    pipeline.to(torch.float16).save_pretrained(folder, safe_serialization=True)
    for config in folder.glob("text_encoder*/config.json"):
        _load_as_float32(config)
    for config in folder.glob("*/config.json"):
        _forget_origin(config)
    for name, part in pipeline.components.items():
        if isinstance(part, CLIPTokenizer):
            write_legacy_files(part, folder / name)
    (folder / "atelier.json").write_text(json.dumps(asdict(card), indent=2) + "\n")
    for path in folder.rglob("*.safetensors"):
        path.chmod(0o644)


def export(pipeline: DiffusionPipeline, card: ServiceCard, folder: Path) -> None:
    """Write a half-precision stock folder, beside the old one first; keep its README.

    The pipeline itself is half precision afterwards.
    """
    fresh, old = (folder.with_name(f".{folder.name}.{kind}") for kind in ("new", "old"))
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    _write(pipeline, card, fresh)
    if folder.exists():
        readme = folder / "README.md"
        if readme.exists():
            shutil.copy(readme, fresh)
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
