"""Benchmark the job path without a model: latency from submit to engine, jobs a second.

Everything is real but the model: api, scheduler, Redis-protocol server with its append-only file,
upkeep, a worker with its CPU process, images put on disk, Celery's events on. The model is the
`noop` family: it takes its steps and makes a grey image. Submits per CPU second: `bench.submit`.

    python -m bench.path --quick
"""

import asyncio
import tempfile
import time
from contextlib import closing
from pathlib import Path

import httpx
import psutil
import typer

from bench.parts.report import Figure, at_least, at_most, finish, machine, percentile, plain
from bench.parts.served import BODY, served
from cli.stack.ports import free_port
from core.job import Job, JobStatus
from core.model import Model
from storage.jobs.jobs import JobStore
from storage.jobs.submit import NewJob
from storage.redis.connect import connect
from storage.redis.stats import read_stats
from tests.rig import Rig, a_rig, new_job

MODEL = Model(name="noop", family="noop", step_s=0.001)
P50_MS, P99_MS, JOBS_PER_S = 25.0, 100.0, 300.0

#: Seconds between two submits to an idle service: each finds it asleep.
PAUSE_S = 0.1


def start(rig: Rig) -> httpx.Client:
    """Start the whole service; return a client of its api once jobs went all the way."""
    client = served(rig)
    for _ in range(5):
        one_job(client)
    return client


def one_job(client: httpx.Client) -> tuple[str, float]:
    """Submit one job; return its id and when the request was sent (epoch s)."""
    sent_at = time.time()
    answer = client.post("/v1/jobs", json=BODY)
    if not answer.is_success:
        raise SystemExit(answer.text)
    return answer.json()["id"], sent_at


def admissions_ms(rig: Rig, client: httpx.Client, samples: int) -> list[float]:
    """Measure from sending a submit to its first slot in the engine, one job at a time."""
    sent = []
    for _ in range(samples):
        sent.append(one_job(client))
        time.sleep(PAUSE_S)
    return [admitted_after_ms(rig.job(job_id), sent_at) for job_id, sent_at in sent]


def admitted_after_ms(job: Job, sent_at: float) -> float:
    """Client, store and worker share this machine's clock."""
    if job.status is not JobStatus.SUCCEEDED or job.started_at is None:
        raise SystemExit(f"job {job.id} is {job.status}: {job.failure}")
    return (job.started_at + job.timing.prepare_s - sent_at) * 1e3


async def jobs_per_s(rig: Rig, count: int) -> tuple[float, float]:
    """Queue many jobs at once, and measure how fast one worker ends them.

    Units: jobs per second; CPU ms of the worker's processes per job
    """
    redis = connect(rig.redis.url)
    jobs = [new_job(model=MODEL.name, steps=1) for _ in range(count)]
    before = (await read_stats(redis))["finished"]
    worker = psutil.Process(rig.processes["worker"].pid)
    cpu_s, began = cpu_of(worker), time.perf_counter()
    await submit(JobStore(redis, max_queue=count + 1), jobs)
    while (await read_stats(redis))["finished"] < before + count:
        await asyncio.sleep(0.02)
    wall_s, cpu_s = time.perf_counter() - began, cpu_of(worker) - cpu_s
    failed = [job for job in jobs if (await JobStore(redis, max_queue=1).get(job.id)).failure]
    await redis.aclose()
    if failed:
        raise SystemExit(f"{len(failed)} jobs failed")
    return count / wall_s, cpu_s / count * 1e3


async def submit(store: JobStore, jobs: list[NewJob]) -> None:
    """Queue jobs a hundred a trip, as a busy api does."""
    for at in range(0, len(jobs), 100):
        await store.submit(jobs[at : at + 100])


def cpu_of(process: psutil.Process) -> float:
    """CPU seconds of a process and its children so far."""
    family = [process, *process.children(recursive=True)]
    return float(sum(sum(p.cpu_times()[:2]) for p in family))


def run(folder: Path, samples: int, jobs: int, rounds: int) -> dict[str, Figure]:
    """Measure both; of the rates the best round counts: others use this machine too."""
    api, scheduler = free_port(), free_port()
    env = {
        "ATELIER_API_PORT": str(api),
        "ATELIER_PUBLIC_URL": f"http://127.0.0.1:{api}",
        "ATELIER_SCHEDULER_PORT": str(scheduler),
        "ATELIER_SCHEDULER_URL": f"http://127.0.0.1:{scheduler}",
        "ATELIER_PRELOAD": f'["{MODEL.name}"]',
        "ATELIER_LEASE_S": "15",
        "ATELIER_BEAT_S": "3",
    }
    with a_rig(folder, models=[MODEL], **env) as rig, closing(start(rig)) as client:
        waits = admissions_ms(rig, client, samples)
        rates = [asyncio.run(jobs_per_s(rig, jobs)) for _ in range(rounds)]
    best, cpu_ms = max(rates)
    return {
        "submit to admission, idle, p50": at_most(percentile(waits, 0.5), P50_MS, "ms"),
        "submit to admission, idle, p99": at_most(percentile(waits, 0.99), P99_MS, "ms"),
        "one worker, no-op model": at_least(best, JOBS_PER_S, "jobs/s"),
        "one worker, no-op model, worst round": plain(min(rates)[0], "jobs/s"),
        "CPU of a worker's processes": plain(cpu_ms, "ms/job"),
    }


def main(
    quick: bool = typer.Option(False, help="Fewer samples, wider noise."),
    json: bool = typer.Option(False, help="Only the JSON object."),
) -> None:
    """Measure the way of a job without its model. Example: `python -m bench.path --quick`."""
    samples, jobs, rounds = (50, 600, 3) if quick else (300, 2000, 3)
    with tempfile.TemporaryDirectory(prefix="atelier-path-") as folder:
        figures = run(Path(folder), samples, jobs, rounds)
    raise SystemExit(finish("path", figures, where=machine(), is_json=json))


if __name__ == "__main__":
    typer.run(main)
