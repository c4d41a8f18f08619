"""Format jobs, models and uploads for the terminal."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from catalog.models import undescribed
from cli.client.events import Event
from cli.client.views import (
    ApplicationAnswer,
    ControlNetAnswer,
    EmbeddingAnswer,
    JobAnswer,
    LoraAnswer,
    TemplateAnswer,
)
from core.job import JobStatus

COLOURS = {
    JobStatus.SUCCEEDED: "green",
    JobStatus.FAILED: "red",
    JobStatus.EXPIRED: "red",
    JobStatus.CANCELED: "yellow",
}


def out() -> Console:
    """Open the console for results."""
    return Console(soft_wrap=True)


def err() -> Console:
    """Open the console for progress and complaints: stdout stays clean for results."""
    return Console(stderr=True, soft_wrap=True)


def complain(text: str) -> None:
    """Print what went wrong; brackets in it are no markup."""
    err().print("[red]Error:[/red]", Text(text), highlight=False)


def _coloured(status: JobStatus) -> str:
    colour = COLOURS.get(status, "cyan")
    return f"[{colour}]{status}[/{colour}]"


def show_job(job: JobAnswer) -> None:
    """Print one job and the URLs of its images."""
    console = out()
    console.print(f"{job.id}  {_coloured(job.status)}  {job.placement.level}", highlight=False)
    if job.status is JobStatus.SUCCEEDED:
        timing = job.timing
        console.print(
            f"  {timing.total_s:.2f} s: queued {timing.queue_s:.2f}, prepared "
            f"{timing.prepare_s:.2f}, denoised {timing.denoise_s:.2f}, finished "
            f"{timing.finish_s:.2f}",
            highlight=False,
        )
    if job.error:
        console.print(f"  {job.error.title}: {job.error.detail}", highlight=False, markup=False)
    if not job.status.is_terminal and job.queue_position is not None:
        console.print(f"  {job.queue_position} before it on its queue")
    if not job.status.is_terminal and job.eta_s is not None:
        console.print(f"  expected in {job.eta_s:.1f} s")
    for image in job.images:
        console.print(f"  {image.url}", highlight=False, markup=False)


def show_jobs(jobs: Iterable[JobAnswer]) -> None:
    """Print a table of jobs, a line each: prompts are cut at the terminal's edge."""
    table = Table(box=None)
    table.add_column("id", no_wrap=True, min_width=32)  # to be copied, so never cut
    for name in ("status", "created", "seconds"):
        table.add_column(name, no_wrap=True)
    table.add_column("prompt", min_width=16)
    for job in jobs:
        created = datetime.fromtimestamp(job.created_at, UTC).strftime("%H:%M:%S")
        seconds = f"{job.timing.total_s:.2f}" if job.status is JobStatus.SUCCEEDED else ""
        table.add_row(job.id, _coloured(job.status), created, seconds, one_line(job.prompt))
    out().print(table, soft_wrap=False)


def one_line(text: str) -> Text:
    """Show what somebody else wrote on one line: it may not move the cursor or change colours."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return Text(" ".join(shown.split()), no_wrap=True, overflow="ellipsis")


def show_ignored(folder: Path) -> None:
    """Say on stderr which folders among the models are not served, and why."""
    for name, reason in undescribed(folder).items():
        told = f"{folder / name} is not served: {reason}"
        err().print(Text(told), style="yellow", highlight=False)


def show_controlnets(controlnets: Iterable[ControlNetAnswer]) -> None:
    """Print a table of ControlNets; their ids are to be copied, so never cut."""
    table = Table(box=None)
    table.add_column("id", no_wrap=True)
    for name in ("models", "its pictures show", "MiB"):
        table.add_column(name)
    for each in controlnets:
        mebibytes = "" if each.bytes is None else f"{each.bytes / 2**20:.1f}"
        table.add_row(each.id, ", ".join(each.models), one_line(each.condition), mebibytes)
    out().print(table, soft_wrap=False)


def show_templates(templates: Iterable[TemplateAnswer]) -> None:
    """Print a table of templates; their ids are to be copied, so never cut."""
    table = Table(box=None)
    table.add_column("id", no_wrap=True, min_width=32)
    for name in ("pixels", "created"):
        table.add_column(name)
    for template in templates:
        created = datetime.fromtimestamp(template.created_at, UTC).strftime("%Y-%m-%d %H:%M")
        table.add_row(template.id, f"{template.width} x {template.height}", created)
    out().print(table)


def show_applications(applications: Iterable[ApplicationAnswer]) -> None:
    """Print a table of applications."""
    table = Table("name", "seconds", "quality", "models", box=None)
    for each in applications:
        seconds = "3 x best" if each.slo_s is None else f"{each.slo_s:g}"
        table.add_row(each.name, seconds, f"{each.quality_floor:g}", " ".join(each.models))
    out().print(table)


def show_loras(loras: Iterable[LoraAnswer]) -> None:
    """Print a table of LoRAs; their ids are to be copied, so never cut."""
    table = Table(box=None)
    table.add_column("id", no_wrap=True, min_width=32)
    for name in ("models", "bound", "MiB", "created"):
        table.add_column(name)
    for lora in loras:
        created = datetime.fromtimestamp(lora.created_at, UTC).strftime("%Y-%m-%d %H:%M")
        mebibytes = f"{lora.bytes / 2**20:.1f}"
        table.add_row(
            lora.id,
            " ".join(lora.models),
            "" if lora.bound is None else str(lora.bound),
            mebibytes,
            created,
        )
    out().print(table)


def show_embeddings(embeddings: Iterable[EmbeddingAnswer]) -> None:
    """Print a table of learned embeddings; their ids are to be copied, so never cut."""
    table = Table(box=None)
    table.add_column("id", no_wrap=True, min_width=32)
    for name in ("word", "vectors", "models", "created"):
        table.add_column(name)
    for each in embeddings:
        created = datetime.fromtimestamp(each.created_at, UTC).strftime("%Y-%m-%d %H:%M")
        table.add_row(each.id, each.token, str(each.vectors), " ".join(each.models), created)
    out().print(table)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show bars on stderr for as long as the block runs."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=err(), transient=True) as progress:
        yield progress


def show_progress(events: Iterable[Event], label: str) -> None:
    """Draw a job's events as a bar until they end."""
    with progress_bar() as progress:
        bar = progress.add_task(f"{label} queued", total=None)
        for event in events:
            if "status" in event.data:
                progress.update(bar, description=f"{label} {event.data['status']}")
            step, steps = event.data.get("step"), event.data.get("steps")
            if isinstance(step, int) and isinstance(steps, int):
                progress.update(bar, completed=step, total=steps)
