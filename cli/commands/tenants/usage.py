"""Command `atelier usage`: what a tenant has used, by day or month."""

from typing import Annotated, Final

import typer

from atelier_client.types.tenant import Used
from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.tables import TableColumn, print_table

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
        reply = client.service.usage.raw(start=start, end=end, by=by, tenant=tenant)
    if as_json:
        return typer.echo(reply.body)
    told = reply.value
    names = ("images", "succeeded", "failed", "canceled", "expired", "GPU s", "cost")
    columns = [TableColumn(name=name, is_number=True) for name in names]
    rows = [(row.start, *_cells(row)) for row in told.data]
    print_table(("from", *columns), [*rows, ("all", *_cells(told.total))])
    typer.echo(f"{told.tenant}: {told.kept_bytes:,} bytes kept, {told.open_jobs:,} jobs open")


def _cells(used: Used) -> list[str]:
    ends = (used.jobs.succeeded, used.jobs.failed, used.jobs.canceled, used.jobs.expired)
    cost = "-" if used.cost is None else f"{used.cost:,.4f}"
    return [f"{each:,}" for each in (used.images, *ends)] + [f"{used.gpu_seconds:,.1f}", cost]
