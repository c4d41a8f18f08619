"""Command `atelier` and its subcommands. Exit status 0, 1 or 2.

1: the service or the job failed; 2: the command line is wrong.
"""

import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer

from cli.client import picture, show
from cli.client.client import Client, Reply, connect
from cli.client.complaint import complain
from cli.client.options import DEFAULT_URL, AsJson, Key, Url
from cli.client.paging import Cursor, Limit, show_deleted, show_page
from cli.client.views import JobAnswer
from cli.commands import (
    applications,
    controlnets,
    dead,
    embeddings,
    loras,
    models,
    templates,
)
from cli.commands.classifier import EXAMPLE as CLASSIFIER_EXAMPLE
from cli.commands.classifier import train_classifier
from cli.commands.fleet import EXAMPLE as FLEET_EXAMPLE
from cli.commands.fleet import fleet
from cli.commands.plan import EXAMPLE_LINE as PLAN_EXAMPLE
from cli.commands.plan import plan
from cli.commands.profile import EXAMPLE as PROFILE_EXAMPLE
from cli.commands.profile import profile
from cli.commands.simulate import EXAMPLE_LINE as SIMULATE_EXAMPLE
from cli.commands.simulate import simulate
from cli.commands.tenants import keys
from cli.commands.tenants import limits as tenants
from cli.commands.tenants.usage import EXAMPLE as USAGE_EXAMPLE
from cli.commands.tenants.usage import usage
from cli.stack.up import EXAMPLE as UP_EXAMPLE
from cli.stack.up import up
from core.errors import AtelierError
from core.family import Spacing
from core.job import JobStatus, Priority, Quality, Task
from core.request.output import OutputFormat
from core.request.prompt_syntax import PromptSyntax
from loadgen.main import app as load_app

