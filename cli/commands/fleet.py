"""Command `atelier fleet`: the workers, what each serves, and what it gets ready."""

from collections.abc import Iterable

import typer
from rich.table import Table

from cli.client import show
from cli.client.client import connect
from cli.client.options import DEFAULT_URL, AsJson, Key, Url
from cli.client.views import WorkerAnswer
from cli.stack.warming import in_words

EXAMPLE = "Example: atelier fleet"


def fleet(url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """Show the workers: what each serves and loads, and which models it could not load and why."""
    with connect(url, key) as client:
        reply = client.fleet()
    typer.echo(reply.raw) if as_json else _show(reply.view.workers)


def _show(workers: Iterable[WorkerAnswer]) -> None:
    table, failures = Table("worker", "device", "GiB", "serves", "now", "images", box=None), []
    for worker in workers:
        table.add_row(
            worker.name,
            worker.device_type,
            f"{worker.memory_gib:.1f}",
            " ".join(worker.models) or "nothing yet",
            in_words(worker.loading) if worker.loading is not None else "",
            f"{worker.running} made, {worker.waiting} waiting",
        )
        failures += [f"{worker.name} cannot serve {m}: {why}" for m, why in worker.failures.items()]
    console = show.out()
    console.print(table)
    for line in failures:
        console.print(line, highlight=False, markup=False)
