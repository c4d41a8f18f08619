"""Commands `atelier fleet`, `current-plan`, `history`: workers, their plan, and the last hour."""

from collections.abc import Iterable

import typer

from atelier_client.types.service import Period, Plan, Worker
from cli.client import show
from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.tables import TableColumn, print_table
from cli.stack.warming import in_words

FLEET = "Example: atelier fleet"
CURRENT_PLAN = "Example: atelier current-plan"
HISTORY = "Example: atelier history"


def fleet(url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """Show the workers: what each serves and loads, and which models it could not load and why."""
    with connect(url, key) as client:
        reply = client.service.fleet.raw()
    typer.echo(reply.body) if as_json else _show_workers(reply.value.workers)


def current_plan(url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """Show the plan in force: which worker holds what, and which levels prompts get."""
    with connect(url, key) as client:
        reply = client.service.plan.raw()
    typer.echo(reply.body) if as_json else _show_plan(reply.value)


def history(url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """Show the last hour, twice a minute: what came, what was made, and what waited."""
    with connect(url, key) as client:
        reply = client.service.history.raw()
    typer.echo(reply.body) if as_json else _show_history(reply.value.data)


def _show_workers(workers: Iterable[Worker]) -> None:
    rows, failures = [], []
    for worker in workers:
        row = (
            worker.name,
            worker.device_type,
            f"{worker.memory_gib:.1f}",
            " ".join(worker.models) or "nothing yet",
            in_words(worker.loading) if worker.loading is not None else "",
            f"{worker.running} made, {worker.waiting} waiting",
        )
        rows.append(row)
        failures += [f"{worker.name} cannot serve {m}: {why}" for m, why in worker.failures.items()]
    print_table(("worker", "device", "GiB", "serves", "now", "images"), rows)
    for line in failures:
        show.out().print(line, highlight=False, markup=False)


def _show_plan(plan: Plan) -> None:
    print_table(("worker", "model"), sorted(plan.workers.items()))
    shares = [
        (
            row.application,
            row.affinity,
            " ".join(f"{level} {share:.0%}" for level, share in row.shares.items()),
        )
        for row in plan.pasm
    ]
    title = f"Plan {plan.version} of {plan.policy}: {plan.saturation:.0%} of the demand unserved"
    print_table(("application", "prompts", "levels"), shares, title=title)


def _show_history(periods: Iterable[Period]) -> None:
    counts = ("accepted", "succeeded", "failed", "late", "queued", "running")
    columns = [TableColumn(name=name, is_number=True) for name in (*counts, "p95 s")]
    rows = [
        (
            show.moment(each.ended_at, "%H:%M:%S"),
            *(str(getattr(each, name)) for name in counts),
            "" if each.p95_s is None else f"{each.p95_s:.1f}",
        )
        for each in periods
    ]
    print_table(("until", *columns), rows)
