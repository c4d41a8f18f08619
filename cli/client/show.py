"""Format jobs for the terminal, and whatever goes wrong."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from atelier_client import DoneEvent, Event, Job, JobStatus, ProgressEvent
from catalog.models import undescribed
from cli.client.tables import TableColumn, print_table

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


def _coloured(status: JobStatus) -> Text:
    return Text(status, style=COLOURS.get(status, "cyan"))


def show_job(job: Job) -> None:
    """Print one job and the URLs of its images."""
    console = out()
    console.print(Text.assemble(job.id, "  ", _coloured(job.status), "  ", job.placement.level))
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


def show_jobs(jobs: Iterable[Job]) -> None:
    """Print a table of jobs, a line each: prompts are cut at the terminal's edge."""
    rows = [
        (
            job.id,
            _coloured(job.status),
            moment(job.created_at, "%H:%M:%S"),
            f"{job.timing.total_s:.2f}" if job.status is JobStatus.SUCCEEDED else "",
            one_line(job.prompt),
        )
        for job in jobs
    ]
    columns = ("id", "status", "created", "seconds", TableColumn(name="prompt", is_cut=True))
    print_table(columns, rows)


def moment(at: float | None, how: str = "%Y-%m-%d %H:%M") -> str:
    """Write an epoch second in UTC; None: it never comes."""
    return "never" if at is None else datetime.fromtimestamp(at, UTC).strftime(how)


def one_line(text: str) -> Text:
    """Show what somebody else wrote on one line: it may not move the cursor or change colours."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return Text(" ".join(shown.split()), no_wrap=True, overflow="ellipsis")


def show_ignored(folder: Path) -> None:
    """Say on stderr which folders among the models are not served, and why."""
    for name, reason in undescribed(folder).items():
        told = f"{folder / name} is not served: {reason}"
        err().print(Text(told), style="yellow", highlight=False)


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
            if isinstance(event, ProgressEvent):
                progress.update(bar, completed=event.step, total=event.steps)
            else:
                status = event.job.status if isinstance(event, DoneEvent) else event.status
                progress.update(bar, description=f"{label} {status}")
