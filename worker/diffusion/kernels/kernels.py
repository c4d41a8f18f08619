"""The kernels of a device: built once, by Triton, where there is what that needs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from subprocess import SubprocessError
from typing import ParamSpec, Protocol, TypeVar

import torch
from torch import Tensor

from core.log import get_logger
from worker.diffusion.stock import first_line

log = get_logger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


class ScaledSum(Protocol):
    """Writes a sum of which one part is int8, with a scale for each token."""

    def __call__(
        self, base: Tensor | None, values: Tensor, scales: Tensor, into: Tensor, sign: float = 1.0
    ) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Kernels:
    """What takes the place of several passes of torch."""

    #: Norms features, by groups, weight, bias and what is added to a variance.
    group_norm: Callable[[Tensor, int, Tensor, Tensor, float], Tensor]
    gated: Callable[[Tensor], Tensor]  #: gives a half of the channels, by GELU of the other
    scaled_sum: ScaledSum


@cache
def kernels_of(device: torch.device) -> Kernels | None:
    """Build them, and try each once; None on a CPU, or where it fails, as without a C compiler."""
    if device.type != "cuda":
        return None
    try:
        from triton.errors import TritonError

        from worker.diffusion.kernels.geglu import gated
        from worker.diffusion.kernels.group_norm import group_norm
        from worker.diffusion.kernels.scaled_sum import scaled_sum
    except ImportError as error:
        _log_failure(device, error)
        return None
    found = Kernels(
        group_norm=on_device(device, group_norm),
        gated=on_device(device, gated),
        scaled_sum=on_device(device, scaled_sum),
    )
    ones = torch.ones(2, 2, device=device)
    try:
        found.group_norm(ones, 1, ones[0], ones[1], 1e-5)
        found.gated(ones)
        found.scaled_sum(ones, ones.to(torch.int8), ones[:, :1].contiguous(), ones)
    except (OSError, RuntimeError, SubprocessError, TritonError) as error:
        _log_failure(device, error)
        return None
    return found


def _log_failure(device: torch.device, error: Exception) -> None:
    log.warning("kernels_not_built", device=str(device), reason=first_line(error))


def on_device(device: torch.device, kernel: Callable[P, R]) -> Callable[P, R]:
    """Launch a kernel where its tensors are: Triton launches where the process is at."""

    def launch(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch.cuda.device(device):
            return kernel(*args, **kwargs)

    return launch


def captured_kernels(device: torch.device) -> Kernels | None:
    """Give them while work is captured: a host takes longer to launch one than torch's own."""
    if device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
        return None
    return kernels_of(device)
