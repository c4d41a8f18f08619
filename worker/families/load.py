"""Load a model folder into a runner that the engine can attach."""

from pathlib import Path

from core.errors import BadWeights, OutOfMemory
from core.variant import Model
from worker.diffusion.device import parse_device
from worker.diffusion.imports import bring
from worker.diffusion.runner import AnyRunner, is_out_of_memory
from worker.families import FAMILIES


def load(
    folder: Path, model: Model, *, device: str, dtype: str, only_predicts: bool = False
) -> AnyRunner:
    """Load a model for one device. May run in any thread, beside a running engine.

    `only_predicts`: without what an image needs before its first step and after its last.

    Raises: BadWeights naming the file and the reason; OutOfMemory if it does not fit;
    ConfigurationError if there is no such device or precision.
    """
    target = FAMILIES.get(model.family)
    if target is None:
        known = ", ".join(sorted(FAMILIES))
        raise BadWeights(f"{folder.name}: family {model.family!r} is unknown; known: {known}")
    module, _, name = target.partition(":")
    family = getattr(bring(module), name)
    options = {"only_predicts": True} if only_predicts else {}  # families without parts have all
    dtype = model.dtype or dtype
    try:
        runner: AnyRunner = family.load(folder, model, device=device, dtype=dtype, **options)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(f"{folder.name} does not fit on {device}") from error
    # A CPU would need a C++ compiler for it, and minutes of its cores.
    if model.is_compiled and hasattr(runner, "compile") and parse_device(device).type != "cpu":
        runner.compile()
    return runner
