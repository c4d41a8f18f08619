"""Find the runners of the model families, each in the file with its family's name.

A file is imported on first use: not every family needs torch, and none needs it twice.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Protocol, cast

from core.family import FAMILIES
from core.model import Model
from worker.diffusion.runner import AnyRunner


class RunnerClass(Protocol):
    """Class of a family's runner."""

    family: str  #: its name in `core.family`

    def load(
        self, folder: Path, model: Model, *, device: str, dtype: str, only_predicts: bool = False
    ) -> AnyRunner:
        """Load a model folder for one device, or what predicts in it alone."""
        ...


def _import_runner(family: str) -> RunnerClass:
    """Import the file of a family, and give the class in it that names the family."""
    classes = vars(import_module(f"{__name__}.{family}")).values()
    (runner,) = (each for each in classes if getattr(each, "family", None) == family)
    return cast(RunnerClass, runner)


#: Family -> what imports its runner.
RUNNERS: dict[str, Callable[[], RunnerClass]] = {
    each.name: partial(_import_runner, each.name)
    for each in iter_modules(__path__)
    if each.name in FAMILIES
}
