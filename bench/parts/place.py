"""Where a bench of a GPU runs and at which size: it builds the model, and times calls there."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from bench.parts.random_sdxl import SIZES, build
from core.model import Model
from worker.diffusion.device import DTYPES, order_channels
from worker.families.sdxl import SdxlRunner

#: How much of the time given is used up before no further round begins.
FULL = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A device, a size of models and pictures, and when to begin nothing more."""

    device: torch.device
    size: str
    dtype: torch.dtype
    pixels: int
    steps: int
    backend: str  #: of the compiler
    ends_at: float = math.inf  #: on the monotonic clock

    @classmethod
    def of(cls, *, is_dry: bool, seconds: float) -> "Place":
        """A GPU with a model of SDXL's size, or a CPU with a tiny one and a round of each."""
        return cls(
            device=torch.device("cpu" if is_dry else "cuda"),
            size="least" if is_dry else "sdxl",
            dtype=DTYPES["float32" if is_dry else "bfloat16"],
            pixels=32 if is_dry else 1024,
            steps=3 if is_dry else 20,
            backend="eager" if is_dry else "inductor",
            ends_at=time.monotonic() + (0 if is_dry else FULL * seconds),
        )

    def __str__(self) -> str:
        is_cuda = self.device.type == "cuda"
        name = torch.cuda.get_device_name(self.device) if is_cuda else "CPU: a dry run"
        return f"{name}, {self.size}, {self.pixels} px, {self.steps} steps"

    def runner(self) -> SdxlRunner:
        """Build the model anew, its weights ordered as workers order them."""
        pipe = build(SIZES[self.size], device=str(self.device), dtype=self.dtype)
        order_channels(self.device, pipe.unet, pipe.vae)
        model = Model(
            name="random",
            family="sdxl",
            default_guidance=5.0,
            default_size=self.pixels,
            max_size=self.pixels,
        )
        return SdxlRunner(model, pipe, device=self.device, dtype=self.dtype)

    def seconds_of(self, call: Callable[[], object]) -> float:
        """Time a call, with the device idle before and after."""
        self._settle()
        begun = time.perf_counter()
        call()
        self._settle()
        return time.perf_counter() - begun

    def rounds(self, most: int) -> Iterator[int]:
        """Count rounds: one, and more while the next ends in time if it takes as long."""
        longest_s = 0.0
        for at in range(most):
            begun = time.monotonic()
            if at and begun + longest_s > self.ends_at:
                return
            yield at
            longest_s = max(longest_s, time.monotonic() - begun)

    def _settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
