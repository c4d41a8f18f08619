"""Export a trained scorer as a stock transformers folder."""

import json
from pathlib import Path

import torch
from transformers import CLIPModel, CLIPTokenizer

from zoo.scorer.architecture import image_processor
from zoo.tokenizer import write_legacy_files


def export(clip: CLIPModel, tokenizer: CLIPTokenizer, folder: Path) -> None:
    """Write the folder in half precision, to be loaded in single; a README there stays.

    The model itself is half precision afterwards.
    """
    folder.mkdir(parents=True, exist_ok=True)
    clip.to(torch.float16).save_pretrained(folder, safe_serialization=True)
    image_processor().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_legacy_files(tokenizer, folder)
    _load_as_float32(folder / "config.json")
    (folder / "model.safetensors").chmod(0o644)


def _load_as_float32(config: Path) -> None:
    """Say so in every part: transformers 5 follows this field."""
    fields = json.loads(config.read_text()) | {"dtype": "float32"}
    for part in ("text_config", "vision_config"):
        fields[part]["dtype"] = "float32"
    config.write_text(json.dumps(fields, indent=2) + "\n")
