"""How do trained parts become a folder that stock diffusers loads?"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from diffusers import AutoencoderKL, StableDiffusionXLPipeline, UNet2DConditionModel
from transformers import CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

from zoo.architecture import MAX_TOKENS, scheduler
from zoo.tokenizer import write_legacy_files

_TEXT_ENCODERS = ("text_encoder", "text_encoder_2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The trained parts of a model, single precision."""

    unet: UNet2DConditionModel
    text_encoder: CLIPTextModel
    text_encoder_2: CLIPTextModelWithProjection
    vae: AutoencoderKL
    tokenizer: CLIPTokenizer
    tokenizer_2: CLIPTokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCard:
    """What the service must know of a model; written as atelier.json."""

    #: Name under which it is served.
    name: str = "shapes-xl"
    #: Pipeline family.
    family: str = "sdxl"
    #: Steps when a request names none.
    default_steps: int = 30
    #: Guidance when a request names none.
    default_guidance: float = 4.0
    #: Smallest side in pixels.
    min_size: int = 64
    #: Largest side in pixels.
    max_size: int = 128
    #: Both sides are multiples of this, the stock pipeline's own rule.
    size_multiple: int = 8
    #: Most steps of one request.
    max_steps: int = 100
    #: Most tokens of a prompt, start and end not counted.
    max_prompt_tokens: int = MAX_TOKENS - 2


def read_parts(folder: Path) -> Parts:
    """Read a stock folder in single precision, whatever it was saved in."""
    full = torch.float32
    return Parts(
        unet=UNet2DConditionModel.from_pretrained(folder / "unet", torch_dtype=full),
        text_encoder=CLIPTextModel.from_pretrained(folder / "text_encoder", dtype=full),
        text_encoder_2=CLIPTextModelWithProjection.from_pretrained(
            folder / "text_encoder_2", dtype=full
        ),
        vae=AutoencoderKL.from_pretrained(folder / "vae", torch_dtype=full),
        tokenizer=CLIPTokenizer.from_pretrained(folder / "tokenizer"),
        tokenizer_2=CLIPTokenizer.from_pretrained(folder / "tokenizer_2"),
    )


def pipeline(parts: Parts) -> StableDiffusionXLPipeline:
    """Put the parts together as the stock pipeline does."""
    return StableDiffusionXLPipeline(
        vae=parts.vae,
        text_encoder=parts.text_encoder,
        text_encoder_2=parts.text_encoder_2,
        tokenizer=parts.tokenizer,
        tokenizer_2=parts.tokenizer_2,
        unet=parts.unet,
        scheduler=scheduler(),
        force_zeros_for_empty_prompt=True,
        add_watermarker=False,
    )


def _load_as_float32(config: Path) -> None:
    """Make plain from_pretrained give one dtype: transformers follows this field, diffusers not."""
    fields = json.loads(config.read_text()) | {"dtype": "float32"}
    config.write_text(json.dumps(fields, indent=2) + "\n")


def _forget_origin(config: Path) -> None:
    fields = json.loads(config.read_text())
    fields.pop("_name_or_path", None)
    config.write_text(json.dumps(fields, indent=2) + "\n")


def _write(parts: Parts, card: ServiceCard, folder: Path) -> None:
    pipeline(parts).to(torch.float16).save_pretrained(folder, safe_serialization=True)
    for name in _TEXT_ENCODERS:
        _load_as_float32(folder / name / "config.json")
    for config in folder.glob("*/config.json"):
        _forget_origin(config)
    write_legacy_files(parts.tokenizer, folder / "tokenizer")
    write_legacy_files(parts.tokenizer_2, folder / "tokenizer_2")
    (folder / "atelier.json").write_text(json.dumps(asdict(card), indent=2) + "\n")
    for path in folder.rglob("*.safetensors"):
        path.chmod(0o644)


def export(parts: Parts, card: ServiceCard, folder: Path) -> None:
    """Write a half-precision stock folder, beside the old one first; keep its README.

    The parts themselves are half precision afterwards.
    """
    fresh, old = (folder.with_name(f".{folder.name}.{kind}") for kind in ("new", "old"))
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    _write(parts, card, fresh)
    if folder.exists():
        readme = folder / "README.md"
        if readme.exists():
            shutil.copy(readme, fresh)
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
