"""Time one image and eight in flight, by stock diffusers and by the engine, compiled or not.

Stock compiles its UNet as one graph, the engine block by block. Batches of eight by a compiled
stock pipeline are left out: another graph of all blocks takes minutes to make.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

import torch

from bench.on_gpu.part import Part, Tell
from bench.on_gpu.timings import Timings
from bench.parts.place import Place
from bench.parts.report import Figure, plain
from bench.parts.subject import a_job, make_by_steps, make_stock, stepped, stock_pipeline
from core.job import Job
from worker.diffusion.stock import Module, Pipe
from worker.families.sdxl import SdxlRunner

MANY = 8
WARM_STEPS = 2
ROUNDS = 3


class Makers:
    """One model, made by either; prompts and seeds are new every time."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.runner: SdxlRunner = place.runner()
        self.stock: Pipe = stock_pipeline(self.runner)
        self._numbers = count()

    def jobs(self, images: int, steps: int | None = None) -> list[Job]:
        """New jobs."""
        model, steps = self.runner.model, steps or self.place.steps
        return [a_job(model, next(self._numbers), steps=steps) for _ in range(images)]

    def make_stock(self, images: int, steps: int | None = None) -> None:
        """Make a batch the stock way."""
        make_stock(self.stock, *(job.request for job in self.jobs(images, steps)))

    def compile(self) -> None:
        """Compile both; graphs are made at the first use of each size of batch."""
        backend = self.place.backend
        self.runner.compile((2, 2 * MANY), backend=backend)
        unet: Module = torch.compile(self.stock.unet, dynamic=False, backend=backend)
        self.stock.unet = unet


def measure(part: Part, tell: Tell, is_dry: bool, seconds: float) -> None:
    """Time images, one and many at a time, as they are or compiled."""
    place = Place.of(is_dry=is_dry, seconds=seconds)
    makers, times = Makers(place), Timings(place, tell)
    if part.compiles:
        makers.compile()
    batches = (1,) if part.compiles else (1, MANY)
    with stepped(makers.runner, slots=MANY) as engine:

        def ours(images: int, steps: int | None = None) -> None:
            make_by_steps(engine, makers.jobs(images, steps))

        def round_of_ours() -> None:
            times.take("one image, engine", partial(ours, 1))
            times.take("eight in flight, engine", partial(ours, MANY), images=MANY)

        def warm(make: Callable[[int, int], None], sizes: Sequence[int]) -> Figure:
            spent_s = [place.seconds_of(partial(make, size, WARM_STEPS)) for size in sizes]
            return plain(sum(spent_s), "s")

        tell("first images, engine", warm(ours, (1, MANY)))
        round_of_ours()  # now: stock's graph may not be made in time
        tell("first images, stock", warm(makers.make_stock, batches))
        for _ in place.rounds(ROUNDS):
            times.take("one image, stock", partial(makers.make_stock, 1))
            if MANY in batches:
                times.take("batch of eight, stock", partial(makers.make_stock, MANY), images=MANY)
            round_of_ours()
