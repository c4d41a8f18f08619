"""Table of the model families that the engine can run, each imported on first use."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from core.variant import Model
from worker.diffusion.runner import AnyRunner


class RunnerClass(Protocol):
    """Class of a family's runner."""

    def load(
        self, folder: Path, model: Model, *, device: str, dtype: str, only_predicts: bool = False
    ) -> AnyRunner:
        """Load a model folder for one device, or what predicts in it alone."""
        ...


def _flux() -> RunnerClass:
    from worker.families.flux import FluxRunner

    return FluxRunner


def _noop() -> RunnerClass:
    from worker.families.noop import NoopRunner

    return NoopRunner


def _sd() -> RunnerClass:
    from worker.families.sd import SdRunner

    return SdRunner


def _sd3() -> RunnerClass:
    from worker.families.sd3 import Sd3Runner

    return Sd3Runner


def _sdxl() -> RunnerClass:
    from worker.families.sdxl import SdxlRunner

    return SdxlRunner


#: Family name -> what imports its runner; not every family needs torch, and none needs it twice.
RUNNERS: dict[str, Callable[[], RunnerClass]] = {
    "sdxl": _sdxl,
    "sd": _sd,
    "sd3": _sd3,
    "flux": _flux,
    "noop": _noop,
}
