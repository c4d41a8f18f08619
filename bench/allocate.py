"""How long does one decision take? First version: the fleets of up to 64 devices only.

Every figure is over random instances of a kind, from light load to overload, each with other
models resident before, solved to the gap that the service uses for fleets of this size. The bar
is Argus' own: a solver under 100 ms. It is held against CPU time, which is what one thread takes
on a core of its own; wall time is shown beside it. 160 devices with 17 applications and 10,000
devices come with the full scheduler.

    python -m bench.allocate --quick
"""

import json
import platform
import random
import time

import typer

from core.variant import Level
from scheduler.allocate import allocate
from scheduler.decide import gap_for
from scheduler.instance import Demand, Instance

BAR_MS = 100.0
KINDS = {  # devices, models, affinity classes, applications
    "one model, 1 device": (1, 1, 1, 1),
    "two models, 2 devices": (2, 2, 1, 1),
    "6 levels, 8 devices": (8, 6, 6, 1),
    "6 levels, 16 devices": (16, 6, 6, 1),
    "6 levels, 32 devices": (32, 6, 6, 1),
    "6 levels, 64 devices": (64, 6, 6, 1),
    "6 levels, 64 devices, 4 applications": (64, 6, 6, 4),
}


def draw(seed: int, devices: int, models: int, classes: int, applications: int) -> Instance:
    """Draw an instance: quality grows with time, a little differently for each class."""
    rng = random.Random(seed)
    levels = tuple(Level(model=f"m{i}") for i in range(models))
    times = {x.name: rng.uniform(1.0, 4.5) for x in levels}
    names = tuple(level.model for level in levels)
    capacity = 0.9 * devices / min(times.values())
    weights = {(q, c): rng.random() for q in range(applications) for c in range(classes)}
    load = rng.uniform(0.1, 1.2) * capacity / sum(weights.values())
    return Instance(
        devices={"gpu": devices},
        levels=levels,
        demands=tuple(
            Demand(application=f"q{q}", affinity=f"c{c}", models=names, rate=load * weight)
            for (q, c), weight in weights.items()
        ),
        tau={(name, "gpu"): seconds for name, seconds in times.items()},
        quality={
            (f"c{c}", name): min(1.0, 0.6 + 0.08 * seconds + rng.uniform(-0.1, 0.1))
            for c in range(classes)
            for name, seconds in times.items()
        },
        worth={name: 0.6 + 0.08 * times[f"{name}@0"] for name in names},
        load={("gpu", name): rng.uniform(3.0, 10.0) for name in names},
        held={("gpu", name): devices // models for name in names},
        gap=gap_for(devices),
    )


def measure(kind: str, samples: int) -> tuple[list[float], list[float]]:
    """Solve that many instances of a kind; return sorted CPU and wall times.

    Units: milliseconds
    """
    cpu, wall = [], []
    for seed in range(samples):
        instance = draw(seed, *KINDS[kind])
        began, began_cpu = time.perf_counter(), time.process_time()
        allocate(instance)
        cpu.append((time.process_time() - began_cpu) * 1e3)
        wall.append((time.perf_counter() - began) * 1e3)
    return sorted(cpu), sorted(wall)


def figure(value: float, bar: float | None) -> dict[str, object]:
    """Put one number beside its bar."""
    is_ok = None if bar is None else value <= bar
    return {"value": round(value, 3), "unit": "ms", "bar": bar and f"<= {bar:g}", "ok": is_ok}


def percentile(taken: list[float], share: float) -> float:
    """Read a percentile off sorted samples."""
    return taken[min(len(taken) - 1, int(share * len(taken)))]


def main(
    quick: bool = typer.Option(False, help="20 instances of each kind instead of 200."),
    as_json: bool = typer.Option(False, "--json", help="The last line only."),
) -> None:
    """Measure the solver. Example: `python -m bench.allocate --quick`."""
    allocate(draw(0, 2, 2, 1, 1))  # loads the solver
    figures: dict[str, dict[str, object]] = {}
    for kind in KINDS:
        cpu, wall = measure(kind, 20 if quick else 200)
        p50, p99, p99_wall = percentile(cpu, 0.5), percentile(cpu, 0.99), percentile(wall, 0.99)
        figures[f"{kind}, p50 CPU"] = figure(p50, None)
        figures[f"{kind}, p99 CPU"] = figure(p99, BAR_MS)
        figures[f"{kind}, p99 wall"] = figure(p99_wall, None)
        if not as_json:
            typer.echo(f"{kind:38} CPU p50 {p50:6.1f} p99 {p99:6.1f} ms  wall p99 {p99_wall:6.1f}")
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    typer.echo(json.dumps({"bench": "allocate", "machine": machine, "figures": figures}))
    raise SystemExit(0 if all(row["ok"] is not False for row in figures.values()) else 1)


if __name__ == "__main__":
    typer.run(main)
