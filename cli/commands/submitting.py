"""Commands `atelier submit` and `atelier upscale`: ask for images."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.client import picture
from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.commands.jobs import Out, end
from cli.commands.kept import controlnets, ip_adapters, loras
from core.family import Spacing
from core.job import Priority, Quality, Task
from core.request.output import OutputFormat
from core.request.prompt_syntax import PromptSyntax

KEEP_TO = "Keep to: ID=FILE, id or URL; of a Union ControlNet ID:MODE=FILE."


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


class WebhookEvent(StrEnum):
    """What a webhook may tell of a job."""

    STARTED = "started"
    PROGRESS = "progress"
    COMPLETED = "completed"


def _webhook(url: str | None, events: Sequence[str] | None) -> dict[str, object] | None:
    if url is None and events:
        raise typer.BadParameter("--webhook-event: say by --webhook where to")
    told = {"events": list(events)} if events else {}
    return {"url": url, **told} if url is not None else None


def _metadata(given: Sequence[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in given]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise typer.BadParameter(f"--metadata {key[:50]}: must be KEY=TEXT, as in order=1234")
    return {key: text for key, _, text in pairs}


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
    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="Say there what becomes of it.")
    ] = None,
    webhook_event: Annotated[
        list[WebhookEvent] | None, typer.Option(help="What is said; else completed.")
    ] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="KEY=TEXT", help="Keep this with the job.")
    ] = None,
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
    wanted: dict[str, Any] = {
        "task": Task.EDIT if is_edit else None,
        "prompt": prompt,
        "template": template and picture.named(template),
        "mask": mask and picture.named(mask),
        "image": image and picture.named(image),
        "second_pass": _second_pass(second_pass) if second_pass else None,
        "strength": strength,
        "controls": controlnets.named(control) if control else None,
        "ip_adapter": ip_adapters.named(ip_adapter) if ip_adapter else None,
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
        "webhook": _webhook(webhook, webhook_event),
        "metadata": _metadata(metadata) if metadata else None,
    }
    with connect(url, key) as client:
        reply = client.jobs.create.raw(**wanted)
        end(client, reply, wait=wait, out=out, as_json=as_json)


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
    wanted: dict[str, Any] = {
        "task": Task.UPSCALE,
        "image": picture.named(image),
        "model": model,
        "output_format": output_format or _format_of(out),
    }
    with connect(url, key) as client:
        reply = client.jobs.create.raw(**wanted)
        end(client, reply, wait=wait, out=out, as_json=as_json)


def add_commands(app: typer.Typer) -> None:
    """Add them to `atelier` itself."""
    app.command(epilog='Example: atelier submit "two red circles" --seed 7 --out circles.png')(
        submit
    )
    app.command(epilog="Example: atelier upscale photo.png --out large.png")(upscale)