app = typer.Typer(
    help="Prompts in, image URLs out: run the service, ask it for images, put it under load.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(models.app, name="models")
app.add_typer(templates.app, name="templates")
app.add_typer(controlnets.app, name="controlnets")
app.add_typer(applications.app, name="applications")
app.add_typer(loras.app, name="loras")
app.add_typer(embeddings.app, name="embeddings")
app.add_typer(keys.app, name="keys")
app.add_typer(tenants.app, name="tenants")
app.add_typer(dead.app, name="dead")
app.command(epilog=UP_EXAMPLE)(up)
app.command(epilog=FLEET_EXAMPLE)(fleet)
app.add_typer(load_app, name="load")
app.command(epilog=PROFILE_EXAMPLE)(profile)
app.command(epilog=SIMULATE_EXAMPLE)(simulate)
app.command(epilog=PLAN_EXAMPLE)(plan)
app.command(epilog=USAGE_EXAMPLE)(usage)
app.command(epilog=CLASSIFIER_EXAMPLE)(train_classifier)

KEEP_TO = "Keep to: ID=FILE, id or URL; of a Union ControlNet ID:MODE=FILE."

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


def _format_of(out: Path | None) -> OutputFormat | None:
    """Tell by the name of a file what the image in it is written as; None: it does not say."""
    ending = out.suffix.lower().replace("jpeg", "jpg") if out else ""
    return next((each for each in OutputFormat if f".{each.ending}" == ending), None)


def _numbers(option: str, given: str | None) -> list[float] | None:
    try:
        return [float(each) for each in given.split(",")] if given else None
    except ValueError as error:
        raise typer.BadParameter(f"{option} {given}: must be numbers, as in 14.6,3,0") from error


def _second_pass(given: str) -> dict[str, float]:
    try:
        scale, _, strength = given.partition(":")
        return {"scale": float(scale)} | ({"strength": float(strength)} if strength else {})
    except ValueError as error:
        raise typer.BadParameter(f"--second-pass {given}: must be as 2 or 2:0.5") from error


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
    prompt_2: Annotated[str | None, typer.Option(help="For the second text encoder.")] = None,
    weighted: Annotated[
        bool, typer.Option("--weighted", help="Read (word:1.3), [word] and BREAK; any length.")
    ] = False,
    embedding: Annotated[list[str] | None, typer.Option(help="Know this learned word: ID.")] = None,
    clip_skip: Annotated[int | None, typer.Option(help="Layers of CLIP left out.")] = None,
    template: Annotated[str | None, typer.Option(help="Edit this: FILE, id or URL.")] = None,
    mask: Annotated[str | None, typer.Option(help="Where: white is made anew.")] = None,
    image: Annotated[str | None, typer.Option(help="Start from this: FILE, id or URL.")] = None,
    second_pass: Annotated[
        str | None, typer.Option(help="Scale up and make again: SCALE or SCALE:STRENGTH, as 2:0.5.")
    ] = None,
    strength: Annotated[
        float | None, typer.Option(help="Share of the steps that an edit or --image runs.")
    ] = None,
    control: Annotated[list[str] | None, typer.Option(help=KEEP_TO)] = None,
    ip_adapter: Annotated[
        str | None, typer.Option(help="Attend to a picture: ID=FILE or ID:SCALE=FILE, id or URL.")
    ] = None,
    lora: Annotated[list[str] | None, typer.Option(help="Use this LoRA: ID or ID:SCALE.")] = None,
    width: Annotated[int | None, typer.Option(help="Pixels.")] = None,
    height: Annotated[int | None, typer.Option(help="Pixels.")] = None,
    steps: Annotated[int | None, typer.Option(help="Denoising steps.")] = None,
    guidance: Annotated[float | None, typer.Option(help="How closely to follow it.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="A sampler, such as euler.")] = None,
    spacing: Annotated[Spacing | None, typer.Option(help="Of its noise levels.")] = None,
    sigmas: Annotated[str | None, typer.Option(help="Noise levels, as in 14.6,3,0.4,0.")] = None,
    eta: Annotated[float | None, typer.Option(help="Of ddim and tcd, up to 1.")] = None,
    rescale: Annotated[float | None, typer.Option(help="Guidance rescale, up to 1.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the first image.")] = None,
    n: Annotated[int | None, typer.Option("-n", help="Images.")] = None,
    quality: Annotated[Quality | None, typer.Option(help="exact: no approximation.")] = None,
    output_format: Annotated[
        OutputFormat | None, typer.Option("--format", help="Else by the end of --out, or png.")
    ] = None,
    output_quality: Annotated[
        int | None, typer.Option(help="Of webp, jpeg and avif, 1 to 100.")
    ] = None,
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

    Or for one that starts from another: --image photo.png --strength 0.6.

    With --wait or --out stay until it is made and show how far it is.
    """
    is_edit = template is not None or mask is not None or (strength is not None and image is None)
    wanted = {
        "task": Task.EDIT if is_edit else None,
        "prompt": prompt,
        "template": template and picture.named(template),
        "mask": mask and picture.named(mask),
        "image": image and picture.named(image),
        "second_pass": _second_pass(second_pass) if second_pass else None,
        "strength": strength,
        "controls": controlnets.named(control) if control else None,
        "ip_adapter": controlnets.shown(ip_adapter) if ip_adapter else None,
        "loras": loras.named(lora) if lora else None,
        "negative_prompt": negative,
        "prompt_2": prompt_2,
        "embeddings": [{"id": each} for each in embedding] if embedding else None,
        "prompt_syntax": PromptSyntax.WEIGHTED if weighted else None,
        "clip_skip": clip_skip,
        "model": model,
        "width": width,
        "height": height,
        "steps": steps,
        "guidance": guidance,
        "scheduler": scheduler,
        "sigma_spacing": spacing,
        "sigmas": _numbers("--sigmas", sigmas),
        "eta": eta,
        "guidance_rescale": rescale,
        "seed": seed,
        "n": n,
        "quality": quality,
        "output_format": output_format or _format_of(out),
        "output_quality": output_quality,
        "priority": priority,
        "application": application,
        "deadline_s": deadline,
    }
    body = {name: value for name, value in wanted.items() if value is not None}
    with connect(url, key) as client:
        reply = client.submit(body, key=uuid4().hex)
        _end(client, reply, wait=wait, out=out, as_json=as_json)


@app.command(epilog="Example: atelier upscale photo.png --out large.png")
def upscale(
    image: Annotated[str, typer.Argument(help="The picture: FILE, id or URL.")],
    model: Annotated[
        str | None, typer.Option(help="An upscaler; else the service chooses.")
    ] = None,
    output_format: Annotated[
        OutputFormat | None, typer.Option("--format", help="Else by the end of --out, or png.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until it has ended.")] = False,
    out: Out = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Have a picture enlarged by an upscaler, as often as `scale` of that model says."""
    wanted = {
        "task": Task.UPSCALE,
        "image": picture.named(image),
        "model": model,
        "output_format": output_format or _format_of(out),
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


@app.command(epilog="Example: atelier delete 01J9…")
def delete(job_id: JobId, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """Delete a job with its images; one that has not ended is stopped first."""
    with connect(url, key) as client:
        show_deleted(client.delete_job(job_id), as_json=as_json)


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
