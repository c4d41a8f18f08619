"""Send twenty times the jobs that can be made, and let those who are refused come again.

Jobs come for a minute to workers in virtual time (`bench/parts/crowd`), with the measured costs of
`shapes-xl`; then no more come. Everybody who is refused comes again when told, or half of them do,
or nobody; or the queue is shorter than what could be waited for. Before there was admission by
time all were taken. Without `--quick` a live service of one worker is asked for twenty times what
it can make as well, for four seconds, and every refused client comes again until it is served.

    python -m bench.admission --quick
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer

from bench.deadlines import DEVICE, MODEL, SLO_FACTOR, SLOTS, ZOO
from bench.parts.crowd import Client, Crowd
from bench.parts.report import Figure, at_least, at_most, finish, machine, median, percentile, plain
from bench.parts.returning import Visitor, visits
from catalog.models import read_models
from cli.stack.running import running
from core.boards.cost import Cost
from core.model import Model
from core.settings import Settings
from scheduler.profile.profile import Profile
from scheduler.profile.profile_file import read_measured

WORKERS, TIMES = 2, 20  #: times the capacity
MAX_QUEUE = 10_000
SMALL_QUEUE = 40
#: Of the live service: seconds of jobs, steps of each, and how many SLOs one may wait.
LIVE_S, LIVE_STEPS, LIVE_SLOS = 4.0, 20, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is served, and by whom."""

    model: Model
    cost: Cost
    slo_s: float

    @property
    def limit_s(self) -> float:
        """After so long a job is to be done, or it is refused."""
        return float(Settings.model_fields["max_wait_slos"].default) * self.slo_s

    @property
    def capacity(self) -> float:
        """Jobs per second of full batches."""
        steps, fixed_s = self.model.default_steps, self.cost.fixed_s
        return WORKERS * SLOTS / (steps * self.cost.step_s(SLOTS) + SLOTS * fixed_s)


def measured() -> Setting:
    """Read what a job costs, and what it is promised by."""
    models = read_models(ZOO / "weights")
    profile = Profile(models=models, measured=read_measured(ZOO / "profile.json"))
    cost = profile.cost(MODEL, DEVICE)
    slo_s = SLO_FACTOR * cost.image_s(models[MODEL].default_steps)
    return Setting(model=models[MODEL], cost=cost, slo_s=slo_s)


def crowd(setting: Setting, *, seconds: float, patient: float, seed: int) -> list[Client]:
    """Draw clients, of whom a share comes again when told."""
    rng = np.random.default_rng(seed)
    rate = TIMES * setting.capacity
    ends = np.cumsum(rng.exponential(1 / rate, int(rate * seconds)))
    return [
        Client(
            at=float(at),
            steps=setting.model.default_steps,
            deadline_s=setting.limit_s,
            ticket=str(number),
            is_patient=bool(rng.random() < patient),
        )
        for number, at in enumerate(ends)
    ]


def served(
    setting: Setting, clients: Sequence[Client], *, max_queue: int = MAX_QUEUE
) -> Sequence[Client]:
    """Let them come."""
    door = Crowd(setting.cost, setting.model, workers=WORKERS, slots=SLOTS, max_queue=max_queue)
    door.serve(clients, seconds=len(clients) / setting.capacity * 1.5)
    return clients


def errors(clients: Sequence[Client]) -> list[float]:
    """Compare when each was told to come again with when it was taken. Units: relative."""
    pairs = [
        (client.told_s, client.taken_at - client.told_at)
        for client in clients
        if client.told_s is not None and client.taken_at is not None
    ]
    return [abs(told - came) / max(1.0, came) for told, came in pairs]


def goodput(setting: Setting, clients: Sequence[Client], seconds: float) -> float:
    """Count who has an image within the limit, while so many come. Units: of capacity."""
    made = [c for c in clients if c.done_s is not None and c.at + c.done_s <= seconds]
    in_time = [c for c in made if c.done_s is not None and c.done_s <= setting.limit_s]
    return len(in_time) / (setting.capacity * seconds)


def whole_s(clients: Sequence[Client]) -> float:
    """Say when the last image is done."""
    return max(c.at + c.done_s for c in clients if c.done_s is not None)


