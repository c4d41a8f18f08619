"""Runs of `bench.delivered`: each policy in each world once, in processes, kept in a file."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from bench.parts.delivered_worlds import MODELS, REGIMES
from core.log import configure
from simulator.outcome import PolicyOutcome
from simulator.run import simulate
from simulator.world import World

EVERY_S = 300.0  #: loads are counted in so long


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One policy in one world."""

    regime: str
    policy: str
    seed: int
    seconds: float
    is_misjudged: bool  #: every model takes a tenth more or less than its profile says

    def world(self) -> World:
        """Make the world."""
        made = REGIMES[self.regime](self.seed, self.seconds)
        wrong = {name: 0.9 if i % 2 else 1.1 for i, name in enumerate(MODELS)}
        return replace(made, misjudged=wrong) if self.is_misjudged else made


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one policy delivered in one world."""

    goodput: float
    late: float
    quality: float
    loads_each: float  #: of models, in `EVERY_S`
    promised: float  #: quality that plans promised above what was delivered; nan: they did not
    deciding_s: float  #: CPU time of the middle decision


Runs = dict[Trial, Run]


def run(trial: Trial) -> Run:
    """Simulate it."""
    world = trial.world()
    found = simulate(world, trial.policy)
    made = ~np.isnan(found.ended_s)
    return Run(
        goodput=found.goodput,
        late=float(found.was_late.mean()),
        quality=float(np.nanmean(found.quality[made])) if made.any() else 0.0,
        loads_each=found.loads / (world.workload.duration_s / EVERY_S),
        promised=_promised(found),
        deciding_s=float(np.median([note.deciding_s for note in found.plans])),
    )


def run_all(trials: Sequence[Trial], kept: Path | None, processes: int) -> Iterator[Runs]:
    """Give all runs so far, after each that ends; those that a file holds are not made again."""
    runs = {trial: known for trial, known in read(kept).items() if trial in set(trials)}
    yield runs
    missing = [trial for trial in trials if trial not in runs]
    if not processes or not missing:
        return
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_begin
    ) as pool:
        coming = {pool.submit(run, trial): trial for trial in missing}
        for each in as_completed(coming):
            runs[coming[each]] = each.result()
            _keep(kept, coming[each], each.result())
            yield runs


def complete(runs: Mapping[Trial, Run], policies: Sequence[str]) -> Runs:
    """Leave out the worlds that some policy has not been in: means are over the same worlds."""
    held: dict[tuple[str, int], set[str]] = {}
    for trial in runs:
        held.setdefault((trial.regime, trial.seed), set()).add(trial.policy)
    return {t: found for t, found in runs.items() if held[t.regime, t.seed] >= set(policies)}


def mean(runs: Sequence[Run]) -> Run:
    """Average figure by figure."""
    names = Run.__dataclass_fields__
    return Run(**{name: float(np.mean([getattr(each, name) for each in runs])) for name in names})


def read(kept: Path | None) -> Runs:
    """Read the runs that a file holds; a line that was not written to its end is none."""
    found: Runs = {}
    for line in kept.read_text().splitlines() if kept is not None and kept.is_file() else ():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[Trial(**row["trial"])] = Run(**row["run"])
    return found


def _keep(kept: Path | None, trial: Trial, found: Run) -> None:
    if kept is not None:
        with kept.open("a") as file:
            file.write(json.dumps({"trial": asdict(trial), "run": asdict(found)}) + "\n")


def _begin() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    configure("error", is_json=False)


def _promised(found: PolicyOutcome) -> float:
    """Compare the quality of each plan with that of the jobs that came while it was in force."""
    known = [(note.at_s, note.quality) for note in found.plans if note.quality is not None]
    if not known or np.isnan(found.quality).all():
        return float("nan")
    at = np.array([moment for moment, _ in known])
    plan = np.clip(np.searchsorted(at, found.at_s, side="right") - 1, 0, None)
    promised = np.array([quality for _, quality in known])[plan]
    return float(np.nanmean(promised - found.quality))
