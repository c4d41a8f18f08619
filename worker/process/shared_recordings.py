"""Recordings of edits that the models of one worker share: in memory, and behind it on disk."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from catalog.masking.config import MaskingConfig
from catalog.masking.costs import MaskingCosts, read_costs
from core.job import JobRequest
from core.model import Model
from core.settings import Settings
from storage.objects.store import open_objects
from worker.trials.device_defaults import device_type

if TYPE_CHECKING:  # torch comes with the first model that needs it
    from worker.masking.activations import Activations
    from worker.masking.cache import RecordingCache
    from worker.pipeline.overlays import Overlays

#: Recordings named in a report: the older ones are the less likely to be asked for.
REPORTED = 128


class SharedRecordings:
    """Keeps what edits of a template reuse. `prefetch` may be called from any thread."""

    def __init__(self, settings: Settings) -> None:
        """Prepare; memory is taken with the first model that edits."""
        self._settings = settings
        self._activations: "Activations | None" = None
        self._costs: Mapping[str, MaskingCosts] = read_costs(
            settings.profile_path, device_type(settings.device)
        )
        self._weights: dict[str, str] = {}  #: fingerprints of models that reuse activations
        self._models: dict[str, Model] = {}
        self._shelved: tuple[str, ...] = ()

    def allow(self, overlays: "Overlays", model: Model, weights: str) -> None:
        """Let edits of a model with these weights reuse, as the settings say."""
        if not self._settings.activations_gib:
            return
        costs = self._costs.get(model.name)
        knobs = MaskingConfig(crop=self._settings.crop_convolutions)
        overlays.reuse(self._opened(), knobs, weights=weights, costs=costs)
        self._weights[model.name], self._models[model.name] = weights, model

    def prefetch(self, request: JobRequest) -> None:
        """Have at hand what an edit reuses: it will come soon."""
        weights = self._weights.get(request.model)
        if weights is None or self._activations is None or request.edit is None:
            return
        from worker.masking.recording import RecordingKey

        is_guided = self._models[request.model].is_guided(request.guidance)
        for seed in request.seeds:
            key = RecordingKey.of(
                request, seed, weights, is_guided=is_guided, keeps=MaskingConfig().keeps
            )
            self._activations.prefetch(key)

    def survey(self) -> None:
        """Look what is on disk, in a thread that may wait for it."""
        if self._activations is not None:
            self._shelved = self._activations.shelved()[-REPORTED:]

    @property
    def in_memory(self) -> tuple[str, ...]:
        """Name the recordings in host memory, the last used ones."""
        return self._activations.names[-REPORTED:] if self._activations is not None else ()

    @property
    def on_disk(self) -> tuple[str, ...]:
        """Name the recordings on disk, as last looked: the last used ones."""
        return self._shelved

    def close(self) -> None:
        """Put nothing more away."""
        if self._activations is not None:
            self._activations.close()

    def _opened(self) -> "Activations":
        if self._activations is None:
            from worker.masking.activations import Activations

            budget = int(self._settings.activations_gib * 2**30)
            self._activations = Activations(budget, self._shelf())
        return self._activations

    def _shelf(self) -> "RecordingCache | None":
        """Open where activations outlast this process, as the settings say."""
        from worker.masking.cache import RecordingCache

        settings = self._settings
        if not settings.activations_disk_gib:
            return None
        objects = open_objects(settings) if settings.activations_store_gib else None
        budget = int(settings.activations_disk_gib * 2**30)
        return RecordingCache(settings.data_dir / "activations", budget, objects)
