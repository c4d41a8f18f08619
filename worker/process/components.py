"""Components of a worker that serves models, with start and stop order."""

import socket
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial

from catalog.catalogue import Catalogue
from core.errors import ConfigurationError, Unavailable
from core.log import get_logger
from core.settings import Settings
from storage.boards import fleet
from storage.boards import reusable_latents as lenders
from storage.jobs.leases import LeaseStore
from storage.redis.connect import connect_sync
from worker.control.offers import Sender, offer_by
from worker.engine import metrics
from worker.engine.batch import NextBatch
from worker.engine.engine import Engine
from worker.engine.slot import Slot
from worker.engine.slowdown import StepPace, read_fixed_times, read_step_times
from worker.engine.step_limits import StepLimits
from worker.engine.watchdog import Watch, expected_s
from worker.jobs.earlier_states import EarlierStates
from worker.jobs.executor import JobExecutor
from worker.jobs.heartbeat import Heartbeat
from worker.jobs.images import Images
from worker.jobs.latents import LatentWriter
from worker.jobs.prefetch import Prefetcher
from worker.jobs.previews import Previews
from worker.jobs.states import StateWriter
from worker.process.engine_exit import exit_dead, exit_hung
from worker.process.idle_trials import IdleTrials
from worker.process.loading import Loading
from worker.process.model_facts import ModelFacts
from worker.process.model_loads import ModelLoads
from worker.process.model_needs import import_families, import_family
from worker.process.own_report import report_of
from worker.process.queues import Queues
from worker.process.residency import Residency
from worker.trials.device_defaults import settled, worker_type

log = get_logger(__name__)

#: A stop waits so long for the thread that holds the models: it may be in the middle of a load.
STOPPING_S = 1.0
#: And for the engine to end its step.
STUCK_S = 10.0
#: A step may always take so many leases: others take as long to notice that a worker is silent.
LEAST_LEASES = 2.0


