"""Simulate Proteus' comparisons: Twitter-like load, bursts, SLOs, families, parts left out.

Source: Proteus §6, Fig. 4, 5, 7, 8 and 9; Fig. 6 is `bench.batching`, Fig. 10 `bench.allocate`.
Every policy runs in the same service, in virtual time: its placement, its overflow to another
level, its batches, its refusal of what would come late. So what is compared are plans, not systems.
The world is `bench/parts/proteus_families`, which says what is printed of it and what is taken.

    python -m bench.proteus --quick
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import typer

from bench.parts.proteus_families import FAMILIES, FLEET, SLO_MULTIPLE, applications, profile
from bench.parts.proteus_families import prompts as inputs
from bench.parts.report import Figure, at_least, at_most, finish, machine, plain
from bench.parts.simulated import Seen, figures_of, late_of, see
from core.log import configure
from loadgen.arrivals.patterns import Pattern, arrive
from loadgen.mixes.mix import RequestMix, draw
from simulator.outcome import PolicyOutcome
from simulator.run import simulate
from simulator.world import World

#: Seconds between two decisions: as the paper has it, and as the service has it for our own policy.
PERIOD_S, OWN_PERIOD_S = 30.0, 10.0
OURS = "atelier"
SLOTS = 8
#: Proteus counts a batch that takes half of the SLO as the largest there is (§4), so that items can
#: wait for one batch before theirs. Here applications are registered with that half.
PATIENCE = 2.0
#: Mean rate, items/s: at the peaks only the fast variants serve all.
RATE = 22.0
OURS_MIN, QUICK_MIN = 48, 16
MULTIPLES = (1.0, 1.5, 2.0, 3.0)

POLICIES = ("atelier", "proteus", "infaas", "sommelier", "clipper-ha", "clipper-ht")
#: Accuracy that a policy must keep to be compared by its late items.
KEPT = 0.9
NOISE = 0.001

Table = dict[str, Seen]
Outcomes = dict[str, PolicyOutcome]
Tell = Callable[[str], None]


def world(pattern: Pattern, minutes: float, seed: int, multiple: float = SLO_MULTIPLE) -> World:
    """Build the world of a load; families are asked for by Zipf's law."""
    known, served = inputs(), applications(multiple / PATIENCE)
    at_s = arrive(pattern, RATE, 60.0 * minutes, seed=seed)
    return World(
        fleet=FLEET,
        profile=profile(),
        workload=draw(at_s, known, RequestMix(applications=tuple(served)), seed=seed),
        prompts=known,
        applications=served,
        deadline_s=PATIENCE * max(each.slo_s or 0.0 for each in served.values()),
        period_s=PERIOD_S,
        slots=SLOTS,
        seed=seed,
    )


def outcomes(of: World, policies: Sequence[str], tell: Tell) -> Outcomes:
    """Simulate policies in a world."""
    found = {}
    for policy in policies:
        found[policy] = simulate(
            replace(of, period_s=OWN_PERIOD_S) if policy == OURS else of, policy
        )
        tell(f"  {policy}: {saw(found[policy])}")
    return found


def saw(outcome: PolicyOutcome) -> Seen:
    """Measure who took longer than the whole SLO."""
    return see(outcome, patience=PATIENCE)


def orderings(name: str, seen: Table) -> Iterator[tuple[str, Figure]]:
    """Check what Fig. 4 and 5 say, and what is asked of our own policy."""
    for other in ("sommelier", "infaas", "clipper-ha", "clipper-ht"):
        off = seen["proteus"].late - seen[other].late
        yield f"{name}: proteus late, less {other}", at_most(off, NOISE, "share")
    for other in ("sommelier", "infaas", "clipper-ht"):
        gain = seen["proteus"].lowest - seen[other].lowest
        yield f"{name}: proteus lowest accuracy, over {other}", at_least(gain, -NOISE, "")
    keep = [s.late for p, s in seen.items() if s.quality >= KEPT and p != "atelier"]
    ours = seen["atelier"]
    yield f"{name}: atelier accuracy", at_least(ours.quality, KEPT, "of the best")
    if keep:
        off = ours.late - min(keep)
        yield f"{name}: atelier late, less the least that keep .9", at_most(off, NOISE, "share")
    bar = max(0.5 * seen["proteus"].late, NOISE)
    yield f"{name}: atelier late, against half of proteus'", at_most(ours.late, bar, "share")


