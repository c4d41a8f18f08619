"""Time the parts of a ControlNet step, in process and in ControlNet workers.

A random model of SDXL's kind and a ControlNet of it, which several conditions of an image share.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import diffusers
import torch
from PIL import Image

from bench.parts.local_controlnets import LocalSession
from bench.parts.random_sdxl import MEDIUM, Size, build
from bench.parts.steered_image import NAME, SteeredImages
from core.model import Model
from worker.control.client.remote import RemoteControlNets
from worker.control.client.remote_session import RemoteSession, StepTiming
from worker.control.server.network import ControlStep
from worker.diffusion.stock import Module
from worker.families.sdxl import SdxlRunner
from worker.pipeline.sample import UNetSample

SIDE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the parts of one step take."""

    encoder_s: float  #: with the middle: until the first block of the decoder
    decoder_s: float  #: and the sampler
    controlnets_s: Sequence[float]  #: each

    @property
    def one_by_one_s(self) -> float:
        """What a step takes on one core."""
        return self.encoder_s + sum(self.controlnets_s) + self.decoder_s

    @property
    def side_by_side_s(self) -> float:
        """What is left of it if nothing is lost (Katz §9.3, by Gustafson's law)."""
        return max(self.encoder_s, *self.controlnets_s) + self.decoder_s


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedStep:
    """One step, and its parts as they were in this very step."""

    step_s: float
    parts: Parts


class Steered(SteeredImages):
    """A random model of SDXL's kind, and a ControlNet of it."""

    def __init__(
        self, folder: Path, *, steps: int, controlnets: int = 1, size: Size = MEDIUM
    ) -> None:
        """Build the model, and a ControlNet in a folder of this folder."""
        model = Model(name="medium", family="sdxl", default_size=SIDE, max_size=SIDE)
        pipe = build(size, device="cpu", dtype=torch.float32)
        controlnet = random_controlnet(pipe.unet)
        controlnet.save_pretrained(folder / NAME)
        self._stock = diffusers.StableDiffusionXLControlNetPipeline(
            **pipe.components, controlnet=[controlnet] * controlnets
        )
        self._stock.set_progress_bar_config(disable=True)
        runner = SdxlRunner(model, pipe, device=torch.device("cpu"), dtype=torch.float32)
        super().__init__(runner, folder, steps=steps, side=SIDE, controlnets=controlnets)
        self._decodes_at = 0.0  #: when the decoder began last, perf_counter s
        runner.unet.up_blocks[0].register_forward_pre_hook(self._note)

    def stock_s(self) -> float:
        """Make the same image by the stock pipeline; say what that took."""
        request = self.request()
        pictures = [Image.fromarray(picture) for picture in self.brought.images]
        begun = time.perf_counter()
        self._stock(
            request.prompt,
            image=pictures,
            width=request.width,
            height=request.height,
            num_inference_steps=request.steps,
            guidance_scale=request.guidance,
            generator=torch.Generator().manual_seed(request.seed),
            output_type="np",
        )
        return time.perf_counter() - begun

    def beside(self, sample: UNetSample, by: RemoteControlNets) -> TimedStep:
        """Advance an image by one step, its ControlNets beside it."""
        begun = time.perf_counter()
        step_s = self.step_s([sample], by)
        encoder_s = self._decodes_at - begun
        last = [_last(sample, at) for at in range(self._count)]
        parts = Parts(
            encoder_s=encoder_s,
            decoder_s=step_s - encoder_s - sum(each.waited_s for each in last),
            controlnets_s=[each.held_s for each in last],
        )
        return TimedStep(step_s=step_s, parts=parts)

    def alone(self, sample: UNetSample, by: RemoteControlNets) -> Parts:
        """Advance an image by one step, all others idle while one part of it is computed."""
        controls, controlnets = sample.controls, []
        for at, steered in enumerate(controls):
            ask = steered.ask(sample.sampler, sample.latents)
            assert ask is not None
            by.ask([ask])
            by.answer(ask)
            controlnets.append(_last(sample, at).held_s)
        sample.controls = ()
        begun = time.perf_counter()
        step_s = self.step_s([sample], by)
        sample.controls = controls
        encoder_s = self._decodes_at - begun
        return Parts(encoder_s=encoder_s, decoder_s=step_s - encoder_s, controlnets_s=controlnets)

    def residual_bytes(self) -> int:
        """Count what one ControlNet sends back at a step."""
        sample = self.open(self.here)
        session = sample.controls[0].session
        assert isinstance(session, LocalSession)
        step = ControlStep(begun=session.begun, latents=sample.latents, time=500.0, scale=1.0)
        [residuals] = self.network.residuals([step])
        sample.close()
        return sum(each.numel() * each.element_size() for each in residuals)

    def _note(self, *_: object) -> None:
        self._decodes_at = time.perf_counter()


def random_controlnet(unet: Module, embedding: tuple[int, ...] = (16, 32)) -> Module:
    """Make a ControlNet that adds something from the begin on: stock starts with zeros.

    `embedding`: channels of the condition's, each half as wide as the one before.
    """
    controlnet: Module = diffusers.ControlNetModel.from_unet(
        unet, conditioning_embedding_out_channels=embedding
    )
    for name, weight in controlnet.named_parameters():
        if "controlnet_" in name and name.endswith("weight"):
            torch.nn.init.normal_(weight, std=0.02)
    return controlnet


def _last(sample: UNetSample, at: int) -> StepTiming:
    session = sample.controls[at].session
    assert isinstance(session, RemoteSession) and session.last is not None
    return session.last
