"""Command `atelier audit`: who did what last, from where."""

from typing import Annotated, Final

import typer

from cli.client import show
from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.tables import TableColumn, print_table

EXAMPLE: Final = "Example: atelier audit --limit 20"


def audit(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="As many at most.")] = 100,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Tell who changed keys, tenants and models, or deleted others' jobs, the latest first."""
    with connect(url, key) as client:
        reply = client.service.audit.raw(limit=limit)
    if as_json:
        typer.echo(reply.body)
        return
    rows = [
        (
            show.moment(each.at),
            each.event,
            each.by,
            each.address,
            show.one_line(" ".join(f"{name}={value}" for name, value in each.facts.items())),
        )
        for each in reply.value.data
    ]
    print_table(("at", "what", "by", "from", TableColumn(name="facts", is_cut=True)), rows)
