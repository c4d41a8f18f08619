"""Run images with ControlNets step by step, in process or in ControlNet workers.

One random model and one ControlNet of it, which several conditions of an image share.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.parts.local_controlnets import LocalControlNets
from core.job import Control, JobRequest
from worker.control.server.load_network import load_network
from worker.control.server.model_cache import ModelCache
from worker.control.session import ControlNets
from worker.control.stale import Stale
from worker.diffusion.runner import ControlImages
from worker.families.diffusion_runner import DiffusionRunner
from worker.pipeline.sample import UNetSample

#: The ControlNet, and its folder.
NAME = "net"


class SteeredImages:
    """One base model, and whoever computes the ControlNets of the image at hand."""

    def __init__(
        self, runner: DiffusionRunner, folder: Path, *, steps: int, side: int, controlnets: int = 1
    ) -> None:
        """Take a model, and a ControlNet in a folder of this folder. Units: side in pixels."""
        self.runner = runner
        self.steps = steps
        self.network = load_network(folder / NAME, device="cpu", dtype="float32")
        self.here = LocalControlNets(ModelCache(lambda name: self.network, 2**32))
        self.runner.overlays.steer(self.here)
        self._side = side
        self._count = controlnets

    @property
    def brought(self) -> ControlImages:
        """Give the pictures that an image keeps to."""
        shape = (self._side, self._side, 3)
        picture = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        return ControlImages(images=(picture,) * self._count)

    def request(self, controlnet: str = NAME) -> JobRequest:
        """Ask for an image."""
        return JobRequest(
            prompt="a red circle and two blue squares",
            model=self.runner.model.name,
            width=self._side,
            height=self._side,
            steps=self.steps,
            guidance=5.0,
            seed=1,
            controls=(Control(controlnet=controlnet, image=""),) * self._count,
        )

    def ask(self, by: ControlNets, stale: Stale = Stale.NEVER) -> None:
        """Let others compute the ControlNets from now on."""
        steering = self.runner.overlays._steering
        assert steering is not None
        steering._controlnets, steering._stale = by, stale

    def open(self, by: ControlNets, stale: Stale = Stale.NEVER) -> UNetSample:
        """Begin an image, and return once all that it needs is there."""
        self.ask(by, stale)
        sample = self.runner.open(self.request(), 1, self.brought)
        while sample.waits_for() is not None:
            time.sleep(0.001)
        return sample

    def step_s(
        self, samples: Sequence[UNetSample], by: ControlNets, stale: Stale = Stale.NEVER
    ) -> float:
        """Advance the images of one batch by one step; say what that took."""
        self.ask(by, stale)
        begun = time.perf_counter()
        self.runner.advance(samples, self.runner.forward(samples))
        return time.perf_counter() - begun

    def whole_s(self, by: ControlNets, stale: Stale = Stale.NEVER) -> float:
        """Make one image from prompt to pixels; say what that took."""
        self.runner.prompts.clear()
        begun = time.perf_counter()
        sample = self.open(by, stale)
        for _ in range(self.steps):
            self.step_s([sample], by, stale)
        self.runner.decode(sample)
        taken = time.perf_counter() - begun
        sample.close()
        return taken

    def image_s(
        self, by: ControlNets, stale: Stale = Stale.NEVER, *, images: int = 1
    ) -> list[float]:
        """Make images, all in one batch; say what its steps took, the first left out."""
        samples = [self.open(by, stale) for _ in range(images)]
        taken = [self.step_s(samples, by, stale) for _ in range(self.steps)]
        for sample in samples:
            sample.close()
        return taken[1:]
