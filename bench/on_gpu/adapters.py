"""Time one image with a LoRA and with a ControlNet, by stock diffusers and by the engine."""

import tempfile
from pathlib import Path

from bench import gpu_adapters
from bench.gpu_adapters import Case
from bench.on_gpu.part import Part, Tell
from bench.parts.place import Place

CASES = (Case(), Case(loras=1), Case(controls=1))
ROUNDS = 4  #: the first warms up


def measure(part: Part, tell: Tell, is_dry: bool, seconds: float) -> None:
    """Time images with adapters."""
    del part
    place = Place.of(is_dry=is_dry, seconds=seconds)
    # The first round is not told, so a second one follows whatever it took.
    rounds = (at for first in (range(1), place.rounds(ROUNDS)) for at in first)
    rounds = (number for number, _ in enumerate(rounds))
    with tempfile.TemporaryDirectory() as folder:
        for found in gpu_adapters.measure(Path(folder), place, CASES, rounds, is_compiled=False):
            for name, figure in found.items():
                tell(name, figure)
