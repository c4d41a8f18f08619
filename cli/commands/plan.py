"""Command `atelier plan`: the cheapest fleet for a load, an SLO, a quality and prices."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.box import SIMPLE
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from cli.client import show
from cli.commands.scenario import (
    Arrivals,
    Burstiness,
    Duration,
    Period,
    ProfileFile,
    Prompts,
    Rate,
    ReportFolder,
    ScenarioSources,
    Seed,
    Slots,
    Trace,
    read_load,
    read_sources,
    show_assumed,
)
from core.errors import ConfigurationError
from core.log import configure
from core.settings import get_settings
from loadgen.arrivals.patterns import BURSTY, MAX_RUN_S, Pattern
from loadgen.main import finite_option
from reporting.files import write
from simulator.inputs import EXAMPLE
from simulator.report.prices import parse_prices
from simulator.sizing.days import busiest as busiest_part
from simulator.sizing.goal import Fleet, Goal, name_of, price_of
from simulator.world import World

if TYPE_CHECKING:
    from simulator.sizing.answer import Sizing

EXAMPLE_LINE = (
    "Example: atelier plan --trace day.csv --slo 12.6 --price h200=3.5,l40s=.9 --out plan"
)


def plan(
    context: typer.Context,
    slo: Annotated[
        float, finite_option(min=0.001, max=MAX_RUN_S, help="Seconds that jobs are promised.")
    ],
    price: Annotated[
        str, typer.Option(help="Of an hour, by device type: TYPE=PRICE[,TYPE=PRICE].")
    ],
    trace: Trace = None,
    arrivals: Arrivals = Pattern.POISSON,
    rate: Rate = None,
    duration: Duration = 600.0,
    cv: Burstiness = BURSTY,
    busiest: Annotated[
        float | None, finite_option(min=1.0, help="Plan for the busiest so many seconds alone.")
    ] = None,
    max_late: Annotated[
        float, finite_option(min=0.0, max=0.99, help="Share of the jobs that may be late.")
    ] = 0.01,
    min_quality: Annotated[
        float, finite_option(min=0.0, max=1.0, help="Mean quality of the images, at least.")
    ] = 0.9,
    confidence: Annotated[
        float, finite_option(min=0.5, max=0.999, help="That both are kept.")
    ] = 0.95,
    days: Annotated[
        int,
        typer.Option(min=1, max=100, help="Loads like the given one that a fleet goes through."),
    ] = 5,
    trials: Annotated[int, typer.Option(min=1, help="Fleets that are tried at most.")] = 40,
    policy: Annotated[str, typer.Option(help="As ATELIER_POLICY.")] = "atelier",
    prompts: Prompts = None,
    profile: ProfileFile = None,
    period: Period = None,
    slots: Slots = None,
    seed: Seed = 0,
    out: ReportFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Find the cheapest fleet that keeps an SLO and a quality, and say how sure that is.

    Fleets are ordered on paper, by a linear program, and then tried in the simulator, each over
    several days like the given one. Ends with 1 if no fleet keeps the goal.
    """
    # A solver comes with them: other commands would wait for it, and some images are without.
    from scheduler.allocation.registry import find_policy
    from simulator.run import simulate
    from simulator.sizing.answer import answer
    from simulator.sizing.trials import FleetTrials

    settings = get_settings()
    configure("error", is_json=False)
    goal = Goal(max_late=max_late, min_quality=min_quality, confidence=confidence)
    try:
        find_policy(policy, option="policy")
        prices = parse_prices(price)
        found = read_sources(prices, profile, prompts, option="price")
        load = read_load(context, found, trace, arrivals, rate, duration, cv, seed)
        if not len(load):
            raise ConfigurationError("trace: it asks for nothing")
        world = World(
            fleet=dict.fromkeys(prices, 1),
            profile=found.known.profile,
            workload=busiest_part(load, busiest) if busiest else load,
            prompts=found.prompts,
            slo_s=slo,
            period_s=settings.plan_period_s if period is None else period,
            slots=settings.max_slots if slots is None else slots,
            memory_gib=found.known.memory_gib,
            seed=seed,
        )
        with _heard(days) as heard:
            tried = FleetTrials.of(world, slo, goal, partial(simulate, policy=policy), days=days)
            said = answer(replace(tried, heard=heard), slo, prices, most=trials)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from error
    shape = {"arrivals": arrivals.value, "rate": rate, "duration": duration}
    run = _stated(world, found, policy, days) | ({"trace": str(trace)} if trace else shape)
    _tell(said, run, found, as_json=as_json)
    if out is not None:
        _report(said, world, run, out)
    raise typer.Exit(0 if said.best else 1)


@contextmanager
def _heard(days: int) -> Iterator[Callable[[Fleet, int], None]]:
    """Show which fleet is on trial; how many more will be nobody knows."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=show.err(), transient=True) as progress:
        bar = progress.add_task("on paper", total=None)
        count = 0

        def hear(fleet: Fleet, day: int) -> None:
            nonlocal count
            count += day == 0
            text = f"fleet {count}: {name_of(fleet)}, day {day + 1} of {days} at most"
            progress.update(bar, description=text)

        yield hear


def _stated(world: World, found: ScenarioSources, policy: str, days: int) -> dict[str, object]:
    """Say what was asked, to repeat it."""
    return {
        "policy": policy,
        "profile": str(found.profile_path),
        "is_example": found.profile_path == EXAMPLE,
        "prompts": str(found.prompts_path) if found.prompts_path else None,
        "requests": len(world.workload),
        "days": days,
        "period_s": world.period_s,
        "slots": world.slots,
        "seed": world.seed,
        "assumed": list(world.assumptions),
    }


def _tell(said: "Sizing", run: dict[str, object], found: ScenarioSources, *, as_json: bool) -> None:
    from simulator.sizing.page import sentence
    from simulator.sizing.rows import machine

    if as_json:
        return typer.echo(msgspec.json.encode({"run": run, **machine(said)}))
    console = show.out()
    console.print(sentence(said), highlight=False)
    if run["is_example"]:
        console.print("Costs and qualities are an example, taken from papers: measured by nobody.")
    show_assumed(console, run)
    if said.trials:
        console.print(_table(said))


def _table(said: "Sizing") -> Table:
    table = Table("fleet", "an hour", "late", "up to", "quality", "at least", "verdict", box=SIMPLE)
    for trial in said.trials:
        figures = (trial.late.middle, trial.late.high, trial.quality.middle, trial.quality.low)
        late, most, quality, least = figures
        table.add_row(
            name_of(trial.fleet),
            f"{price_of(trial.fleet, said.prices):.2f}",
            f"{late:.2%}",
            f"{most:.2%}",
            f"{quality:.3f}",
            f"{least:.3f}",
            trial.verdict.value,
        )
    return table


def _report(said: "Sizing", world: World, run: dict[str, object], folder: Path) -> None:
    from simulator.sizing.page import lay_out
    from simulator.sizing.rows import machine, rows_of

    document = lay_out(said, world.workload, run)
    paths = write(document, folder, machine={"run": run, **machine(said)}, rows=rows_of(said))
    show.err().print("Report: " + ", ".join(str(path) for path in paths), highlight=False)
