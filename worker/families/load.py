"""Load a model folder into a runner that the engine can attach."""

from pathlib import Path

from core.errors import BadWeights, OutOfMemory
from core.model import Model
from worker.diffusion.imports import first_imports
from worker.diffusion.runner import AnyRunner, is_out_of_memory
from worker.families import RUNNERS


def load(
    folder: Path,
    model: Model,
    *,
    device: str,
    dtype: str,
    only_predicts: bool = False,
    offloads: bool = False,
) -> AnyRunner:
    """Load a model for one device. May run in any thread, beside a running engine.

    `only_predicts`: without what an image needs before its first step and after its last;
    `offloads`: text encoders stay on the host, of a family that has some.

    Raises: BadWeights naming the file and the reason; OutOfMemory if it does not fit;
    ConfigurationError if there is no such device or precision.
    """
    import_runner = RUNNERS.get(model.family)
    if import_runner is None:
        known = ", ".join(sorted(RUNNERS))
        raise BadWeights(f"{folder.name}: family {model.family!r} is unknown; known: {known}")
    with first_imports():
        family = import_runner()
    dtype = model.dtype or dtype
    try:
        runner = family.load(
            folder,
            model,
            device=device,
            dtype=dtype,
            only_predicts=only_predicts,
            **({"offloads": True} if offloads else {}),
        )
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(f"{folder.name} does not fit on {device}") from error
    if model.is_compiled and hasattr(runner, "compile"):
        from worker.diffusion.device import parse_device  # of torch, which not every family needs

        # A CPU would need a C++ compiler for it, and minutes of its cores.
        if parse_device(device).type != "cpu":
            runner.compile()
    return runner
