"""How is a picture made under a condition? With the stock pipeline."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from diffusers import ControlNetModel, StableDiffusionXLControlNetPipeline
from PIL import Image

from zoo.control.condition import Kind, view
from zoo.evaluate import Settings
from zoo.scenes import Picture, Scene

_BATCH = 32


def load(base: Path, controlnet: Path) -> StableDiffusionXLControlNetPipeline:
    """Load stock folders as any user of diffusers would."""
    pipeline = StableDiffusionXLControlNetPipeline.from_pretrained(
        base, controlnet=ControlNetModel.from_pretrained(controlnet), add_watermarker=False
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def steer(
    pipeline: StableDiffusionXLControlNetPipeline,
    kind: Kind,
    scenes: Sequence[Scene],
    settings: Settings,
    scale: float,
) -> list[Picture]:
    """Make a picture of each scene from its caption and its condition; each has its own seed."""
    pictures: list[Picture] = []
    for start in range(0, len(scenes), _BATCH):
        batch = scenes[start : start + _BATCH]
        seeds = range(settings.seed + start, settings.seed + start + len(batch))
        images = pipeline(
            [scene.caption for scene in batch],
            image=[Image.fromarray(view(kind, scene)) for scene in batch],
            controlnet_conditioning_scale=scale,
            num_inference_steps=settings.steps,
            guidance_scale=settings.guidance,
            generator=[torch.Generator().manual_seed(seed) for seed in seeds],
            output_type="np",
        ).images
        pictures.extend((images * 255).round().astype(np.uint8))
    return pictures
