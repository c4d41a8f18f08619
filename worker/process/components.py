"""Components of a worker that serves models, with start and stop order."""

import os
import socket
import threading
from collections.abc import Sequence
from functools import partial

from core.boards.fleet import Worker
from core.boards.plan import Plan
from core.errors import ConfigurationError, Unavailable
from core.log import get_logger
from core.model import Model
from core.settings import Settings
from storage.boards import fleet
from storage.boards import reusable_latents as lenders
from storage.jobs.leases import LeaseStore
from storage.redis.connect import connect_sync
from worker.control.offers import Sender, offer_by
from worker.diffusion.cost_trial import Trials, profiled
from worker.engine import metrics
from worker.engine.engine import THREAD, Engine
from worker.engine.model_calls import Activity
from worker.engine.slot import Slot
from worker.engine.slowdown import StepPace, read_step_times
from worker.engine.step_limits import StepLimits
from worker.engine.watchdog import Hang, Watch, frames_of
from worker.jobs.executor import JobExecutor
from worker.jobs.heartbeat import Heartbeat
from worker.jobs.images import Images
from worker.jobs.latents import LatentWriter
from worker.jobs.pending_work import works
from worker.jobs.prefetch import Prefetcher
from worker.process.loading import Loading, worker_type
from worker.process.queues import Queues
from worker.process.residency import Residency

log = get_logger(__name__)

#: Exit statuses of a worker whose engine died, or hangs: start me again.
DEAD_ENGINE, HUNG_ENGINE = 70, 71
#: A step may always take so many leases: others take as long to notice that a worker is silent.
LEAST_LEASES = 2.0


