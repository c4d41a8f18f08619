"""Compare streamed ControlNet residuals with all at once, for an SD3 transformer."""

from collections.abc import Sequence
from pathlib import Path

import torch
from diffusers.models import SD3ControlNetModel

from bench.parts.random_sd3 import build_pipeline, transformer_inputs
from bench.parts.steered_image import NAME, SteeredImages
from core.job import JobRequest
from core.model import Model
from worker.control.client.remote import RemoteControlNets
from worker.control.client.remote_session import RemoteSession
from worker.control.session import ControlNets, Opening, StepQuery
from worker.control.streamed import Streamed
from worker.diffusion.stock import Module
from worker.families.sd3 import Sd3Runner
from worker.pipeline.sample import Conditioning

SIDE = 64
#: Blocks of the ControlNet: half of the transformer's, as diffusers makes one.
BLOCKS = 3


class AtOnce:
    """Gives residuals once all of a step are there."""

    def __init__(self, by: RemoteControlNets) -> None:
        self._by = by

    def open(self, opening: Opening) -> RemoteSession:
        return self._by.open(opening)

    def ask(self, asks: Sequence[StepQuery]) -> None:
        self._by.ask(asks)

    def answer(self, ask: StepQuery) -> Streamed:
        whole = list(self._by.answer(ask))
        return Streamed(len(whole), whole.__getitem__)


class _Runner(Sd3Runner):
    """A model without text encoders: a caption is as good as any other."""

    def condition(self, request: JobRequest, is_guided: bool) -> Conditioning:
        inputs = transformer_inputs(self.unet)
        text, pooled = inputs["encoder_hidden_states"], inputs["pooled_projections"]
        return Conditioning(text=text, added={"pooled_projections": pooled})


class SteeredJoint(SteeredImages):
    """A random model of SD3's kind, and a ControlNet of it."""

    def __init__(self, folder: Path, *, steps: int) -> None:
        """Build the model, and a ControlNet in a folder of this folder."""
        model = Model(name="joint", family="sd3", default_size=SIDE, max_size=SIDE)
        pipe = build_pipeline()
        random_controlnet(pipe.transformer).save_pretrained(folder / NAME)
        runner = _Runner(model, pipe, device=torch.device("cpu"), dtype=torch.float32)
        super().__init__(runner, folder, steps=steps, side=SIDE)

    def in_turn(self, ways: Sequence[ControlNets], images: int) -> list[list[float]]:
        """Make images in all ways, a step of each in turn; say what the steps of each took."""
        taken: list[list[float]] = [[] for _ in ways]
        for _ in range(images):
            samples = [self.open(by) for by in ways]
            for step in range(self.steps):
                for own, sample, by in zip(taken, samples, ways, strict=True):
                    step_s = self.step_s([sample], by)
                    if step > 0:
                        own.append(step_s)
            for sample in samples:
                sample.close()
        return taken


def random_controlnet(transformer: Module) -> Module:
    """Make a ControlNet that adds something from the begin on: stock starts with zeros."""
    controlnet: Module = SD3ControlNetModel.from_transformer(
        transformer, num_layers=BLOCKS, num_extra_conditioning_channels=0
    )
    for name, weight in controlnet.named_parameters():
        if name.startswith("controlnet_blocks") and name.endswith("weight"):
            torch.nn.init.normal_(weight, std=0.02)
    return controlnet