def main(
    quick: Annotated[bool, typer.Option(help="Twenty seconds of jobs, not a minute.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The last line only.")] = False,
) -> None:
    """Measure admission by time. Example: `python -m bench.admission --quick`."""
    setting, seconds = measured(), 20.0 if quick else 60.0
    unchecked = crowd(setting, seconds=seconds, patient=0.0, seed=0)
    for client in unchecked:
        client.is_checked = False
    before = goodput(setting, served(setting, unchecked, max_queue=10**9), seconds)
    worst_s = max(client.predicted_s for client in unchecked)
    figures: dict[str, Figure] = {
        "all taken: worst eta_s": plain(worst_s / setting.limit_s, "of limit"),
        "all taken: goodput": plain(before, "of capacity"),
    }
    for name, patient in (("all come again", 1.0), ("half do", 0.5), ("nobody does", 0.0)):
        clients = served(setting, crowd(setting, seconds=seconds, patient=patient, seed=0))
        figures |= _figures(name, setting, clients)
        share = goodput(setting, clients, seconds) / before
        figures[f"{name}: goodput"] = at_least(share, 0.95, "of that when all are taken")
    clients = served(
        setting, crowd(setting, seconds=seconds, patient=1.0, seed=0), max_queue=SMALL_QUEUE
    )
    off = errors(clients)
    figures["short queue: Retry-After off by, median"] = at_most(median(off), 0.3, "")
    figures["short queue: Retry-After off by, p90"] = at_most(percentile(off, 0.9), 0.5, "")
    if not quick:
        figures |= live()
    raise SystemExit(finish("admission", figures, where=machine("1 thread"), is_json=as_json))


def live() -> dict[str, Figure]:
    """Ask a live service of one worker and one model for more than it can make."""
    with TemporaryDirectory(prefix="atelier-bench-") as folder:
        models = Path(folder) / "models"
        models.mkdir()
        (models / MODEL).symlink_to(ZOO / "weights" / MODEL)
        env = {
            "ATELIER_MODELS_DIR": str(models),
            "ATELIER_CONTROLNETS_DIR": os.devnull,
            "ATELIER_LATENTS_GIB": "0",
            "ATELIER_SCORE_SHARE": "0",
            "ATELIER_MAX_WAIT_SLOS": str(LIVE_SLOS),
        }
        with running(Path(folder) / "data", env=env) as service:
            first = some_visitors(2 * SLOTS, rate=1e6)
            asyncio.run(visits(service.addresses.api, first))
            capacity = len(first) / max(each.done_at or 0.0 for each in first)
            count = int(TIMES * capacity * LIVE_S)
            visitors = some_visitors(count, rate=TIMES * capacity)
            asyncio.run(visits(service.addresses.api, visitors))
    return _live_figures(visitors)


def some_visitors(count: int, *, rate: float) -> list[Visitor]:
    """Let visitors come one after another, so many a second."""
    bodies = [{"prompt": "a red circle", "seed": n, "steps": LIVE_STEPS} for n in range(count)]
    return [Visitor(body=body, at=n / rate) for n, body in enumerate(bodies)]


def _live_figures(visitors: Sequence[Visitor]) -> dict[str, Figure]:
    off = [each.error for each in visitors if each.error is not None]
    limits = [LIVE_SLOS * each.slo_s for each in visitors]
    eta = max(each.eta_s / limit_s for each, limit_s in zip(visitors, limits, strict=True))
    took = [each.took_s / limit_s for each, limit_s in zip(visitors, limits, strict=True)]
    return {
        "live: worst eta_s at acceptance": at_most(eta, 1.25, "of limit"),
        "live: done after, p90": plain(percentile(took, 0.9), "of limit"),
        "live: done after, p99": at_most(percentile(took, 0.99), 1.5, "of limit"),
        "live: Retry-After off by, median": at_most(median(off), 0.3, ""),
        "live: Retry-After off by, p90": at_most(percentile(off, 0.9), 0.5, ""),
    }


def _figures(name: str, setting: Setting, clients: Sequence[Client]) -> dict[str, Figure]:
    taken = [client for client in clients if client.taken_at is not None]
    worst_s = max(client.predicted_s for client in taken)
    waits = [client.done_s / setting.limit_s for client in taken if client.done_s is not None]
    figures = {
        f"{name}: worst eta_s at acceptance": at_most(worst_s / setting.limit_s, 1.1, "of limit"),
        f"{name}: done after, p99": at_most(percentile(waits, 0.99), 1.25, "of limit"),
        f"{name}: taken": plain(len(taken) / len(clients), "of all"),
        f"{name}: all done after": at_most(
            whole_s(clients) * setting.capacity / len(taken), 1.25, "of what it takes"
        ),
    }
    if off := errors(clients):
        figures[f"{name}: Retry-After off by, median"] = at_most(median(off), 0.3, "")
        figures[f"{name}: Retry-After off by, p90"] = at_most(percentile(off, 0.9), 0.5, "")
    return figures


if __name__ == "__main__":
    typer.run(main)
