"""Commands about jobs that were asked for: `atelier status`, `list`, `cancel`, `delete`."""

from collections import deque
from pathlib import Path
from typing import Annotated

import typer

from atelier_client import Client, Job, JobStatus, Reply
from cli.client import show
from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.paging import Cursor, Limit, show_deleted, show_page

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="Save the image; with more of them FILE-1, FILE-2 …")
]


def _tell(reply: Reply[Job], *, as_json: bool) -> None:
    typer.echo(reply.body) if as_json else show.show_job(reply.value)


def _see_through(client: Client, job: Job, *, as_json: bool) -> Reply[Job]:
    if not job.status.is_terminal:
        events = client.jobs.stream(job.id)
        if as_json:
            deque(events, maxlen=0)
        else:
            typer.echo(f"job {job.id}", err=True)  # whatever comes between, it can be asked for
            show.show_progress(events, job.id)
    return client.jobs.get.raw(job.id)


def _save(client: Client, job: Job, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(job.images, start=1):
        name = path.name if len(job.images) == 1 else f"{path.stem}-{number}{path.suffix}"
        path.with_name(name).write_bytes(client.images.fetch(image))


def end(client: Client, reply: Reply[Job], *, wait: bool, out: Path | None, as_json: bool) -> None:
    """Stay with a job if that was asked for, save its images, and end with its fate."""
    if wait or out:
        reply = _see_through(client, reply.value, as_json=as_json)
    if out:
        _save(client, reply.value, out)
    _tell(reply, as_json=as_json)
    is_bad = (wait or out) and reply.value.status is not JobStatus.SUCCEEDED
    raise typer.Exit(1 if is_bad else 0)


def status(
    job_id: JobId,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until it has ended.")] = False,
    out: Out = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show a job and the URLs of its images."""
    with connect(url, key) as client:
        reply = client.jobs.get.raw(job_id)
        end(client, reply, wait=wait, out=out, as_json=as_json)


def cancel(job_id: JobId, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """Stop a job, queued or running. Stopping it again changes nothing."""
    with connect(url, key) as client:
        _tell(client.jobs.cancel.raw(job_id), as_json=as_json)


def delete(
    job_id: JobId,
    tenant: Annotated[
        str | None, typer.Option(help="Whose it is; asked for with an operator's key.")
    ] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Delete a job with its images; one that has not ended is stopped first."""
    with connect(url, key) as client:
        show_deleted(client.jobs.delete.raw(job_id, tenant=tenant), as_json=as_json)


def list_jobs(
    wanted: Annotated[JobStatus | None, typer.Option("--status", help="Only these.")] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    with connect(url, key) as client:
        reply = client.jobs.list.raw(status=wanted, limit=limit, cursor=cursor)
    filtered = f"--status {wanted} " if wanted else ""
    show_page(reply, show.show_jobs, f"atelier list {filtered}--limit {limit}", as_json=as_json)


def add_commands(app: typer.Typer) -> None:
    """Add them to `atelier` itself."""
    app.command(epilog="Example: atelier status 0b5a3c1e… --wait --out star.png")(status)
    app.command(epilog="Example: atelier cancel 0b5a3c1e…")(cancel)
    app.command(epilog="Example: atelier delete 0b5a3c1e…")(delete)
    app.command("list", epilog="Example: atelier list --status failed --limit 50")(list_jobs)
