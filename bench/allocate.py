"""Benchmark allocation: solve time, and plan quality against Argus and Proteus.

Times are over random instances of a kind, from light load to overload, each with other models
resident before, solved to the gap that the service uses for fleets of this size: 1e-6 up to 16
devices, 0.1 % up to 64, 1 % beyond. The bars are Argus' solver (under 100 ms) and a twelfth of
what Proteus allows its own (60 s). They are held against CPU time, which is what one thread takes
on a core of its own; wall time is shown beside it.

The comparison prices an allocation as the papers do: mean quality of what is asked for, less 20
times the share that nobody serves. Loads cost nothing there.

    python -m bench.allocate --quick
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import typer

from bench.parts.instances import Kind, draw
from bench.parts.report import (
    Figure,
    Instant,
    at_least,
    at_most,
    finish,
    machine,
    median,
    percentile,
    plain,
)
from scheduler.allocation.allocate import allocate
from scheduler.allocation.objective import saturation, value
from scheduler.allocation.policies.level_choice import PAPERS
from scheduler.allocation.problem import Allocation, Instance
from scheduler.allocation.registry import find_policy

ARGUS_MS = 100.0
SMALL = {
    "1 device, 1 model": Kind(devices=1, models=1),
    "2 devices, 2 models": Kind(devices=2, models=2),
    "8 devices, 6 models": Kind(devices=8, models=6, classes=6),
    "16 devices, 6 models": Kind(devices=16, models=6, classes=6),
    "32 devices, 6 models": Kind(devices=32, models=6, classes=6),
    "64 devices, 6 models": Kind(devices=64, models=6, classes=6),
    "64 devices, 6 K": Kind(devices=64, models=1, classes=6, skips=(0, 5, 10, 15, 20, 25)),
    "64 devices, 6 models, 4 applications": Kind(devices=64, models=6, classes=6, applications=4),
}
MANY_APPLICATIONS = Kind(devices=160, models=6, types=3, applications=17, is_shared=False)
MANY_DEVICES = replace(MANY_APPLICATIONS, devices=10_000)
#: Small enough to be solved to the last millionth, with all that tells policies apart.
COMPARED = [
    Kind(
        devices=devices,
        models=models,
        types=types,
        classes=3,
        applications=applications,
        skips=(0, 10, 20),
    )
    for devices in (1, 3, 8, 12)
    for models, types, applications in ((1, 1, 1), (3, 1, 1), (3, 2, 2))
]


def timed(kind: Kind, samples: int) -> Iterator[tuple[Instant, Allocation]]:
    """Allocate that many instances of a kind; give the time and the answer of each."""
    for seed in range(samples):
        instance = draw(kind, seed)
        began = Instant.now()
        allocation = allocate(instance)
        yield Instant.now() - began, allocation


def small_fleets(samples: int, tell: Callable[[str], None]) -> dict[str, Figure]:
    """Time fleets of up to 64 devices."""
    figures: dict[str, Figure] = {}
    for name, kind in SMALL.items():
        tell(name)
        taken = [spent for spent, _ in timed(kind, samples)]
        cpu = [spent.cpu_s * 1e3 for spent in taken]
        wall = [spent.wall_s * 1e3 for spent in taken]
        figures[f"{name}, p50 CPU"] = plain(median(cpu), "ms")
        figures[f"{name}, p99 CPU"] = at_most(percentile(cpu, 0.99), ARGUS_MS, "ms")
        figures[f"{name}, p99 wall"] = plain(percentile(wall, 0.99), "ms")
    return figures


def large(name: str, kind: Kind, samples: int, bar_s: float) -> dict[str, Figure]:
    """Time fleets for which a gap is left."""
    done = list(timed(kind, samples))
    cpu = [spent.cpu_s for spent, _ in done]
    gaps = [100 * (allocation.gap or 0.0) for _, allocation in done]
    return {
        f"{name}, p50 CPU": plain(median(cpu), "s"),
        f"{name}, worst CPU": at_most(max(cpu), bar_s, "s"),
        f"{name}, worst wall": plain(max(spent.wall_s for spent, _ in done), "s"),
        f"{name}, worst gap": at_most(max(gaps), 1.0, "%"),
    }


def compared(samples: int) -> dict[str, Figure]:
    """Set the joint plan beside those of the two papers it joins."""
    instances = [
        replace(draw(COMPARED[seed % len(COMPARED)], seed), prices=PAPERS, gap=1e-6)
        for seed in range(samples)
    ]
    ours = [_value(allocate, instance) for instance in instances]
    figures = {"compared, instances": plain(float(samples), "")}
    for name in ("argus", "proteus"):
        theirs = [_value(find_policy(name), instance) for instance in instances]
        gains = [mine[0] - other[0] for mine, other in zip(ours, theirs, strict=True)]
        served = [
            mine[0] - other[0]
            for mine, other in zip(ours, theirs, strict=True)
            if max(mine[1], other[1]) < 1e-6
        ]
        figures[f"gain over {name}, least"] = at_least(min(gains), -1e-4, "")
        least = 100 * min(served)
        figures[f"gain over {name}, where both serve all, least"] = at_least(least, -0.01, "points")
        figures[f"gain over {name}, where both serve all, mean"] = plain(
            100 * sum(served) / len(served), "points"
        )
        figures[f"gain over {name}, where both serve all, most"] = plain(
            100 * max(served), "points"
        )
    return figures


def _value(policy: Callable[[Instance], Allocation], instance: Instance) -> tuple[float, float]:
    allocation = policy(instance)
    return value(instance, allocation), saturation(instance, allocation)


def main(
    quick: bool = typer.Option(False, help="A tenth of the instances."),
    as_json: bool = typer.Option(False, "--json", help="The last line only."),
) -> None:
    """Measure the allocation. Example: `python -m bench.allocate --quick`."""

    def tell(what: str) -> None:
        if not as_json:
            typer.echo(f"{what} ...")

    share = 10 if quick else 1
    allocate(draw(SMALL["2 devices, 2 models"], 0))  # loads the solver
    figures = small_fleets(200 // share, tell)
    tell("large fleets")
    figures |= large("160 devices, 17 applications", MANY_APPLICATIONS, 20 // share, bar_s=5.0)
    figures |= large("10,000 devices, 17 applications", MANY_DEVICES, 20 // share, bar_s=1.0)
    tell("other policies")
    figures |= compared(1000 // share)
    raise SystemExit(finish("allocate", figures, where=machine("1 thread"), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
