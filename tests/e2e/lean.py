"""Environments of stacks without what a test does not ask for: it would take seconds to load."""

import os
from pathlib import Path

BEST = Path(__file__).parents[2] / "zoo" / "weights" / "shapes-xl"

#: No worker computes ControlNets then.
NO_CONTROLNETS = {"ATELIER_CONTROLNETS_DIR": os.devnull}


def one_model(folder: Path) -> dict[str, str]:
    """Serve the best model alone: which one makes an image then depends on no plan."""
    (folder / BEST.name).symlink_to(BEST)
    return {"ATELIER_MODELS_DIR": str(folder)}
