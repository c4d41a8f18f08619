"""Simulate Argus' comparisons: Twitter-like, bursty and rising load, failures, a bad classifier.

Source: Argus §5, Fig. 10, 12, 16, 17, 19 and 20. Every policy runs in the same service, in virtual
time: its placement, its overflow to another level, its replanning. So what is compared are plans,
not systems. The world is the example that ships with the simulator (`simulator/examples/sdxl.json`
says what of it is printed and what is taken), one image at a time, an SLO of 12.6 s, a decision a
minute, jobs given up once they are late. 20 A100s, as the 8 of the text cannot serve its loads: 540
images a minute on 8 GPUs leave .89 s each, and none takes less than 2.18.

    python -m bench.argus --quick
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import typer

from bench.parts.report import Figure, at_least, at_most, finish, machine, plain
from bench.parts.simulated import Seen, figures_of, run, see
from core.log import configure
from loadgen.arrivals.patterns import Pattern, arrive
from loadgen.mixes.mix import draw
from loadgen.prompts import read_prompts
from scheduler.approximate_cache.strategy import Dependency
from simulator.inputs import EXAMPLE, EXAMPLE_PROMPTS, read_devices
from simulator.world import Outage, Stall, World

DEVICE, WORKERS = "a100", 20
SLO_S = 12.6
#: Seconds between two decisions: as the paper has it, and as the service has it for our own policy.
PERIOD_S, OWN_PERIOD_S = 60.0, 10.0
OURS = "atelier"
#: Mean rates, images/s. The diagonal goes from 41 to 490 a minute, where the fleet is full.
RATES = {Pattern.DIURNAL: 3.6, Pattern.BURSTS: 3.4, Pattern.DIAGONAL: 4.4}
#: Minutes of a load, where the paper's take 800: its two days pass sooner here.
OURS_MIN, QUICK_MIN = 120, 30

POLICIES = (
    "atelier",
    "argus",
    "ac",
    "pac",
    "proteus",
    "sommelier",
    "clipper-ha",
    "clipper-ht",
    "nirvana",
)
#: Of the paper's, those that scale quality with the load.
SCALING = ("proteus", "sommelier")
#: Quality that a policy must keep to be compared by its late jobs.
KEPT = 0.9
#: Late jobs that are noise: a thousandth of all.
NOISE = 0.001

#: What a policy showed, by name.
Table = dict[str, Seen]


def world(pattern: Pattern, minutes: float, seed: int) -> World:
    """Build the world of a load."""
    known = read_prompts(EXAMPLE_PROMPTS)
    at_s = arrive(pattern, RATES[pattern], 60.0 * minutes, seed=seed)
    return World(
        fleet={DEVICE: WORKERS},
        profile=read_devices(EXAMPLE).profile,
        workload=draw(at_s, known, seed=seed),
        prompts=known,
        slo_s=SLO_S,
        deadline_s=SLO_S,
        period_s=PERIOD_S,
        seed=seed,
    )


def table(of: World, policies: Sequence[str], tell: Callable[[str], None]) -> Table:
    """Simulate policies in a world."""
    found = {}
    for policy in policies:
        own = replace(of, period_s=OWN_PERIOD_S) if policy == OURS else of
        ((_, outcome),) = run(own, [policy])
        found[policy] = see(outcome)
        tell(f"  {policy}: {found[policy]}")
    return found


def orderings(name: str, seen: Table) -> Iterator[tuple[str, Figure]]:
    """Check what Fig. 16 and the text around it say, and what is asked of our own policy."""
    for other in (*SCALING, "clipper-ha", "nirvana"):
        off = seen["argus"].late - seen[other].late
        yield f"{name}: argus late, less {other}", at_most(off, NOISE, "share")
    for other in (*SCALING, "clipper-ht", "pac"):
        gain = seen["argus"].quality - seen[other].quality
        yield f"{name}: argus quality, over {other}", at_least(gain, -NOISE, "")
    keep = [s.late for p, s in seen.items() if s.quality >= KEPT and p != "atelier"]
    ours = seen["atelier"]
    yield f"{name}: atelier quality", at_least(ours.quality, KEPT, "of the best")
    if keep:
        off = ours.late - min(keep)
        yield f"{name}: atelier late, less the least that keep .9", at_most(off, NOISE, "share")
    bar = max(0.5 * seen["proteus"].late, NOISE)
    yield f"{name}: atelier late, against half of proteus'", at_most(ours.late, bar, "share")


def end_to_end(minutes: float, seed: int, tell: Callable[[str], None]) -> dict[str, Figure]:
    """Fig. 16 and 17: every policy under each load."""
    figures: dict[str, Figure] = {}
    for pattern in RATES:
        tell(f"{pattern} ...")
        seen = table(world(pattern, minutes, seed), POLICIES, tell)
        for policy, each in seen.items():
            figures |= figures_of(f"{pattern}, {policy}", each)
        figures |= dict(orderings(str(pattern), seen))
    return figures


def redistribution(minutes: float, seed: int) -> dict[str, Figure]:
    """Fig. 10: levels by class, at random, and with every prompt at its optimal level."""
    of = world(Pattern.BURSTS, minutes, seed)
    seen = {name: see(outcome) for name, outcome in run(of, ("argus", "pac"))}
    figures = {
        f"Fig. 10, {name}: quality": plain(each.quality, "of the best")
        for name, each in seen.items()
    }
    gain = seen["argus"].quality - seen["pac"].quality
    return figures | {"Fig. 10, by class, over at random": at_least(gain, 0.0, "")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Misled:
    """Prompts of which some are put into a class that is not theirs."""

    share: float

    def of(self, whole: World) -> World:
        """Mislead the classifier of a world."""
        rng = np.random.default_rng(whole.seed)
        own = whole.prompts.classes
        others = rng.permutation(np.array(own, object))
        wrong = rng.random(len(own)) < self.share
        classes = tuple(np.where(wrong, others, np.array(own, object)))
        return replace(whole, prompts=replace(whole.prompts, classes=classes))


def classifiers(minutes: float, seed: int) -> dict[str, Figure]:
    """Fig. 19: quality by how often the classifier is wrong."""
    of = world(Pattern.BURSTS, minutes, seed)
    figures: dict[str, Figure] = {}
    found = []
    for share in (0.0, 0.25, 0.5, 1.0):
        ((_, outcome),) = run(Misled(share=share).of(of), ("argus",))
        found.append(see(outcome).quality)
        figures[f"Fig. 19, {share:g} of the classes drawn at random"] = plain(
            found[-1], "of the best"
        )
    return figures | {"Fig. 19, all right over all wrong": at_least(found[0] - found[-1], 0.0, "")}


def failures(minutes: float, seed: int) -> dict[str, Figure]:
    """Fig. 20: half of the fleet gone twice; the store of latents silent twice, and no way out."""
    whole = 60.0 * minutes
    of = world(Pattern.DIURNAL, minutes, seed)
    spans = ((0.15 * whole, 0.2 * whole), (0.7 * whole, 0.75 * whole))
    half = replace(
        of,
        outages=tuple(Outage(begin_s=b, end_s=e, workers=WORKERS // 2) for b, e in spans),
    )
    silent = replace(
        of,
        stalls=tuple(Stall(begin_s=b, end_s=e, whom=Dependency.INDEX) for b, e in spans),
    )
    figures: dict[str, Figure] = {}
    for name, each in (("nothing fails", of), ("half the fleet", half), ("latents", silent)):
        for policy, outcome in run(each, ("atelier", "argus", "nirvana")):
            for number, (begin, end) in enumerate(spans, start=1):
                seen = see(outcome, since_s=begin, until_s=end)
                label = f"Fig. 20, {name}, {policy}, time {number}"
                figures[f"{label}: late"] = plain(seen.late, "share")
                figures[f"{label}: quality"] = plain(seen.quality, "of the best")
    return figures


def switching(seen: dict[str, Figure]) -> dict[str, Figure]:
    """Fig. 12: loads with caching, and with smaller models."""
    cached, smaller = (seen[f"{Pattern.DIURNAL}, {p}: loads"].value for p in ("argus", "proteus"))
    loads = {"Fig. 12, caching": cached, "Fig. 12, smaller models": smaller}
    return {f"{name}: loads": plain(value, "") for name, value in loads.items()} | {
        "Fig. 12, loads of caching less those of smaller models": at_most(cached - smaller, 0.0, "")
    }


def main(
    quick: bool = typer.Option(False, help="A quarter of the minutes."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
    minutes: float = typer.Option(OURS_MIN, help="Of each load."),
    seed: int = typer.Option(1, help="Of arrivals and prompts."),
) -> None:
    """Simulate Argus' comparisons. Example: `python -m bench.argus --quick`."""

    def tell(what: str) -> None:
        if not as_json:
            typer.echo(what, err=True)

    configure("WARNING", is_json=False)
    length = QUICK_MIN if quick else minutes
    figures = end_to_end(length, seed, tell)
    tell("classes, failures ...")
    short = length / 2
    figures |= switching(figures) | redistribution(short, seed) | classifiers(short, seed)
    figures |= failures(length, seed)
    where = machine("virtual time", f"{length:g} minutes of each load", f"seed {seed}")
    raise SystemExit(finish("argus", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
