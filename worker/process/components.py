"""Components of a worker that serves models, with start and stop order."""

import os
import socket
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial

from catalog.catalogue import Catalogue
from catalog.watch import LoadedWeights
from core.boards.cost import Cost
from core.errors import ConfigurationError, Unavailable
from core.log import get_logger
from core.model import Model
from core.settings import Settings
from storage.boards import fleet
from storage.boards import reusable_latents as lenders
from storage.jobs.leases import LeaseStore
from storage.redis.connect import connect_sync
from worker.control.offers import Sender, offer_by
from worker.engine import metrics
from worker.engine.aside import THREAD as DECODER
from worker.engine.batch import NextBatch
from worker.engine.engine import THREAD, Engine
from worker.engine.slot import Slot
from worker.engine.slowdown import StepPace, read_fixed_times, read_step_times
from worker.engine.step_limits import StepLimits
from worker.engine.watchdog import Hang, Watch, expected_s, frames_of
from worker.futures import tried
from worker.jobs.earlier_states import EarlierStates
from worker.jobs.executor import JobExecutor
from worker.jobs.heartbeat import Heartbeat
from worker.jobs.images import Images
from worker.jobs.latents import LatentWriter
from worker.jobs.prefetch import Prefetcher
from worker.jobs.previews import Previews
from worker.jobs.states import StateKeeper
from worker.process.idle_trials import IdleTrials
from worker.process.loading import Loading
from worker.process.model_loads import ModelLoads
from worker.process.model_needs import ModelNeeds, import_family
from worker.process.own_report import report_of
from worker.process.queues import Queues
from worker.process.residency import Residency
from worker.process.shared_measurements import SharedMeasurements
from worker.trials.cost_trial import Trials, profiled
from worker.trials.device_defaults import has_own_memory, settled, worker_type
from worker.trials.timing import clock_of

log = get_logger(__name__)

#: Exit statuses of a worker whose engine died, or hangs: start me again.
DEAD_ENGINE, HUNG_ENGINE = 70, 71
#: A stop waits so long for the thread that holds the models: it may be in the middle of a load.
STOPPING_S = 1.0
#: A step may always take so many leases: others take as long to notice that a worker is silent.
LEAST_LEASES = 2.0