class Components:
    """Everything one worker with models consists of."""

    def __init__(self, settings: Settings, models: Catalogue, celery: Sender) -> None:
        """Prepare; `celery` sends what other workers are to do."""
        self.settings = settings = settled(settings)
        self.models = models
        self._is_stopping = self._is_stuck = False
        self._residing: threading.Thread | None = None
        self.memory_gib = settings.memory_gib or 0.0  #: it is settled
        self.name = full_name(settings.worker_name)
        self.device_type = worker_type(settings)
        self.redis = connect_sync(settings.redis_url)
        self._reporter = fleet.Reporter(self.redis)
        self.pace = StepPace(
            read_step_times(settings.profile_path, self.device_type),
            read_fixed_times(settings.profile_path, self.device_type),
        )
        self.facts = ModelFacts(
            settings,
            models,
            self.redis,
            self.device_type,
            memory_gib=self.memory_gib,
            held=lambda: self.residency.held,
            expect=self.pace.expect,
            give_way=self._give_way,
        )
        self.loading = Loading(
            settings,
            offer_by(celery, self.redis),
            takes_latents=lambda: self.residency.takes_latents,
            offloads=lambda model: self.facts.needs.of(model).is_offloaded,
            on_weights=self.facts.note_weights,
        )
        self.images = Images(settings)
        self.previews = Previews()
        self.latents = LatentWriter(
            store=self.images, announce=partial(lenders.announce, self.redis)
        )
        self.states = StateWriter(
            store=self.images, identify=self.loading.identify, every=settings.state_steps
        )
        limits, leases = StepLimits(LEAST_LEASES * settings.lease_s), self._new_leases()
        self.engine = self._new_engine(limits)
        self.executor = self._new_executor(leases)
        self.heartbeat = self._new_heartbeat(leases, limits)
        self.queues = Queues([], self.name)
        self.loads = ModelLoads(
            self.loading.load,
            prepare=import_family,
            usual_s=self.facts.measured.usual_s,
            on_change=self._tell,
            on_loaded=self.facts.measured.note_load,
            give_back=self.loading.give_back,
            die=exit_dead,
        )
        self.residency = self._new_residency()
        self.prefetcher = Prefetcher(
            self.redis,
            queues=lambda: self.queues.names,
            prefetch=self.loading.prefetch,
            recall=self.loading.recordings.prefetch,
            loras_bytes=int(settings.loras_gib * 2**30),
            is_full=lambda: self.executor.num_in_slots() >= settings.max_slots,
            survey=self.loading.recordings.survey,
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
        self.heartbeat.start()
        imports = partial(import_families, self.models)
        threading.Thread(target=imports, name="imports", daemon=True).start()
        self.images.warm_up()
        self.engine.start()
        self.executor.start()
        self.latents.start()
        self.states.start()
        self.prefetcher.start()

    def follow(self) -> None:
        """Keep to the plan, in a thread of its own."""
        read = fleet.AssignmentReader(self.redis, self.name).read
        run = partial(self.residency.run, read, self.settings.preload)
        self._residing = threading.Thread(target=run, name="residency", daemon=True)
        self._residing.start()

    @property
    def is_busy(self) -> bool:
        """Whether a thread is in the midst of a load, or hangs: nothing can leave that off."""
        return self._is_stuck or (self._residing is not None and self._residing.is_alive())

    def stop(self) -> None:
        """Let go of everything, once no job is held any more."""
        self._is_stopping = True
        self.residency.stop()
        if self._residing is not None:
            self._residing.join(STOPPING_S)
        self.prefetcher.stop()
        self.executor.close()
        self.latents.close()
        self.states.close()
        self.heartbeat.stop()
        self.previews.close()
        self._is_stuck = not self.engine.close(STUCK_S)
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
            exit_dead()
        self._reporter.report(report_of(self, stats))

    def _new_leases(self) -> LeaseStore:
        settings = self.settings
        return LeaseStore(
            self.redis,
            worker=self.name,
            lease_s=settings.lease_s,
            max_attempts=settings.max_attempts,
            device_type=self.device_type,
        )

    def _new_engine(self, limits: StepLimits) -> Engine:
        settings = self.settings
        return Engine(
            max_slots=settings.max_slots,
            max_rows=settings.max_rows,
            slo_s=settings.slo_s,
            on_step=self._note_step,
            next_batch=partial(NextBatch, fits=self.facts.images_that_fit),
            on_done=lambda activity, seconds: limits.note(activity.key, seconds),
            on_hand_over=self.states.hand_over,
            on_left=lambda ticket: self.executor.note_left(ticket.job.id),
        )

    def _new_executor(self, leases: LeaseStore) -> JobExecutor:
        earlier = EarlierStates(
            store=self.images,
            identify=self.loading.identify,
            know=self.states.know,
            credit=leases.credit,
        )
        return JobExecutor(
            leases=leases,
            engine=self.engine,
            images=self.images,
            prefetch=self.loading.prefetch,
            die=exit_dead,
            observe=metrics.observe_job,
            lend=self.latents.offer,
            states=self.states,
            find_states=earlier.find if self.states.is_on else lambda claim: None,
        )

    def _new_heartbeat(self, leases: LeaseStore, limits: StepLimits) -> Heartbeat:
        watch = Watch(
            self.engine,
            limits,
            expect=partial(expected_s, self.pace),
            on_hang=partial(exit_hung, self.executor, self.redis, self.name),
        )
        return Heartbeat(
            leases=leases,
            holder=self.executor,
            progress=self.engine.progress,
            report=self.report,
            beat_s=self.settings.beat_s,
            look=watch.look,
            previews=self.previews,
        )

    def _new_residency(self) -> Residency:
        trials = IdleTrials(
            trials=self.facts.trials,
            loads=self.loads,
            host=self.engine,
            worker=self.name,
            is_idle=self._is_idle,
        )
        return Residency(
            models=self.models,
            loads=self.loads,
            host=self.engine,
            queues=self.queues,
            memory_gib=self.memory_gib,
            need=self.facts.needs.of,
            spare=trials,
            on_change=self.report,
            on_turn=self._look_around,
        )

    def _note_step(self, batch: Sequence[Slot], step_s: float) -> None:
        metrics.observe_step(batch, step_s)
        self.previews.note(batch)
        self.states.note(batch, step_s)
        self.pace.observe(batch, step_s)
        if batch[0].ticket.runner.model.name in self.residency.resident:  # and not leaving
            self.facts.note_step(batch, step_s)

    def _give_way(self) -> None:
        if not self.settings.second_device:  # whose half of a step cannot be left off
            self.engine.give_way()

    def _look_around(self) -> Collection[str]:
        """Name the models that are not what they were; what kept one from loading may be over."""
        others = self.facts.look_around()
        for name in others:
            self.loads.forget(name)
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
