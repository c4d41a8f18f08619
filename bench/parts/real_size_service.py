"""The embedded service with a model of real size: how soon it is ready, and a step of minutes."""

import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec

from catalog.adding import add_folder
from cli.stack.running import running

PATIENCE_S = 1800.0  #: a step of this size takes minutes where others use the cores
LOOK_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A service from its start to the end of one job. Units: seconds."""

    ready_s: float  #: until it takes jobs
    image_s: float  #: from there to its first image: the job waited for the model
    step_s: float  #: the image's only step and what is around it, as the worker counts it
    attempts: int
    status: str


class _Job(msgspec.Struct):
    id: str
    status: str
    attempts: int
    started_at: float | None
    finished_at: float | None


def serve(folder: Path, pixels: int, *, dtype: str) -> Served:
    """Start a service that has never seen a model, and have it make an image of one step."""
    models = folder.parent / "served"
    name = add_folder(folder, models).model.name
    began = time.perf_counter()
    env = {"ATELIER_MODELS_DIR": str(models), "ATELIER_DTYPE": dtype, "ATELIER_MEMORY_GIB": "16"}
    with running(models.parent / "service", workers=1, env=env) as up:
        ready_s = time.perf_counter() - began
        with httpx.Client(base_url=up.addresses.api, timeout=30.0) as http:
            job = _follow(http, _submit(http, name, pixels))
            ended = time.perf_counter() - began
    started, finished = job.started_at or 0.0, job.finished_at or 0.0
    return Served(
        ready_s=ready_s,
        image_s=ended - ready_s,
        step_s=finished - started,
        attempts=job.attempts,
        status=job.status,
    )


def _submit(http: httpx.Client, name: str, pixels: int) -> _Job:
    body = {"prompt": "a red cube", "model": name, "steps": 1, "quality": "exact"}
    size = {"width": pixels, "height": pixels}
    return _read(http.post("/v1/jobs", json=body | size))


def _follow(http: httpx.Client, job: _Job) -> _Job:
    ends_at = time.perf_counter() + PATIENCE_S
    while job.finished_at is None and time.perf_counter() < ends_at:
        time.sleep(LOOK_S)
        job = _read(http.get(f"/v1/jobs/{job.id}"))
    if job.finished_at is None:
        raise SystemExit(f"the job is still {job.status} after {PATIENCE_S:.0f} s")
    return job


def _read(answer: httpx.Response) -> _Job:
    if answer.is_error:
        raise SystemExit(f"{answer.status_code}: {answer.text}")
    return msgspec.json.decode(answer.content, type=_Job)