def end_to_end(minutes: float, seed: int, tell: Tell) -> dict[str, Figure]:
    """Fig. 4, 5, 7 and 9: every policy under each load."""
    figures: dict[str, Figure] = {}
    for number, pattern in ((5, Pattern.BURSTS), (4, Pattern.DIURNAL)):
        name = f"Fig. {number}, {pattern}"
        tell(f"{name} ...")
        of = world(pattern, minutes, seed)
        found = outcomes(of, POLICIES, tell)
        seen = {policy: saw(outcome) for policy, outcome in found.items()}
        for policy, each in seen.items():
            figures |= figures_of(f"{name}, {policy}", each)
        figures |= dict(orderings(name, seen))
    one_by_one = outcomes(replace(of, slots=1), ["proteus"], tell)["proteus"]
    return figures | ablation(seen, saw(one_by_one)) | families(of, found)


def ablation(seen: Table, one_by_one: Seen) -> dict[str, Figure]:
    """Fig. 7: Proteus with parts left out; what nobody can leave out here is not in it."""
    ways = {
        "whole": seen["proteus"],
        "without model placement": seen["sommelier"],
        "without model selection": seen["clipper-ha"],
        "without batches": one_by_one,
    }
    figures: dict[str, Figure] = {}
    for name, each in ways.items():
        figures[f"Fig. 7, {name}: late"] = plain(each.late, "share")
        figures[f"Fig. 7, {name}: quality"] = plain(each.quality, "of the best")
    others = [each.late for name, each in ways.items() if name != "without model selection"]
    most = ways["without model selection"].late - max(others)
    return figures | {"Fig. 7, late without model selection, over others": at_least(most, 0, "")}


def slos(minutes: float, seed: int, tell: Tell) -> dict[str, Figure]:
    """Fig. 8: late items by SLO."""
    figures: dict[str, Figure] = {}
    for multiple in MULTIPLES:
        of = world(Pattern.DIURNAL, minutes, seed, multiple)
        for policy, outcome in outcomes(of, (OURS, "proteus"), tell).items():
            name, each = f"Fig. 8, SLO of {multiple:g}, {policy}", saw(outcome)
            figures[f"{name}: late"] = plain(each.late, "share")
            figures[f"{name}: quality, worst stretch"] = plain(each.lowest, "of the best")
    return figures


def families(of: World, found: Outcomes) -> dict[str, Figure]:
    """Fig. 9: late items and accuracy by family."""
    figures: dict[str, Figure] = {}
    for policy in ("proteus", OURS):
        for number, family in enumerate(FAMILIES):
            rows, outcome = of.workload.application == number, found[policy]
            late = late_of(outcome, PATIENCE)[rows]
            quality = np.nanmean(outcome.quality[rows][~late]) if not late.all() else 0.0
            figures[f"Fig. 9, {family}, {policy}: late"] = plain(float(late.mean()), "share")
            figures[f"Fig. 9, {family}, {policy}: quality"] = plain(float(quality), "of the best")
    return figures


def main(
    quick: bool = typer.Option(False, help="A third of the minutes."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
    minutes: float = typer.Option(OURS_MIN, help="Of each load."),
    seed: int = typer.Option(1, help="Of arrivals."),
) -> None:
    """Simulate Proteus' comparisons. Example: `python -m bench.proteus --quick`."""

    def tell(what: str) -> None:
        if not as_json:
            typer.echo(what, err=True)

    configure("WARNING", is_json=False)
    length = QUICK_MIN if quick else minutes
    figures = end_to_end(length, seed, tell)
    tell("SLOs ...")
    figures |= slos(length / 4, seed, tell)
    where = machine("virtual time", f"{length:g} minutes of each load", f"seed {seed}")
    raise SystemExit(finish("proteus", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
