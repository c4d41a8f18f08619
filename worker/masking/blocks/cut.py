"""Record of how one class of blocks computes some tokens of some rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from worker.diffusion.stock import Argument, Module


def _any(block: Module) -> bool:
    del block
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How blocks of one class run under masks."""

    #: Runs a block for some masked rows; gives its answer, and the image tokens in it.
    run: Callable[..., tuple[Argument, Tensor]]
    has_keys: bool = True  #: whether keys and values of a template can stand for its outputs
    fits: Callable[[Module], bool] = _any  #: tells which blocks of the class are as it expects


#: Name of a class of diffusers, as importing Flux's takes a second -> how its blocks are cut.
Cuts = Mapping[str, Cut]
