"""Make one edit under a ControlNet: by the stock pipeline, and by ours with the template known.

A random model with attention at every token of its latents, and a ControlNet of it.
"""

import time
from dataclasses import replace
from pathlib import Path

import diffusers
import numpy as np
import torch
from PIL import Image

from bench.edit import SEED, Subject
from bench.parts.steered import random_controlnet
from core.job import Control, JobRequest, Quality
from worker.control.session import ControlNets
from worker.diffusion.runner import EditInputs, Pixels
from worker.diffusion.stock import Module, Pipe

#: The ControlNet, and its folder.
NAME = "net"


def inpaint_pipeline(pipe: Pipe, controlnet: Module) -> Pipe:
    """Build the stock ControlNet-inpaint pipeline over the same parts."""
    parts = dict(pipe.components)
    parts["scheduler"] = type(pipe.scheduler).from_config(pipe.scheduler.config)
    stock = diffusers.StableDiffusionXLControlNetInpaintPipeline(**parts, controlnet=controlnet)
    stock.set_progress_bar_config(disable=True)
    return stock


def make_stock(stock: Pipe, request: JobRequest, inputs: EditInputs) -> Pixels:
    """Make an edit as a client of diffusers would. Shapes: [H, W, 3] in [0, 1]."""
    [control], [condition] = request.controls, inputs.conditions
    image: Pixels = stock(
        request.prompt,
        image=Image.fromarray(inputs.template),
        mask_image=Image.fromarray(inputs.mask),
        control_image=Image.fromarray(condition),
        strength=inputs.strength,
        width=request.width,
        height=request.height,
        num_inference_steps=request.steps,
        guidance_scale=request.guidance,
        controlnet_conditioning_scale=control.scale,
        generator=torch.Generator().manual_seed(request.seed),
        output_type="np",
    ).images[0]
    return image


class SteeredEdits:
    """One model, one template that was edited before without a ControlNet, and edits with one."""

    def __init__(self, folder: Path, steps: int) -> None:
        """Record the template, and save the ControlNet in a folder of this folder."""
        self._subject = Subject(steps)
        runner = self._subject.runner
        controlnet = random_controlnet(runner.unet)
        controlnet.save_pretrained(folder / NAME)
        self._stock = inpaint_pipeline(runner.pipe, controlnet.eval())

    def steer(self, by: ControlNets) -> None:
        """Have these compute the ControlNet from now on."""
        self._subject.runner.overlays.steer(by)

    def stock_s(self, ratio: float) -> float:
        """Make an edit by the stock pipeline; say what that took."""
        begun = time.perf_counter()
        make_stock(self._stock, self._request(Quality.EXACT), self._inputs(ratio))
        return time.perf_counter() - begun

    def ours_s(self, ratio: float, quality: Quality = Quality.AUTO) -> float:
        """Make the same edit from its prompt to its pixels; say what that took."""
        runner = self._subject.runner
        runner.prompts.clear()
        begun = time.perf_counter()
        sample = runner.open(self._request(quality), SEED, self._inputs(ratio))
        while sample.waits_for() is not None:
            time.sleep(0.001)
        self._subject.run(sample)
        taken = time.perf_counter() - begun
        sample.close()
        return taken

    def _request(self, quality: Quality) -> JobRequest:
        controls = (Control(controlnet=NAME, image=""),)
        return replace(self._subject.request(quality), controls=controls)

    def _inputs(self, ratio: float) -> EditInputs:
        inputs = self._subject.inputs(ratio)
        shape = inputs.template.shape
        picture = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
        return replace(inputs, conditions=(picture,))
