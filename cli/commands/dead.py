"""List buried jobs and try them again: `atelier dead`."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from cli.client import show
from cli.client.client import connect
from cli.client.options import DEFAULT_URL, AsJson, Key, Url
from cli.client.views import JobAnswer
from cli.commands.kept import add_list

app = typer.Typer(
    help="Buried jobs: whatever made them was lost, again and again.", no_args_is_help=True
)


def _show(jobs: Iterable[JobAnswer]) -> None:
    table = Table(box=None)
    table.add_column("id", no_wrap=True, min_width=32)  # to be copied, so never cut
    table.add_column("created", no_wrap=True, min_width=10)
    table.add_column("why", no_wrap=True, min_width=18)
    table.add_column("prompt", min_width=16)
    for job in jobs:
        created = datetime.fromtimestamp(job.created_at, UTC).strftime("%Y-%m-%d")
        why = job.error.type if job.error else ""
        table.add_row(job.id, created, why, show.one_line(job.prompt))
    show.out().print(table, soft_wrap=False)


add_list(
    app,
    "dead",
    lambda client, limit, cursor: client.jobs(status="buried", limit=limit, cursor=cursor),
    _show,
    help="List the jobs that ended for want of attempts, newest first.",
    example=" --limit 50",
)


@app.command(epilog="Example: atelier dead retry 0b5a3c1e9d7f4a68b2c4d6e8f0a1b3c5")
def retry(
    job_id: Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")],
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Queue a buried job again, with all its attempts; it is made with nothing else beside it."""
    with connect(url, key) as client:
        reply = client.retry(job_id)
    typer.echo(reply.raw) if as_json else show.show_job(reply.view)
