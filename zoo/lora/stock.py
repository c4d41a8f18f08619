"""Load a LoRA file with stock diffusers, and check that every weight is in place."""

from pathlib import Path

import torch
from diffusers import StableDiffusionXLPipeline

from zoo.lora.files import LoraFileError, read
from zoo.lora.inject import scales, weights
from zoo.lora.styles import Style


def open_base(folder: Path) -> StableDiffusionXLPipeline:
    """Load the model that a LoRA is for, as any user of diffusers would."""
    pipeline = StableDiffusionXLPipeline.from_pretrained(folder, local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def load_checked(pipeline: StableDiffusionXLPipeline, path: Path, style: Style) -> int:
    """Load a file under the style's name, and count the layers it adapts.

    Raises: LoraFileError if a weight of the file is not in its place, or the scale is wrong.
    """
    pipeline.load_lora_weights(
        path.parent, weight_name=path.name, adapter_name=style.name, local_files_only=True
    )
    loaded = weights(pipeline, style.name)
    stored = read(path, loaded, pipeline.unet.config.layers_per_block)
    changed = [name for name, weight in stored.items() if not torch.equal(weight, loaded[name])]
    if changed:
        raise LoraFileError(
            f"{path}: {len(changed)} weights changed on loading, {changed[0]} first"
        )
    if scales(pipeline, style.name) != {style.alpha / style.rank}:
        raise LoraFileError(f"{path}: loaded with another scale than alpha / rank")
    return len(stored) // 2
