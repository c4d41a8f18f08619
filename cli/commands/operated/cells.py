"""Command `atelier cells evacuate`: take a cell out of service, and lose nothing of it."""

import asyncio
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from cli.client import show
from cli.client.options import AsJson
from cli.commands.operated.evacuation import Evacuation, evacuate_cell
from core.settings import read_settings

EXAMPLE = "Example: atelier cells evacuate us.env eu.env --file cells.json"

app = typer.Typer(
    help="Cells behind the router (docs/cells.md).",
    epilog=EXAMPLE,
    no_args_is_help=True,
)

Environment = "Environment of its processes, as a file of lines NAME=value."


@app.command(epilog=EXAMPLE)
def evacuate(
    leaving: Annotated[Path, typer.Argument(metavar="CELL", help=Environment)],
    heir: Annotated[
        Path, typer.Argument(metavar="HEIR", help="The same of the cell that takes over.")
    ],
    file: Annotated[
        Path,
        typer.Option(envvar="ATELIER_CELLS_FILE", help="The routers' file of cells; is changed."),
    ],
    as_json: AsJson = False,
) -> None:
    """Drain a cell, hand what its tenants keep to another, and wait until its jobs have ended.

    Run it again whenever it was stopped: it goes on where it was.
    """
    done = asyncio.run(evacuate_cell(read_settings(leaving), read_settings(heir), file, _tell))
    if as_json:
        typer.echo(msgspec.json.encode(done))
        return
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(done.read_until))
    show.out().print(
        f"{done.cell} is empty: {done.heir} has what it kept. Its workers and its scheduler may be "
        f"stopped. Its jobs can be read from it until {until}; then run this again, and write "
        f'"state": "closed" into {file}.',
        highlight=False,
        markup=False,
    )


def _tell(now: Evacuation) -> None:
    left = now.left
    show.err().print(
        f"{now.cell}: {left.queued} queued, {left.running} running, {left.deliveries} webhooks to "
        f"send; {now.copied} kept things copied to {now.heir}",
        highlight=False,
        markup=False,
    )
    if now.unreadable:
        names = ", ".join(now.unreadable[:5])
        show.complain(f"{len(now.unreadable)} cannot be copied, their object is missing: {names}")
