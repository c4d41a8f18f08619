"""One model after another in a process of its own, and what that process holds (`python -m`).

    python -m bench.parts.real_size_life PIXELS FOLDER:DTYPE FOLDER:DTYPE

The last line is JSON: a `Life` for each folder.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from catalog.adding import add_folder, remove
from core.job import JobRequest
from tests.footprint import Memory
from worker.diffusion.runner import AnyRunner
from worker.diffusion.stock import Pipe
from worker.families.load import load

STEPS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A model from its folder to its end. Units: seconds, MiB."""

    name: str
    weights: float  #: in the precision that it runs in
    add_s: float  #: to read what it is from its folder
    load_s: float
    image_s: float  #: of its steps, and what is before and after
    load_peak: float  #: held while it was loaded that was not held before, at most
    peak: float  #: of the process, with all that it holds beside the model
    left: float  #: held afterwards that was not held before


def live(folder: Path, dtype: str, pixels: int) -> Life:
    """Add, load, make an image of two steps, let go."""
    memory = Memory()
    began = time.perf_counter()
    models = folder.parent / "added"
    model = add_folder(folder, models).model
    added = time.perf_counter()
    runner = load(models / model.name, model, device="cpu", dtype=dtype)
    loaded, load_peak = time.perf_counter(), memory.peak
    make_image(runner, pixels)
    made = time.perf_counter()
    weights = size_mib(getattr(runner, "pipe"))  # noqa: B009 - not of every runner
    runner.close()
    remove(models, model.name)
    return Life(
        name=model.name,
        weights=weights,
        add_s=added - began,
        load_s=loaded - added,
        image_s=made - loaded,
        load_peak=load_peak,
        peak=memory.before + memory.peak,
        left=memory.held,
    )


def make_image(runner: AnyRunner, pixels: int) -> None:
    """Make one image of two steps, square as the models' own are."""
    request = JobRequest(
        prompt="a red cube beside a blue ball",
        model=runner.model.name,
        width=pixels,
        height=pixels,
        steps=STEPS,
        guidance=runner.model.default_guidance,
        seed=0,
    )
    sample = runner.open(request, 0)
    for _ in range(STEPS):
        runner.advance([sample], runner.forward([sample]))
    runner.decode(sample)


def size_mib(pipe: Pipe) -> float:
    """Add up the weights of all parts of a pipeline."""
    parts = pipe.components.values()
    weights = [w for part in parts if hasattr(part, "parameters") for w in part.parameters()]
    return float(sum(weight.nbytes for weight in weights) / 2**20)


def main(pixels: str, *models: str) -> None:
    """Have models live one after the other."""
    lives = []
    for each in models:
        folder, _, dtype = each.rpartition(":")
        lives.append(asdict(live(Path(folder), dtype, int(pixels))))
    sys.stdout.write(json.dumps(lives) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