class Components:
    """Everything one worker with models consists of."""

    def __init__(
        self,
        settings: Settings,
        models: Catalogue,
        celery: Sender,
    ) -> None:
        """Prepare; `celery` sends what other workers are to do."""
        self.settings = settings = settled(settings)
        self.models = models
        self._is_stopping = False
        self._residing: threading.Thread | None = None
        self.memory_gib = settings.memory_gib or 0.0  #: it is settled
        self.name = full_name(settings.worker_name)
        self.redis = connect_sync(settings.redis_url)
        self._reporter = fleet.Reporter(self.redis)
        self.device_type = worker_type(settings)
        leases = LeaseStore(
            self.redis,
            worker=self.name,
            lease_s=settings.lease_s,
            max_attempts=settings.max_attempts,
            device_type=self.device_type,
        )
        self.pace = StepPace(
            read_step_times(settings.profile_path, self.device_type),
            read_fixed_times(settings.profile_path, self.device_type),
        )
        self.previews = Previews()
        limits = StepLimits(LEAST_LEASES * settings.lease_s)
        self.engine = Engine(
            max_slots=settings.max_slots,
            max_rows=settings.max_rows,
            slo_s=settings.slo_s,
            on_step=self._note_step,
            next_batch=partial(NextBatch, fits=self._images_that_fit),
            on_done=lambda activity, seconds: limits.note(activity.key, seconds),
            on_hand_over=lambda ticket, slots: self.states.hand_over(ticket, slots),
            on_left=lambda ticket: self.executor.note_left(ticket.job.id),
        )
        self.images = Images(settings)
        self.weights = LoadedWeights(settings.models_dir)
        self.loading = Loading(
            settings,
            offer_by(celery, self.redis),
            takes_latents=lambda: self.residency.takes_latents,
            offloads=lambda model: self.needs.of(model).is_offloaded,
            on_weights=self._note_weights,
        )
        self.states = StateKeeper(
            store=self.images, identify=self.loading.identify, every=settings.state_steps
        )
        self.trials = Trials(
            profiled=profiled(settings.profile_path, self.device_type),
            clock=clock_of(settings.device),
            on_tried=self._note_tried,
            give_way=self._give_way,
            fits=self._fits,
            is_current=lambda model: models.get(model.name) == model,
        )
        self.measured = SharedMeasurements(
            self.redis,
            self.device_type,
            folder=settings.models_dir,
            dtype=settings.dtype,
            learn=self.trials.learn,
        )
        self.needs = ModelNeeds(
            settings.models_dir,
            dtype=settings.dtype,
            memory_gib=self.memory_gib,
            measured=self.measured,
            can_offload=has_own_memory(settings.device),
        )
        self.loads = ModelLoads(
            self.loading.load,
            prepare=import_family,
            usual_s=self.measured.usual_s,
            on_change=self._tell,
            on_loaded=self.measured.note_load,
            give_back=self.loading.give_back,
        )
        self.lending = LatentWriter(
            store=self.images, announce=partial(lenders.announce, self.redis)
        )
        earlier = EarlierStates(
            store=self.images,
            identify=self.loading.identify,
            know=self.states.know,
            credit=leases.credit,
        )
        self.executor = JobExecutor(
            leases=leases,
            engine=self.engine,
            images=self.images,
            prefetch=self.loading.prefetch,
            die=partial(os._exit, DEAD_ENGINE),
            observe=metrics.observe_job,
            lend=self.lending.offer,
            states=self.states,
            find_states=earlier.find if self.states.is_on else lambda claim: None,
        )
        self.queues = Queues([], self.name)
        self.residency = Residency(
            models=models,
            loads=self.loads,
            host=self.engine,
            queues=self.queues,
            memory_gib=self.memory_gib,
            need=self.needs.of,
            spare=IdleTrials(
                trials=self.trials,
                loads=self.loads,
                host=self.engine,
                worker=self.name,
                is_idle=self._is_idle,
            ),
            on_change=self.report,
            on_turn=self._look_around,
        )
        self.lookahead = Prefetcher(
            self.redis,
            queues=lambda: self.queues.names,
            prefetch=self.loading.prefetch,
            recall=self.loading.recordings.prefetch,
            loras_bytes=int(settings.loras_gib * 2**30),
            is_full=lambda: self.executor.num_in_slots() >= settings.max_slots,
            survey=self.loading.recordings.survey,
        )
        self.heart = Heartbeat(
            pictures=self.previews,
            leases=leases,
            holder=self.executor,
            progress=self.engine.progress,
            report=self.report,
            beat_s=settings.beat_s,
            look=Watch(
                self.engine, limits, expect=partial(expected_s, self.pace), on_hang=self._leave
            ).look,
        )

    def start(self) -> None:
        """Report, and be ready to work; `follow` loads what there is to work with.

        Raises:
            ConfigurationError: a model that is to be preloaded is none.
        """
        settings = self.settings
        if not set(settings.preload) <= self.models.keys():
            raise ConfigurationError(
                f"ATELIER_PRELOAD {list(settings.preload)}: "
                f"{settings.models_dir} has {sorted(self.models)}"
            )
        self.heart.start()
        threading.Thread(target=self._import_families, name="imports", daemon=True).start()
        self.images.warm_up()
        self.engine.start()
        self.executor.start()
        self.lending.start()
        self.states.start()
        self.lookahead.start()

    def follow(self) -> None:
        """Keep to the plan, in a thread of its own."""
        read = fleet.AssignmentReader(self.redis, self.name).read
        run = partial(self.residency.run, read, self.settings.preload)
        self._residing = threading.Thread(target=run, name="residency", daemon=True)
        self._residing.start()

    @property
    def is_loading(self) -> bool:
        """Whether a model is still being loaded, which nothing can leave off."""
        return self._residing is not None and self._residing.is_alive()

    def stop(self) -> None:
        """Let go of everything, once no job is held any more."""
        self._is_stopping = True
        self.residency.stop()
        if self._residing is not None:
            self._residing.join(STOPPING_S)
        self.lookahead.stop()
        self.executor.close()
        self.lending.close()
        self.states.close()
        self.heart.stop()
        self.previews.close()
        self.engine.close()
        self.images.close()
        self.loading.close()
        try:
            fleet.retire(self.redis, self.name)
        except Unavailable as error:
            log.warning("not_retired", reason=str(error))

    def report(self) -> None:
        """Say what this worker holds and does."""
        self.loads.tell()
        stats = self.engine.stats()
        if not stats.is_alive and not self._is_stopping:
            os._exit(DEAD_ENGINE)
        self._reporter.report(report_of(self, stats))

    def _leave(self, hang: Hang) -> None:
        """End this process, which hangs: its jobs go to others, and nobody counts on it."""
        activity = hang.activity
        jobs = activity.jobs or tuple(self.executor.fences())  # those that wait for it
        log.critical(
            "engine_hangs",
            doing=activity.doing,
            model=activity.model.name,
            jobs=list(jobs),
            seconds=round(hang.seconds, 1),
            limit_s=round(hang.limit_s, 1),
            at=frames_of(THREAD, DECODER),
        )
        try:
            self.executor.hand_over.abandon(jobs)
            fleet.retire(self.redis, self.name)
        except Unavailable as error:  # leases run out, and reports grow old
            log.warning("jobs_not_handed_on", reason=str(error))
        finally:
            os._exit(HUNG_ENGINE)

    def _note_step(self, batch: Sequence[Slot], step_s: float) -> None:
        metrics.observe_step(batch, step_s)
        self.previews.note(batch)
        self.states.note(batch, step_s)
        self.pace.observe(batch, step_s)
        model = batch[0].ticket.runner.model
        is_leaving = model.name not in self.residency.resident
        if not is_leaving and all(slot.ticket.is_as_profiled for slot in batch):
            self.trials.observe(model, len(batch), step_s)

    def _images_that_fit(self, like: Slot) -> int:
        request = like.ticket.job.request
        return self._room_for(like.ticket.runner.model, request.width * request.height)

    def _fits(self, model: Model, images: int) -> bool:
        room = self._room_for(model, model.default_size**2)
        return images <= min(room, self.settings.max_slots)

    def _room_for(self, model: Model, pixels: int) -> int:
        """Count the images that may share a step beside what serves, comes, goes or is tried."""
        return self.needs.images(model, pixels, self.residency.held, self.memory_gib)

    def _note_weights(self, model: Model, weights: str) -> None:
        self.weights.note(model.name, weights)
        if self.measured.note_weights(model, weights):
            self.trials.forget(model.name)

    def _note_tried(self, model: Model, cost: Cost) -> None:
        self.pace.expect(model, cost)
        if not self.trials.is_learned(model.name):
            self.measured.note_cost(model, cost)

    def _give_way(self) -> None:
        if not self.settings.second_device:  # whose half of a step cannot be left off
            self.engine.give_way()

    def _import_families(self) -> None:
        """Import what models run on, before any is asked for."""
        for model in {each.family: each for each in self.models.values()}.values():
            tried(partial(import_family, model))

    def _look_around(self) -> Collection[str]:
        """See what has become of the models folder, and what other workers have measured."""
        change = self.models.refresh()
        replaced = self.weights.replaced(self.residency.held)
        others = {*change.removed, *change.changed, *replaced}
        for name in others:
            self.trials.forget(name)
            self.measured.forget(name)
            self.needs.forget(name)
            self.loads.forget(name)
        self.measured.exchange(self.models)
        return others

    def _is_idle(self) -> bool:
        stats = self.engine.stats()
        return not (stats.running or stats.waiting or self.executor.fences())

    def _tell(self) -> None:
        with suppress(Unavailable):  # the next report says it
            self.report()


def full_name(label: str) -> str:
    """Name a worker as Celery does: `<label>@<host>`."""
    return label if "@" in label else f"{label}@{socket.gethostname()}"
