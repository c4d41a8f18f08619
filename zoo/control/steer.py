"""Generate pictures under ControlNet conditions with the stock pipeline."""

from collections.abc import Sequence
from pathlib import Path

from diffusers import ControlNetModel, StableDiffusionXLControlNetPipeline
from PIL import Image

from zoo.control.condition import Kind, view
from zoo.evaluate import Settings, in_batches
from zoo.scenes import Picture, Scene


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

    def inputs(rows: range) -> dict[str, object]:
        return {
            "prompt": [scenes[row].caption for row in rows],
            "image": [Image.fromarray(view(kind, scenes[row])) for row in rows],
            "controlnet_conditioning_scale": scale,
        }

    return in_batches(pipeline, len(scenes), settings, inputs)