class Components:
    """Everything one worker with models consists of."""

    def __init__(
        self,
        settings: Settings,
        models: dict[str, Model],
        celery: Sender,
    ) -> None:
        """Prepare; `celery` sends what other workers are to do."""
        self.settings = settings
        self._models = models
        self._is_stopping = False
        self.name = full_name(settings.worker_name)
        self.redis = connect_sync(settings.redis_url)
        leases = LeaseStore(
            self.redis,
            worker=self.name,
            lease_s=settings.lease_s,
            max_attempts=settings.max_attempts,
        )
        self._device_type = worker_type(settings)
        self.pace = StepPace(read_step_times(settings.profile_path, self._device_type))
        limits = StepLimits(LEAST_LEASES * settings.lease_s)
        self.engine = Engine(
            max_slots=settings.max_slots,
            max_rows=settings.max_rows,
            slo_s=settings.slo_s,
            on_step=self._note_step,
            on_done=lambda activity, seconds: limits.note(activity.key, seconds),
        )
        self.images = Images(settings)
        self.loading = Loading(
            settings,
            offer_by(celery, self.redis),
            takes_latents=lambda: self.residency.takes_latents,
        )
        self.trials = Trials(
            self.loading.load,
            profiled=profiled(settings.profile_path, self._device_type),
            device=settings.device,
            on_tried=self.pace.expect,
        )
        self.lending = LatentWriter(
            store=self.images, announce=partial(lenders.announce, self.redis)
        )
        self.executor = JobExecutor(
            leases=leases,
            engine=self.engine,
            images=self.images,
            prefetch=self.loading.prefetch,
            die=partial(os._exit, DEAD_ENGINE),
            observe=metrics.observe_job,
            lend=self.lending.offer,
        )
        self.queues = Queues([], self.name)
        self.residency = Residency(
            name=self.name,
            models=models,
            load=self.trials.load,
            host=self.engine,
            queues=self.queues,
            memory_gib=settings.memory_gib,
            on_change=self.report,
        )
        self.lookahead = Prefetcher(
            self.redis,
            queues=lambda: self.queues.names,
            prefetch=self.loading.prefetch,
            survey=self.loading.survey,
        )
        self.heart = Heartbeat(
            leases=leases,
            holder=self.executor,
            progress=self.engine.progress,
            report=self.report,
            beat_s=settings.beat_s,
            look=Watch(self.engine, limits, expect=self._expect, on_hang=self._leave).look,
        )

    def start(self) -> None:
        """Make everything ready to work before the first message can arrive."""
        self.images.warm_up()
        first = self._first_models()  # loaded to serve, so tried then
        others = [model for name, model in self._models.items() if name not in first]
        self.trials.run(others, memory_gib=self.settings.memory_gib)
        self.residency.hold(first)
        self.engine.start()
        self.executor.start()
        self.lending.start()
        self.heart.start()
        self.lookahead.start()

    def follow(self) -> None:
        """Keep to the plan, in a thread of its own."""
        run = partial(self.residency.run, partial(fleet.read_plan, self.redis))
        threading.Thread(target=run, name="residency", daemon=True).start()

    def stop(self) -> None:
        """Let go of everything, once no job is held any more."""
        self._is_stopping = True
        self.residency.stop()
        self.lookahead.stop()
        self.executor.close()
        self.lending.close()
        self.heart.stop()
        self.engine.close()
        self.images.close()
        self.loading.close()
        try:
            fleet.retire(self.redis, self.name)
        except Unavailable as error:
            log.warning("not_retired", reason=str(error))

    def report(self) -> None:
        """Say what this worker holds and does."""
        stats = self.engine.stats()
        if not stats.is_alive and not self._is_stopping:
            os._exit(DEAD_ENGINE)
        busiest = max(stats.step_s, key=lambda name: stats.step_s[name], default="")
        fleet.report(
            self.redis,
            Worker(
                name=self.name,
                device_type=self._device_type,
                models=self.residency.resident,
                queues=self.queues.names,
                memory_gib=self.settings.memory_gib,
                catalogue=tuple(sorted(self._models)),
                refused=self.residency.refused,
                running=stats.running,
                waiting=stats.waiting,
                max_slots=self.settings.max_slots,
                step_s=stats.step_s.get(busiest, 0.0),
                step_images=stats.step_images.get(busiest, 1.0),
                most_sharing=stats.most_sharing.get(busiest, 0),
                costs=self.trials.costs,
                untried=self.trials.untried(self._models),
                slowness=self.pace.slowness,
                starts_read=self.images.starts.read,
                starts_late=self.images.starts.late,
                works=works(
                    tuple(self.engine.running),
                    self.executor.unmade(),
                    self.lookahead.waiting,
                    self._models,
                ),
                recordings=self.loading.recordings,
                shelved=self.loading.shelved,
            ),
        )

    def _expect(self, activity: Activity) -> float | None:
        return self.pace.step_s(activity.model, activity.rows, activity.pixels)

    def _leave(self, hang: Hang) -> None:
        """End this process, which hangs: its jobs go to others, and nobody counts on it."""
        activity = hang.activity
        log.critical(
            "engine_hangs",
            doing=activity.doing,
            model=activity.model.name,
            jobs=list(activity.jobs),
            seconds=round(hang.seconds, 1),
            limit_s=round(hang.limit_s, 1),
            at=frames_of(THREAD),
        )
        try:
            self.executor.abandon(activity.jobs)
            fleet.retire(self.redis, self.name)
        except Unavailable as error:  # leases run out, and reports grow old
            log.warning("jobs_not_handed_on", reason=str(error))
        finally:
            os._exit(HUNG_ENGINE)

    def _note_step(self, batch: Sequence[Slot], step_s: float) -> None:
        metrics.observe_step(batch, step_s)
        self.pace.observe(batch, step_s)

    def _first_models(self) -> list[str]:
        """Choose what to hold before the first message: the plan's, the settings', the first."""
        settings = self.settings
        plan = self._plan()
        assigned = plan.assignments.get(self.name) if plan is not None else None
        if assigned in self._models:
            return [assigned]
        chosen = list(settings.preload) or sorted(self._models)[:1]
        if not chosen or not set(chosen) <= self._models.keys():
            raise ConfigurationError(
                f"ATELIER_PRELOAD {chosen}: {settings.models_dir} has {sorted(self._models)}"
            )
        return chosen

    def _plan(self) -> Plan | None:
        try:
            return fleet.read_plan(self.redis)
        except Unavailable:
            return None


def full_name(label: str) -> str:
    """Name a worker as Celery does: `<label>@<host>`."""
    return label if "@" in label else f"{label}@{socket.gethostname()}"
