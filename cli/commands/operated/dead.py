"""List buried jobs and try them again: `atelier dead`."""

from collections.abc import Iterable
from typing import Annotated

import typer

from atelier_client import Job
from cli.client import show
from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.paging import Cursor, Limit, show_page
from cli.client.tables import TableColumn, print_table

EXAMPLE = "Example: atelier dead list --limit 50"

app = typer.Typer(
    help="Buried jobs: whatever made them was lost, again and again.",
    epilog=EXAMPLE,
    no_args_is_help=True,
)


def _show(jobs: Iterable[Job]) -> None:
    rows = [
        (
            job.id,
            show.moment(job.created_at, "%Y-%m-%d"),
            job.error.type if job.error else "",
            show.one_line(job.prompt),
        )
        for job in jobs
    ]
    print_table(("id", "created", "why", TableColumn(name="prompt", is_cut=True)), rows)


@app.command("list", epilog=EXAMPLE)
def list_dead(
    limit: Limit = 20,
    cursor: Cursor = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List the jobs that ended for want of attempts, newest first."""
    with connect(url, key) as client:
        reply = client.jobs.list.raw(status="buried", limit=limit, cursor=cursor)
    show_page(reply, _show, f"atelier dead list --limit {limit}", as_json=as_json)


@app.command(epilog="Example: atelier dead retry 0b5a3c1e9d7f4a68b2c4d6e8f0a1b3c5")
def retry(
    job_id: Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")],
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Queue a buried job again, with all its attempts; it is made with nothing else beside it."""
    with connect(url, key) as client:
        reply = client.jobs.retry.raw(job_id)
    typer.echo(reply.body) if as_json else show.show_job(reply.value)
