"""A process that loads a model, makes an image and lets go of it; it prints what it held (MiB).

python -m tests.model_memory WARM-UP-FOLDER FOLDER DTYPE
"""

import gc
import json
import sys
import weakref
from pathlib import Path

from torch import nn

from catalog.masking.config import MaskingConfig
from core.model import Model
from tests.footprint import Memory
from tests.jobs import a_job
from tests.stock import engine_images
from worker.families.load import load
from worker.masking.activations import Activations


def main(warm_up, folder, dtype):
    live(warm_up, dtype)  # whatever a process does once, it has done then
    gc.disable()  # what closing leaves to others, stays
    memory = Memory()
    sys.stdout.write(json.dumps(live(folder, dtype, memory)) + "\n")


def live(folder, dtype, memory=None):
    memory = memory or Memory()
    model = Model(**json.loads((Path(folder) / "atelier.json").read_text()))
    runner = load(Path(folder), model, device="cpu", dtype=dtype)
    found = {"loading_peak": memory.peak}
    weights = parameters_of(runner.pipe)
    found["weights"] = sum(w.numel() * w.element_size() for w in weights) / 2**20
    runner.overlays.reuse(Activations(2**20), MaskingConfig())  # hooks into its blocks
    engine_images(runner, [(0, a_job(model=model.name, steps=1, width=16, height=16))])
    found["with_it"] = memory.held
    alive = [weakref.ref(weight) for weight in weights]
    del weights
    runner.close()
    found["without_it"] = memory.held
    found["alive"] = sum(weight() is not None for weight in alive)
    return found


def parameters_of(pipe):
    modules = [part for part in pipe.components.values() if isinstance(part, nn.Module)]
    return [weight for module in modules for weight in module.parameters()]


if __name__ == "__main__":
    main(*sys.argv[1:])
