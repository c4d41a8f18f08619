"""Workers of a whole service, killed or asked to end while they make one image."""

import re
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from bench.parts.interrupted import MODELS, STEPS
from core.job import Job, JobStatus
from storage.jobs.submit import NewJob
from tests.rig import Rig, a_rig, new_job

MODEL = "shapes-xl"
WORKERS = ("w0", "w1")
PATIENCE_S = 120.0


@dataclass(slots=True, kw_only=True)
class Interruptions:
    """What each of them cost."""

    lost: list[int] = field(default_factory=list)  #: steps of a kill, at most: those told by then
    lost_handed: list[int] = field(default_factory=list)  #: the same of a SIGTERM
    handed_s: list[float] = field(default_factory=list)  #: from SIGTERM until the job is queued
    different: int = 0  #: images that are not bit by bit those that nobody interrupted


def interrupt(folder: Path, *, times: int) -> Interruptions:
    """Kill a worker so many times, each at another step, and ask another to end as often."""
    found, draw = Interruptions(), Random(0)
    env = {
        "ATELIER_MODELS_DIR": str(MODELS.resolve()),
        "ATELIER_PRELOAD": f'["{MODEL}"]',
        "ATELIER_SHUTDOWN_S": "0",
    }
    with a_rig(folder, models=(), **env) as rig:
        rig.upkeep()
        for name in WORKERS:
            rig.worker(name)
        expected = _digests(_made(rig, _submit(rig)))
        for number in range(2 * times):
            for name in WORKERS:
                rig.wait_for_worker(name, PATIENCE_S)
            is_kill = number % 2 == 0
            step = int((number // 2 + draw.random()) * STEPS / times)
            done = _interrupt_one(rig, found, step, is_kill=is_kill)
            found.different += _digests(done) != expected
    return found


def _interrupt_one(rig: Rig, found: Interruptions, step: int, *, is_kill: bool) -> Job:
    """Interrupt the worker of a job once it has come so far; note what that cost."""
    job = _submit(rig)
    rig.wait_until(lambda: rig.job(job.id).progress.step >= step, PATIENCE_S)
    held = rig.job(job.id)
    name = str(held.worker).split("@")[0]
    process, began = rig.processes[name], time.monotonic()
    process.send_signal(signal.SIGKILL if is_kill else signal.SIGTERM)
    if not is_kill:
        rig.wait_until(lambda: not _is_held(rig.job(job.id), held), PATIENCE_S)
        found.handed_s.append(time.monotonic() - began)
    process.wait(PATIENCE_S)
    reached = max(step, held.progress.step)
    done = _made(rig, job)
    lost = 0 if done.fence == held.fence else max(0, reached - _resumed_at(rig, job.id))
    (found.lost if is_kill else found.lost_handed).append(lost)
    rig.worker(name)
    return done


def _is_held(job: Job, held: Job) -> bool:
    """Tell whether the claim that `held` was seen under is still in force."""
    return job.status is JobStatus.RUNNING and job.fence == held.fence


def _resumed_at(rig: Rig, job_id: str) -> int:
    """Read at which step a job was gone on with, by the logs; 0 where it began anew."""
    logs = "".join((rig.folder / f"{name}.log").read_text() for name in WORKERS)
    steps = re.findall(rf"job_resumed.*{job_id}.*\b0: (\d+)", logs)
    return int(steps[-1]) if steps else 0


def _submit(rig: Rig) -> NewJob:
    job = new_job(model=MODEL, steps=STEPS, seed=5)
    rig.submit(job)
    return job


def _made(rig: Rig, job: NewJob) -> Job:
    return rig.wait_for(job.id, JobStatus.SUCCEEDED, timeout_s=PATIENCE_S)


def _digests(job: Job) -> list[str]:
    return [image.sha256 for image in job.images]
