"""How alike do images stay that start without their LoRA? Some are made with it and without."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from core.errors import ConfigurationError
from core.job import JobRequest
from core.settings import Settings
from storage.models import FILE, read_model
from worker.families.unet import UNetRunner
from worker.lora.bound import likeness
from worker.lora.mix import Lora, Mix
from worker.lora.parse import parse
from worker.pipeline import load
from zoo.prompts.sets import Split, prompt_set


def curves(folder: Path, file: Path, settings: Settings, count: int) -> Iterator[Tensor]:
    """Compare `count` images of a model, step by step. Shapes: each [steps], cosines.

    Raises: ConfigurationError, BadWeights, LoraRefused.
    """
    torch.set_num_threads(settings.torch_threads)
    model = read_model(folder / FILE)
    runner = load(folder, model, device=settings.device, dtype=settings.dtype)
    if not isinstance(runner, UNetRunner):
        raise ConfigurationError(f"{model.name} takes no LoRAs")
    data = bytearray(file.read_bytes())
    pairs = parse(data, runner.overlays.adapters.shapes)
    lora = Lora.of(file.stem, torch.frombuffer(data, dtype=torch.uint8), pairs)
    for seed, prompt in enumerate(islice(prompt_set(Split.VALIDATION), count)):
        request = JobRequest(
            prompt=prompt.caption,
            model=model.name,
            width=model.default_size,
            height=model.default_size,
            steps=model.default_steps,
            guidance=model.default_guidance,
            seed=seed,
        )
        yield likeness(runner, request, Mix.of([(lora, 1.0)]))
