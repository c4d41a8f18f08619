"""Since when does each worker have the model that a plan gave it, and must it keep it? Pure."""

from collections.abc import Callable, Mapping, Sequence

from core.fleet import Worker

#: Times that loading takes, for which a worker keeps a model: at most half of its time is loading.
HELD = 2.0
#: The same for a worker that is loading still.
LOADING = 10.0


class Tenure:
    """Remembers what workers were given, so that loads are not undone at once."""

    def __init__(self) -> None:
        self._given: dict[str, tuple[str, float]] = {}  # worker -> model, since when

    def note(self, workers: Sequence[Worker], assignments: Mapping[str, str], now: float) -> None:
        """Note what a plan gives to each worker; one that holds its model already may change."""
        given: dict[str, tuple[str, float]] = {}
        for worker in workers:
            model = assignments.get(worker.name)
            if model is None:
                continue
            since = float("-inf") if model in worker.models else now
            before = self._given.get(worker.name)
            given[worker.name] = before if before and before[0] == model else (model, since)
        self._given = given

    def settling(
        self, workers: Sequence[Worker], load_s: Callable[[str, str], float], now: float
    ) -> dict[str, str]:
        """List workers that must be left with the model they were given.

        Args:
            load_s: seconds to load a model on a device type.
        """
        kept: dict[str, str] = {}
        for worker in workers:
            if worker.name not in self._given:
                continue
            model, at = self._given[worker.name]
            patience = HELD if model in worker.models else LOADING
            if now - at < patience * load_s(model, worker.device_type):
                kept[worker.name] = model
        return kept
