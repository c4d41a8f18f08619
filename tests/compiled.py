"""One model twice, as it is and compiled, and a backend that needs no compiler."""

import torch

from bench.parts.local_controlnets import LocalControlNets
from catalog.masking.config import MaskingConfig
from tests.control import some_conditions
from tests.jobs import a_request
from tests.loras import factors
from tests.stock import difference
from worker.control.server.model_cache import ModelCache
from worker.families.load import load
from worker.lora.changes import Product
from worker.lora.mix import PLAIN, Lora, Mix
from worker.masking.activations import Activations

STEPS = 3


class Graphs:
    """Counts graphs and their runs. What they have given can be overwritten, as by CUDA graphs."""

    def __init__(self):
        self.made = 0
        self.runs = 0
        self._given = []

    def __call__(self, graph, inputs):
        self.made += 1

        def run(*args):
            self.runs += 1
            given = graph(*args)
            self._given += given
            return given

        return run

    @torch.inference_mode()
    def overwrite(self):
        """Make nonsense of all that graphs have given, as the next step of CUDA graphs may."""
        for tensor in self._given:
            tensor.fill_(torch.nan)
        self._given.clear()


class Pair:
    """One model twice: as it is, and compiled for batches of four rows."""

    def __init__(self, folder, model, *, load_controlnet=None, device="cpu", **compiling):
        self.plain, self.compiled = (
            load(folder, model, device=device, dtype="float32") for _ in range(2)
        )
        self.compiled.compile(buckets=(4,), **compiling)
        for runner in (self.plain, self.compiled):
            runner.overlays.reuse(Activations(2**30), MaskingConfig())
            if load_controlnet is not None:
                runner.overlays.steer(LocalControlNets(ModelCache(load_controlnet, 2**30)))

    def difference(self, *asks, after_call=lambda: None):
        """Make the images of one batch by both; say how far they are apart at most."""
        expected = make(self.plain, asks)
        made = make(self.compiled, asks, after_call)
        return max(difference(*both) for both in zip(made, expected, strict=True))

    def a_mix(self, name, ends):
        """Draw a LoRA for the UNet's layers with these ends of their names."""
        return a_mix(self.plain, name, ends)


def a_mix(runner, name, ends):
    """Draw a LoRA for the layers of a runner's UNet with these ends of their names."""
    drawn = factors(runner.overlays.adapters.shapes, ends, parts=("unet",))
    products = {at: Product(down, up.flatten(1), 1.0) for at, (down, up) in drawn.items()}
    return Mix.of([(Lora(name, products), 1.0)])


def make(runner, asks, after_call=lambda: None):
    """Make the images of one batch. Shapes: each [H, W, 3]."""
    samples = [runner.begin(*ask) for ask in asks]
    for _ in range(STEPS):
        made = runner.forward(samples)
        after_call()
        runner.advance(samples, made)
    return [runner.image(sample).cpu() for sample in samples]


def an_image(seed=0, mix=PLAIN, **changes):
    """Ask for an image, with conditions for its ControlNets."""
    request = a_request(seed=seed, steps=STEPS, **changes)
    brought = some_conditions(len(request.controls), seed) if request.controls else None
    return request, seed, brought, mix
