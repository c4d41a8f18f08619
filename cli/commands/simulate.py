"""Command `atelier simulate`: policies beside each other in virtual time."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Annotated

import msgspec
import typer
from rich.box import SIMPLE
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
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
from loadgen.arrivals.patterns import BURSTY, Pattern
from loadgen.main import finite_option
from simulator.inputs import EXAMPLE, parse_fleet, parse_outage, parse_stall
from simulator.outcome import PolicyOutcome
from simulator.report.costs import Prices
from simulator.report.prices import parse_prices
from simulator.report.write import write_report
from simulator.world import World

EXAMPLE_LINE = (
    "Example: atelier simulate --fleet a100=8,l40s=4 --policy atelier --policy argus "
    "--rate 3 --duration 600"
)


def simulate(
    context: typer.Context,
    fleet: Annotated[str, typer.Option(help="Workers by device type: TYPE=COUNT[,TYPE=COUNT].")],
    policy: Annotated[
        list[str] | None, typer.Option(help="Such as atelier, program, ac; may be repeated.")
    ] = None,
    trace: Trace = None,
    arrivals: Arrivals = Pattern.POISSON,
    rate: Rate = None,
    duration: Duration = 600.0,
    cv: Burstiness = BURSTY,
    prompts: Prompts = None,
    profile: ProfileFile = None,
    slo: Annotated[
        float | None, finite_option(min=0.001, help="Seconds promised; else 3 x the best model's.")
    ] = None,
    period: Period = None,
    slots: Slots = None,
    fail: Annotated[
        list[str] | None, typer.Option(help="FROM:TO:COUNT: workers that are gone meanwhile.")
    ] = None,
    stall: Annotated[
        list[str] | None, typer.Option(help="index:FROM:TO or store:FROM:TO: it does not answer.")
    ] = None,
    seed: Seed = 0,
    price: Annotated[
        str | None, typer.Option(help="Of an hour, TYPE=PRICE[,TYPE=PRICE]: the report has costs.")
    ] = None,
    out: ReportFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print figures as JSON.")] = False,
) -> None:
    """Let requests come to a fleet in virtual time, under one policy after another.

    It is the scheduler's own code that decides; workers are a model made of measured costs.
    """
    # A solver comes with it: other commands would wait for it, and some images are without.
    from scheduler.allocation.registry import find_policy

    settings = get_settings()
    configure("error", is_json=False)
    try:
        policies = list(dict.fromkeys(policy or ["atelier"]))
        for name in policies:
            find_policy(name, option="policy")
        workers = parse_fleet(fleet)
        prices = _prices(price, workers)
        found = read_sources(workers, profile, prompts)
        load = read_load(context, found, trace, arrivals, rate, duration, cv, seed)
        world = World(
            fleet=workers,
            profile=found.known.profile,
            workload=load,
            prompts=found.prompts,
            slo_s=slo,
            period_s=settings.plan_period_s if period is None else period,
            slots=settings.max_slots if slots is None else slots,
            memory_gib=found.known.memory_gib,
            outages=tuple(parse_outage(each, sum(workers.values())) for each in fail or ()),
            stalls=tuple(parse_stall(each) for each in stall or ()),
            seed=seed,
        )
        outcomes = _run(world, policies)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from error
    shape = {"arrivals": arrivals.value, "rate": rate, "duration": duration}
    run = _stated(world, found) | ({"trace": str(trace)} if trace else shape)
    _tell(outcomes, run, workers, as_json=as_json)
    if out is not None:
        paths = write_report(outcomes, out, run=run, prices=prices)
        show.err().print("Report: " + ", ".join(str(path) for path in paths), highlight=False)


def _prices(price: str | None, fleet: Collection[str]) -> Prices | None:
    """Read prices, of every type of a fleet if any are given."""
    prices = None if price is None else parse_prices(price)
    if prices is not None and (missing := sorted(set(fleet) - set(prices))):
        raise ConfigurationError(f"price: none of {missing[0][:80]!r}")
    return prices


def _run(world: World, policies: Sequence[str]) -> list[PolicyOutcome]:
    from simulator.run import simulate as simulated

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    outcomes = []
    with Progress(*columns, console=show.err(), transient=True) as progress:
        for name in policies:
            bar = progress.add_task(name, total=1.0)
            advance = partial(_advance, progress, bar)
            outcomes.append(simulated(world, name, advance))
    return outcomes


def _advance(progress: Progress, bar: TaskID, share: float) -> None:
    progress.update(bar, completed=share)


def _stated(world: World, found: ScenarioSources) -> dict[str, object]:
    """Say what was simulated, to repeat it."""
    return {
        "fleet": dict(world.fleet),
        "profile": str(found.profile_path),
        "is_example": found.profile_path == EXAMPLE,
        "prompts": str(found.prompts_path) if found.prompts_path else None,
        "requests": len(world.workload),
        "slo_s": world.slo_s,
        "period_s": world.period_s,
        "slots": world.slots,
        "deciding_s": world.deciding_s,
        "fail": [f"{o.begin_s:g}:{o.end_s:g}:{o.workers}" for o in world.outages],
        "stall": [f"{s.whom}:{s.begin_s:g}:{s.end_s:g}" for s in world.stalls],
        "seed": world.seed,
        "assumed": list(world.assumptions),
    }


def _tell(
    outcomes: Sequence[PolicyOutcome],
    run: dict[str, object],
    fleet: Mapping[str, int],
    *,
    as_json: bool,
) -> None:
    figures = [outcome.figures() for outcome in outcomes]
    if as_json:
        typer.echo(msgspec.json.encode({"run": run, "policies": figures}))
        return
    console = show.out()
    said = {name: value for name, value in run.items() if value not in (None, [], False)}
    said.pop("assumed", None)
    said["fleet"] = ",".join(f"{kind}={count}" for kind, count in fleet.items())
    words = ", ".join(f"{name} {value}" for name, value in said.items())
    console.print(words, highlight=False, emoji=False, markup=False)
    if run["is_example"]:
        console.print("Costs and qualities are an example, taken from papers: measured by nobody.")
    show_assumed(console, run)
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    for name in ("policy", "jobs", "late", "quality", "goodput", "loads", "busy", "p50", "p95"):
        table.add_column(name, justify="left" if name == "policy" else "right", no_wrap=True)
    for row in figures:
        table.add_row(*_cells(row))
    console.print(table)


def _cells(row: dict[str, object]) -> list[str]:
    def number(name: str, form: str) -> str:
        value = row[name]
        return format(value, form) if isinstance(value, int | float) else "-"

    shares = [number("late", ".2%"), number("quality", ".4f"), number("goodput", ".4f")]
    seconds = [number("p50_s", ".2f") + " s", number("p95_s", ".2f") + " s"]
    names = [str(row["policy"]), number("jobs", "d")]
    return [*names, *shares, number("loads", "d"), number("utilisation", ".1%"), *seconds]
