"""Share what is measured of models with the workers of the same device type, by the store.

Whatever is measured is of the weights that were loaded: their folder may be gone by then, or hold
others. So the fingerprint is noted at each load, and no folder is read for what a step takes.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import redis

from catalog.weights import fingerprint
from core.boards.cost import Cost
from core.boards.measured import MeasuredModel
from core.boards.need import Need
from core.errors import Unavailable
from core.log import get_logger
from core.model import Model
from storage.boards.measured import read_measured, write_measured

log = get_logger(__name__)

#: What others have measured is read so often.
READ_S = 5.0
UNKNOWN = MeasuredModel()


class SharedMeasurements:
    """What is known of models on devices like this one. Any thread may ask and note."""

    def __init__(
        self,
        client: redis.Redis,
        device_type: str,
        *,
        folder: Path,
        dtype: str,
        learn: Callable[[Model, Cost], object],
    ) -> None:
        """Prepare; `learn` hears of every model that others have timed."""
        self._client, self._device_type = client, device_type
        self._folder, self._dtype = folder, dtype
        self._learn = learn
        self._known: dict[str, MeasuredModel] = {}
        self._unsaid: set[str] = set()  #: models of which the store has not been told
        self._loaded: dict[str, str] = {}  #: weights, by the model that was loaded last
        self._in_folders: dict[str, str] = {}  #: likewise, of models that were looked into
        self._read_at = -READ_S
        self._lock = threading.Lock()

    @property
    def load_s(self) -> Mapping[str, float]:
        """Say how long models take to be loaded, those of which that is known (s)."""
        return {name: each.load_s for name, each in self._known.copy().items() if each.load_s}

    def usual_s(self, name: str) -> float | None:
        """Say how long a model takes to be loaded (s), if it is known."""
        return self._known.get(name, UNKNOWN).load_s or None

    def note_weights(self, model: Model, weights: str) -> bool:
        """Note the fingerprint of what is about to be loaded; what is known of others is forgotten.

        Returns whether others were loaded under its name before.
        """
        said = self._named(model, weights)
        with self._lock:
            before, self._loaded[model.name] = self._loaded.get(model.name), said
            if self._known.get(model.name, UNKNOWN).weights != said:
                self._drop(model.name)
        return before is not None and before != said

    def note_load(self, model: Model, seconds: float) -> None:
        """Note how long a model took to be loaded; the last time counts."""
        self._note(model, lambda before: replace(before, load_s=round(seconds, 3)))

    def note_cost(self, model: Model, cost: Cost) -> None:
        """Note what images of a model take, if it is known of which weights."""
        self._note(model, lambda before: replace(before, cost=cost))

    def note_need(self, model: Model, need: Need) -> None:
        """Note what memory a model needs, which is looked into before it is loaded."""
        weights = self._read_weights(model)
        self._note(model, lambda before: replace(before, need=need), weights)

    def need(self, model: Model) -> Need | None:
        """Say what memory a model needs, if somebody has found out."""
        return self._known.get(model.name, UNKNOWN).need

    def exchange(self, models: Mapping[str, Model]) -> None:
        """Tell what is not told yet, and read what others have measured, now and then."""
        now = time.monotonic()
        if now - self._read_at < READ_S and not self._unsaid:
            return
        self._read_at = now
        try:
            for name in tuple(self._unsaid):
                if (own := self._known.get(name)) is not None:
                    write_measured(self._client, self._device_type, name, own)
                self._unsaid.discard(name)
            found = read_measured(self._client, self._device_type)
        except Unavailable as error:
            log.warning("measurements_not_shared", reason=str(error))
            return
        for name, measured in found.items():
            if name in models and measured != self._known.get(name):
                self._take_in(models[name], measured)

    def forget(self, name: str) -> None:
        """Know nothing of a model any more: it is another one under the same name."""
        with self._lock:
            self._drop(name)
            self._loaded.pop(name, None)
            self._in_folders.pop(name, None)

    def _drop(self, name: str) -> None:
        self._known.pop(name, None)
        self._unsaid.discard(name)

    def _take_in(self, model: Model, measured: MeasuredModel) -> None:
        weights = self._loaded.get(model.name) or self._read_weights(model)
        if measured.weights != weights:
            return
        with self._lock:
            self._known[model.name] = measured
        if measured.cost is not None:
            self._learn(model, measured.cost)

    def _note(
        self,
        model: Model,
        change: Callable[[MeasuredModel], MeasuredModel],
        weights: str | None = None,
    ) -> None:
        """Change what is known of a model: of these weights, else of those that were loaded."""
        with self._lock:
            weights = weights or self._loaded.get(model.name)
            if weights is None:  # it leaves: another has its name by now, or its folder has gone
                return
            before = self._known.get(model.name, UNKNOWN)
            before = before if before.weights == weights else UNKNOWN
            self._known[model.name] = replace(change(before), weights=weights)
            self._unsaid.add(model.name)

    def _read_weights(self, model: Model) -> str | None:
        """Read which weights the folder of a model has; None: its files go meanwhile."""
        if model.name not in self._in_folders:
            try:
                weights = fingerprint(self._folder / model.name)
            except OSError as error:
                log.warning("weights_not_read", model=model.name, reason=str(error))
                return None
            self._in_folders[model.name] = self._named(model, weights)
        return self._in_folders[model.name]

    def _named(self, model: Model, weights: str) -> str:
        """Name weights as they run here: in another precision they take other times."""
        return f"{weights[:32]} {model.dtype or self._dtype}"
