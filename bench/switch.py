"""Benchmark a live service when the object store stalls, and when a worker dies.

The embedded stack, two workers, two models of the zoo, and a real S3 server behind a proxy that
first holds everything, then delays it, then lets it through. Under a load that needs latents
(AC), the service must go over to smaller models (SM) and come back, with no failed job, and do
what its plan says again within a period after the small model is resident. Then a worker is
killed: there must be a plan without it within 5 s.

    python -m bench.switch --quick
"""

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import typer

from bench.parts.live import PlanSeen, PlanWatch, capacity, connect, drive, service
from bench.parts.report import Figure, at_least, at_most, finish, machine, plain
from bench.parts.stalling import Proxy, stalling
from cli.stack.running import Running
from core.settings import get_settings
from loadgen.arrivals.gaps import poisson
from loadgen.ask import TimedRequest
from loadgen.mixes.mix import draw
from loadgen.sample import ClientOutcome, RequestSample
from tests.servers import S3_ACCESS_KEY, S3_SECRET_KEY, s3_server
from zoo.scenes import held_out

MODELS = ("shapes-s", "shapes-turbo")
LOAD = 0.6  #: of the capacity of the large model at K = 0: more than the plan gives it
PERIOD_S = 10.0  #: of the plan
HELD_S = 6.0  #: nothing reaches the store, and no image can be delivered
DELAY_S = 0.7  #: of each request afterwards: too late for latents, not for images
REPLAN_S = 5.0
WORKER = "worker-2"
SEED = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long each part lasts, seconds."""

    warm_up: float  #: until enough latents are kept
    stalled: float
    restored: float
    killed: float

    @property
    def whole(self) -> float:
        return self.warm_up + self.stalled + self.restored + self.killed


FULL = Times(warm_up=75.0, stalled=75.0, restored=60.0, killed=40.0)
QUICK = Times(warm_up=45.0, stalled=45.0, restored=40.0, killed=25.0)


@dataclass(slots=True, kw_only=True)
class Moments:
    """When things happened, seconds after the start; infinite: never."""

    stalled: float = float("inf")
    restored: float = float("inf")
    killed: float = float("inf")
    ended: float = float("inf")


@dataclass(slots=True, kw_only=True)
class Found:
    """One run."""

    load: float  #: jobs/s
    samples: Sequence[RequestSample]
    plans: PlanWatch
    moments: Moments = field(default_factory=Moments)

    def first(self, is_it: Callable[[PlanSeen], bool], after: float, before: float) -> float:
        """Find the first moment in a stretch at which a plan was in force; infinite: never."""
        moments = (at for at, plan in self.plans.seen if after <= at < before and is_it(plan))
        return next(moments, float("inf"))

    def done_per_s(self, after: float, before: float) -> float:
        """Count the jobs that succeeded in a stretch of time, per second."""
        done = [s for s in self.samples if s.ending is ClientOutcome.SUCCEEDED]
        return sum(after <= s.ended_s < before for s in done) / max(1e-9, before - after)

    def asked_per_s(self, after: float, before: float) -> float:
        """Count the jobs asked for, those left out that the plan could not serve, per second."""
        due = [s for s in self.samples if after <= s.due_s < before]
        plans = [self.plans.at(s.due_s) for s in due]
        planned = sum(1.0 - plan.saturation for plan in plans if plan is not None)
        return planned / max(1e-9, before - after)


def models_in(folder: Path) -> Path:
    """Make a catalogue of a large and a small model."""
    known = get_settings().models_dir.resolve()
    folder.mkdir(parents=True)
    for name in MODELS:
        (folder / name).symlink_to(known / name)
    return folder


async def run(folder: Path, times: Times) -> Found:
    """Measure what the fleet can do, load it, and do it harm."""
    server = s3_server(folder / "s3")
    try:
        with stalling(server.url) as proxy, service(folder / "up", **env_of(folder, proxy)) as up:
            async with connect(up) as http:
                load = LOAD * await capacity(http, MODELS[0])
                plans, moments = PlanWatch(http), Moments()
                watching = asyncio.create_task(plans.run())
                harming = asyncio.create_task(harm(plans, proxy, up, times, moments))
                samples = await drive(http, asks_of(load, times))
                await harming
                watching.cancel()
    finally:
        server.stop()
    return Found(load=load, samples=samples, plans=plans, moments=moments)


def env_of(folder: Path, proxy: Proxy) -> dict[str, str]:
    """Point the service to the proxied store."""
    profile = get_settings().profile_path.resolve()
    models = models_in(folder / "zoo" / "weights")
    (folder / "zoo" / profile.name).symlink_to(profile)
    return {
        "ATELIER_MODELS_DIR": str(models),
        "ATELIER_PLAN_PERIOD_S": str(PERIOD_S),
        "ATELIER_OBJECT_BACKEND": "s3",
        "ATELIER_S3_ENDPOINT": proxy.url,
        "ATELIER_S3_ACCESS_KEY": S3_ACCESS_KEY,
        "ATELIER_S3_SECRET_KEY": S3_SECRET_KEY,
    }


def asks_of(load: float, times: Times) -> list[TimedRequest]:
    """Draw arrivals, and prompts that are near to each other."""
    prompts = [scene.caption for scene in held_out(1, 40, SEED)]
    arrivals = poisson(load, times.whole, seed=SEED)
    return list(draw(arrivals, prompts, seed=SEED).requests(seed=SEED))


async def harm(plans: PlanWatch, proxy: Proxy, up: Running, times: Times, moments: Moments) -> None:
    """Stall the store and restore it, then kill a worker."""
    await asyncio.sleep(times.warm_up)
    moments.stalled = plans.now
    proxy.hold()
    await asyncio.sleep(HELD_S)
    proxy.delay(DELAY_S)
    await asyncio.sleep(times.stalled - HELD_S)
    moments.restored = plans.now
    proxy.open()
    await asyncio.sleep(times.restored)
    moments.killed = plans.now
    os.kill(up.addresses.pids[WORKER], signal.SIGKILL)
    await asyncio.sleep(times.killed)
    moments.ended = plans.now


def figures(found: Found) -> dict[str, Figure]:
    """Lay a run beside what was promised."""
    at = found.moments
    accepted = [s for s in found.samples if s.accepted_s is not None]
    to_sm = found.first(lambda p: p.strategy == "sm", at.stalled, at.restored)
    resident = found.first(lambda p: p.strategy == "sm" and p.is_resident, at.stalled, at.restored)
    to_ac = found.first(lambda p: p.strategy == "ac", at.restored, at.killed)
    without = found.first(lambda p: not _has(p, WORKER), at.killed, at.ended)
    was_ac = found.first(lambda p: p.strategy == "ac" and p.skips, 0.0, at.stalled)
    switches = {p.switched.at for _, p in found.plans.seen if p.switched is not None}
    in_sm = (resident + PERIOD_S, at.restored)
    in_ac = (to_ac + PERIOD_S, at.killed)
    return {
        "load": plain(found.load, "jobs/s"),
        "jobs accepted": plain(len(accepted), ""),
        "accepted jobs that did not succeed": at_most(
            sum(s.ending is not ClientOutcome.SUCCEEDED for s in accepted), 0, ""
        ),
        "latents in the plan after": at_most(was_ac, at.stalled, "s"),
        "stalled store to smaller models": at_most(to_sm - at.stalled, 15.0, "s"),
        "until they are resident": plain(resident - to_sm, "s"),
        "done of what is planned, a period later": at_least(_kept(found, *in_sm), 0.9, ""),
        "restored store to latents": at_most(to_ac - at.restored, 30.0, "s"),
        "done of what is planned, with latents": at_least(_kept(found, *in_ac), 0.9, ""),
        "switches": at_most(len(switches), 2, ""),
        "killed worker to the next plan": at_most(without - at.killed, REPLAN_S, "s"),
    }


def _has(plan: PlanSeen, worker: str) -> bool:
    return any(name.startswith(f"{worker}@") for name in plan.workers)


def _kept(found: Found, after: float, before: float) -> float:
    """Share of what the plan could serve that was done; 0 if there was no such stretch."""
    if not after < before:
        return 0.0
    return found.done_per_s(after, before) / max(1e-9, found.asked_per_s(after, before))


def main(
    quick: bool = typer.Option(False, help="Three minutes in place of five."),
    json: bool = typer.Option(False, help="Only the JSON object."),
) -> None:
    """Stall the object store, then kill a worker. Example: `python -m bench.switch --quick`."""
    with tempfile.TemporaryDirectory(prefix="atelier-switch-") as folder:
        found = asyncio.run(run(Path(folder), QUICK if quick else FULL))
    where = machine("2 workers of 1 thread")
    raise SystemExit(finish("switch", figures(found), where=where, is_json=json))


if __name__ == "__main__":
    typer.run(main)
