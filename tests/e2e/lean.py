"""Environments of stacks without what a test does not ask for: it would take seconds to load."""

import json
import os
from pathlib import Path

from catalog.models import FILE
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
    """Serve the best model alone: which one makes an image then depends on no plan.

    Who asks for no number of steps gets few; who asks for very many has a job that no machine ends
    before it is canceled.
    """
    own = folder / BEST.name
    own.mkdir()
    for part in BEST.iterdir():
        if part.name != FILE:
            (own / part.name).symlink_to(part)
    steps = {"default_steps": 10, "max_steps": 1000}
    (own / FILE).write_text(json.dumps(json.loads((BEST / FILE).read_text()) | steps))
    return {"ATELIER_MODELS_DIR": str(folder)}
