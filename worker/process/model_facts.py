"""Know the models of one worker: their weights, the memory they need, the time they take."""

from collections.abc import Callable, Collection, Sequence

import redis

from catalog.catalogue import Catalogue
from catalog.watch import LoadedWeights
from core.boards.cost import Cost
from core.model import Model
from core.settings import Settings
from worker.engine.slot import Slot
from worker.process.model_needs import ModelNeeds
from worker.process.shared_measurements import SharedMeasurements
from worker.trials.cost_trial import Trials, profiled
from worker.trials.device_defaults import has_own_memory
from worker.trials.timing import clock_of


class ModelFacts:
    """What this worker knows of its models. `look_around` belongs to the thread that loads them."""

    def __init__(
        self,
        settings: Settings,
        models: Catalogue,
        client: redis.Redis,
        device_type: str,
        *,
        memory_gib: float,
        held: Callable[[], Collection[str]],
        expect: Callable[[Model, Cost], object],
        give_way: Callable[[], object],
    ) -> None:
        """Prepare; `held` names the models that take memory now, whoever uses them.

        `expect` hears what a model costs here; `give_way` is called at every layer of what is
        timed, and may raise.
        """
        self._models = models
        self._max_slots = settings.max_slots
        self._held = held
        self._expect = expect
        self._weights = LoadedWeights(settings.models_dir)
        self.trials = Trials(
            profiled=profiled(settings.profile_path, device_type),
            clock=clock_of(settings.device),
            on_tried=self._note_tried,
            give_way=give_way,
            fits=self._fits,
            is_current=lambda model: models.get(model.name) == model,
        )
        self.measured = SharedMeasurements(
            client,
            device_type,
            folder=settings.models_dir,
            dtype=settings.dtype,
            learn=self.trials.learn,
        )
        self.needs = ModelNeeds(
            settings.models_dir,
            dtype=settings.dtype,
            memory_gib=memory_gib,
            measured=self.measured,
            can_offload=has_own_memory(settings.device),
        )

    def note_weights(self, model: Model, weights: str) -> None:
        """Note the fingerprint of what is about to be loaded."""
        self._weights.note(model.name, weights)
        if self.measured.note_weights(model, weights):
            self.trials.forget(model.name)

    def note_step(self, batch: Sequence[Slot], step_s: float) -> None:
        """Note how long a step of a model that stays took, if its jobs are as others' are."""
        if all(slot.ticket.is_as_profiled for slot in batch):
            self.trials.observe(batch[0].ticket.runner.model, len(batch), step_s)

    def images_that_fit(self, like: Slot) -> int:
        """Count the images like one that may share its steps."""
        request = like.ticket.job.request
        return self._room_for(like.ticket.runner.model, request.width * request.height)

    def look_around(self) -> Collection[str]:
        """See what has become of the models folder, and what other workers have measured.

        Returns the models that are not any more what they were, or not there: nothing is known
        of them.
        """
        change = self._models.refresh()
        replaced = self._weights.replaced(self._held())
        others = {*change.removed, *change.changed, *replaced}
        for name in others:
            self.trials.forget(name)
            self.measured.forget(name)
            self.needs.forget(name)
        self.measured.exchange(self._models)
        return others

    def _note_tried(self, model: Model, cost: Cost) -> None:
        self._expect(model, cost)
        if not self.trials.is_learned(model.name):
            self.measured.note_cost(model, cost)

    def _fits(self, model: Model, images: int) -> bool:
        room = self._room_for(model, model.default_size**2)
        return images <= min(room, self._max_slots)

    def _room_for(self, model: Model, pixels: int) -> int:
        """Count the images that may share a step beside what serves, comes, goes or is tried."""
        return self.needs.images(model, pixels, self._held())
