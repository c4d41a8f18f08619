"""Command `atelier` and its subcommands. Exit status 0, 1 or 2.

1: the service or the job failed; 2: the command line is wrong.
"""

import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import httpx
import typer

from cli.client import picture, show
from cli.client.client import Client, Reply, connect
from cli.client.complaint import complain
from cli.client.options import DEFAULT_URL, AsJson, Key, Url
from cli.client.paging import Cursor, Limit, show_page
from cli.client.views import JobAnswer
from cli.commands import applications, controlnets, dead, loras, templates
from cli.commands.classifier import EXAMPLE as CLASSIFIER_EXAMPLE
from cli.commands.classifier import train_classifier
from cli.commands.profile import EXAMPLE as PROFILE_EXAMPLE
from cli.commands.profile import profile
from cli.stack.services import models_dir
from cli.stack.up import EXAMPLE as UP_EXAMPLE
from cli.stack.up import up
from core.errors import AtelierError
from core.job import JobStatus, Priority, Quality, Task
from core.settings import get_settings
from loadgen.main import EXAMPLE as LOAD_EXAMPLE
from loadgen.main import load

app = typer.Typer(
    help="Prompts in, image URLs out: run the service, ask it for images, put it under load.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
models_app = typer.Typer(help="What the service makes images with.", no_args_is_help=True)
app.add_typer(models_app, name="models")
app.add_typer(templates.app, name="templates")
app.add_typer(controlnets.app, name="controlnets")
app.add_typer(applications.app, name="applications")
app.add_typer(loras.app, name="loras")
app.add_typer(dead.app, name="dead")
app.command(epilog=UP_EXAMPLE)(up)
app.command(epilog=LOAD_EXAMPLE)(load)
app.command(epilog=PROFILE_EXAMPLE)(profile)
app.command(epilog=CLASSIFIER_EXAMPLE)(train_classifier)

#: Whose models may be those of this machine.
OWN_HOSTS = ("127.0.0.1", "::1", "localhost")

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="Save the image; with more of them FILE-1, FILE-2 …")
]


def _tell(reply: Reply[JobAnswer], *, as_json: bool) -> None:
    typer.echo(reply.raw) if as_json else show.show_job(reply.view)


def _see_through(client: Client, job: JobAnswer, *, as_json: bool) -> Reply[JobAnswer]:
    if not job.status.is_terminal:
        events = client.follow(job.id)
        deque(events, maxlen=0) if as_json else show.show_progress(events, job.id)
    return client.job(job.id)


def _save(client: Client, job: JobAnswer, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(job.images, start=1):
        name = path.name if len(job.images) == 1 else f"{path.stem}-{number}{path.suffix}"
        path.with_name(name).write_bytes(client.fetch(image.url, image.sha256))


def _end(
    client: Client, reply: Reply[JobAnswer], *, wait: bool, out: Path | None, as_json: bool
) -> None:
    """Stay with a job if that was asked for, save its images, and end with its fate."""
    if wait or out:
        reply = _see_through(client, reply.view, as_json=as_json)
    if out:
        _save(client, reply.view, out)
    _tell(reply, as_json=as_json)
    is_bad = (wait or out) and reply.view.status is not JobStatus.SUCCEEDED
    raise typer.Exit(1 if is_bad else 0)


@app.command(epilog='Example: atelier submit "two red circles" --seed 7 --out circles.png')
def submit(
    prompt: Annotated[str, typer.Argument(help="What the image shows.")],
    model: Annotated[str | None, typer.Option(help="A model; else the service chooses.")] = None,
    negative: Annotated[str | None, typer.Option(help="What it must not show.")] = None,
    template: Annotated[str | None, typer.Option(help="Edit this: FILE, id or URL.")] = None,
    mask: Annotated[str | None, typer.Option(help="Where: white is made anew.")] = None,
    strength: Annotated[float | None, typer.Option(help="Of an edit, up to 1.")] = None,
    control: Annotated[list[str] | None, typer.Option(help="Keep to: ID=FILE, id or URL.")] = None,
    lora: Annotated[list[str] | None, typer.Option(help="Use this LoRA: ID or ID:SCALE.")] = None,
    width: Annotated[int | None, typer.Option(help="Pixels.")] = None,
    height: Annotated[int | None, typer.Option(help="Pixels.")] = None,
    steps: Annotated[int | None, typer.Option(help="Denoising steps.")] = None,
    guidance: Annotated[float | None, typer.Option(help="How closely to follow it.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="A sampler, such as euler.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the first image.")] = None,
    n: Annotated[int | None, typer.Option("-n", help="Images.")] = None,
    quality: Annotated[Quality | None, typer.Option(help="exact: no approximation.")] = None,
    priority: Annotated[Priority | None, typer.Option(help="batch: nobody waits.")] = None,
    application: Annotated[str | None, typer.Option(help="Ask as this application.")] = None,
    deadline: Annotated[float | None, typer.Option(help="Seconds; later it is not made.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until it has ended.")] = False,
    out: Out = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Ask for an image, or for an edit of one: --template photo.png --mask mask.png.

    With --wait or --out stay until it is made and show how far it is.
    """
    is_edit = any(given is not None for given in (template, mask, strength))
    wanted = {
        "task": Task.EDIT if is_edit else None,
        "prompt": prompt,
        "template": template and picture.named(template),
        "mask": mask and picture.named(mask),
        "strength": strength,
        "controls": controlnets.named(control) if control else None,
        "loras": loras.named(lora) if lora else None,
        "negative_prompt": negative,
        "model": model,
        "width": width,
        "height": height,
        "steps": steps,
        "guidance": guidance,
        "scheduler": scheduler,
        "seed": seed,
        "n": n,
        "quality": quality,
        "priority": priority,
        "application": application,
        "deadline_s": deadline,
    }
    body = {name: value for name, value in wanted.items() if value is not None}
    with connect(url, key) as client:
        reply = client.submit(body, key=uuid4().hex)
        _end(client, reply, wait=wait, out=out, as_json=as_json)


@app.command(epilog="Example: atelier status 01J9… --wait --out star.png")
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
        reply = client.job(job_id)
        _end(client, reply, wait=wait, out=out, as_json=as_json)


@app.command(epilog="Example: atelier cancel 01J9…")
def cancel(job_id: JobId, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """Stop a job, queued or running. Stopping it again changes nothing."""
    with connect(url, key) as client:
        _tell(client.cancel(job_id), as_json=as_json)


@app.command("list", epilog="Example: atelier list --status failed --limit 50")
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
        reply = client.jobs(status=wanted, limit=limit, cursor=cursor)
    filtered = f"--status {wanted} " if wanted else ""
    show_page(reply, show.show_jobs, f"atelier list {filtered}--limit {limit}", as_json=as_json)


@models_app.command("list", epilog="Example: atelier models list --json")
def list_models(url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """List the models served, their sizes and limits."""
    with connect(url, key) as client:
        reply = client.models()
    typer.echo(reply.raw) if as_json else show.show_models(reply.view.data)
    if not as_json and httpx.URL(url).host in OWN_HOSTS:
        show.show_ignored(models_dir(get_settings()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `atelier`; say what went wrong in a line or two, never by a traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    try:  # a program is told of a wrong command line in JSON too, so not by the library
        code = app(args=given, prog_name="atelier", standalone_mode=not as_json)
    except (AtelierError, OSError) as error:  # OSError: a file or a folder of this machine
        complain(error, as_json=as_json)
        sys.exit(1)
    except typer.TyperException as error:
        complain(error, as_json=as_json)
        sys.exit(error.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
