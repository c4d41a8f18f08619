"""Know how much memory each model needs here: found out once, before it is loaded."""

import threading
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from core.boards.need import Need
from core.log import get_logger
from core.model import Model
from worker.diffusion.imports import first_imports
from worker.families import RUNNERS
from worker.futures import tried
from worker.process.shared_measurements import SharedMeasurements

log = get_logger(__name__)

#: What comes with imports stays for ever: nobody else may make anything meanwhile.
_importing = threading.Lock()

#: A model with weights of less than such a share of the memory is not looked into: it fits.
SMALL = 0.01
#: More than any step takes.
MANY = 2**16


class ModelNeeds:
    """What models need on a device like this one. `of` belongs to the thread that loads them."""

    def __init__(
        self,
        folder: Path,
        *,
        dtype: str,
        memory_gib: float,
        measured: SharedMeasurements,
        can_offload: bool = False,
    ) -> None:
        """Prepare; what another worker has found out is taken over from `measured`.

        `can_offload`: the device has memory of its own, so that text encoders may stay on the host.
        """
        self._memory_gib = memory_gib
        self._can_offload = can_offload
        self._small_gib = SMALL * memory_gib
        self._folder = folder
        self._dtype = dtype
        self._measured = measured
        self._found: dict[str, Need] = {}

    @property
    def gib(self) -> Mapping[str, float]:
        """Say what models take alone, those of which that is known."""
        return {name: round(need.gib, 3) for name, need in sorted(self._found.copy().items())}

    def of(self, model: Model) -> Need:
        """Say what a model needs; of one that cannot be looked into, what it says itself."""
        if model.name not in self._found:
            whole = self._measured.need(model) or self._find(model)
            need = whole.within(self._memory_gib) if self._can_offload else whole
            if need.is_offloaded:
                log.info("encoders_offloaded", model=model.name, gib=round(need.encoders_gib, 2))
            self._found[model.name] = need
        return self._found[model.name]

    def images(self, model: Model, pixels: int, held: Collection[str]) -> int:
        """Count the images of so many pixels that may share a step beside what else is held."""
        found = self._found.copy()  # any thread may ask
        need = found.get(model.name)
        if need is None or not need.step_gib:
            return MANY
        weights_gib = sum(found[name].weights_gib for name in {*held, model.name} if name in found)
        room_gib = self._memory_gib - weights_gib - (need.work_gib - need.step_gib)
        larger = pixels / model.default_size**2
        return min(MANY, int(room_gib / (need.step_gib * larger)))

    def forget(self, name: str) -> None:
        """Know nothing of a model any more: it is another one under the same name."""
        self._found.pop(name, None)

    def _find(self, model: Model) -> Need:
        said = Need(weights_gib=model.size_gib)
        if model.size_gib < self._small_gib:
            return said
        class_name = getattr(import_family(model), "pipeline_class", "")
        if not class_name:  # a family without a model
            return said
        from worker.trials.needs import need_of

        need = tried(lambda: need_of(self._folder / model.name, model, class_name, self._dtype))
        if isinstance(need, Exception):  # loading it says what is wrong with it
            log.warning("need_unknown", model=model.name, reason=f"{type(need).__name__}: {need}")
            return said
        log.info(
            "need_found",
            model=model.name,
            weights_gib=round(need.weights_gib, 2),
            work_gib=round(need.work_gib, 2),
            most_gib=round(need.most_gib, 2),
        )
        self._measured.note_need(model, need)
        return need


def import_family(model: Model) -> object | None:
    """Import what a model runs on, which takes seconds the first time; None: nobody knows how."""
    if model.family not in RUNNERS:
        return None
    with _importing, first_imports():
        return RUNNERS[model.family]()


def import_families(models: Mapping[str, Model]) -> None:
    """Import what models run on, before any is asked for."""
    for model in {each.family: each for each in models.values()}.values():
        tried(partial(import_family, model))
