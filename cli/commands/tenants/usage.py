"""Command `atelier usage`: what a tenant has used, by day or month."""

from typing import Annotated, Final

import typer
from rich.table import Table

from cli.client import show
from cli.client.client import connect
from cli.client.options import DEFAULT_URL, AsJson, Key, Url
from cli.client.views import Used

EXAMPLE: Final = "Example: atelier usage --start 2026-11-01 --by month"


def usage(
    start: Annotated[
        str | None, typer.Option(metavar="DAY", help="First day of UTC; else of this month.")
    ] = None,
    end: Annotated[str | None, typer.Option(metavar="DAY", help="Last day; else today.")] = None,
    by: Annotated[str, typer.Option(metavar="day|month", help="What a row is of.")] = "day",
    tenant: Annotated[
        str | None, typer.Option(help="Another tenant; asked for with an operator's key.")
    ] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Tell images, jobs by how they ended, seconds of devices and cost."""
    with connect(url, key) as client:
        reply = client.usage(start=start, end=end, by=by, tenant=tenant)
    if as_json:
        typer.echo(reply.raw)
        return
    told, table = reply.view, Table(box=None)
    for name in ("from", "images", "succeeded", "failed", "canceled", "expired", "GPU s", "cost"):
        table.add_column(name, justify="left" if name == "from" else "right")
    for row in told.data:
        table.add_row(row.start, *_cells(row))
    table.add_row("all", *_cells(told.total))
    show.out().print(table)
    typer.echo(f"{told.tenant}: {told.kept_bytes:,} bytes kept, {told.open_jobs:,} jobs open")


def _cells(used: Used) -> list[str]:
    ends = (used.jobs.succeeded, used.jobs.failed, used.jobs.canceled, used.jobs.expired)
    cost = "-" if used.cost is None else f"{used.cost:,.4f}"
    return [f"{each:,}" for each in (used.images, *ends)] + [f"{used.gpu_seconds:,.1f}", cost]
