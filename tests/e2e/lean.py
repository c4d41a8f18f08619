"""Environments of stacks without what a test does not ask for: it would take seconds to load."""

import os
from pathlib import Path

from core.model import Model
from tests.rig import save_model

BEST = Path(__file__).parents[2] / "zoo" / "weights" / "shapes-xl"

#: No worker computes ControlNets then.
NO_CONTROLNETS = {"ATELIER_CONTROLNETS_DIR": os.devnull}


def paced_models(folder: Path, **load_s: float) -> dict[str, str]:
    """Serve models that sleep instead of computing: name -> seconds that each takes to load."""
    for name, seconds in load_s.items():
        save_model(folder, Model(name=name, family="paced", load_s=seconds, step_s=0.1))
    # What they make is like no prompt.
    return NO_CONTROLNETS | {"ATELIER_MODELS_DIR": str(folder), "ATELIER_SCORE_SHARE": "0"}


def one_model(folder: Path) -> dict[str, str]:
    """Serve the best model alone: which one makes an image then depends on no plan."""
    (folder / BEST.name).symlink_to(BEST)
    return {"ATELIER_MODELS_DIR": str(folder)}
