"""End-to-end demo, `make demo`: start the whole service, make images, stop it.

Every job is real: prompts of five levels of difficulty go over HTTP to a worker that runs the best
model this project ships, and an easy one to each other model; one picture is edited with
and without reuse. The images stay in `demo-output/`, beside one sheet of all of them.
"""

import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer
from PIL import Image
from rich.console import Console
from rich.progress import Progress

from atelier_client import Client, ClientError, Job, JobFailed, JobStatus
from cli.client import show
from cli.client.options import connect
from cli.stack.running import running
from core.errors import AtelierError
from zoo.checker import check
from zoo.demo.demo_edits import Comparison, retouch, show_edits
from zoo.demo.sheet import CaptionedImage, Section, save_sheet
from zoo.scenes import LEVELS, Scene, held_out

BEST = "shapes-xl"

#: Prompts that no training has seen.
SEED = 2026

#: Seconds after which the demo gives up waiting for one job.
PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOrder:
    """One job to be."""

    model: str
    scene: Scene


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoImage:
    """One job of the demo and its image."""

    order: DemoOrder
    job: Job
    image: Image.Image
    path: Path
    is_right: bool  #: the picture shows everything the prompt says, by the exact checker


def _wait(client: Client, job_id: str) -> Job:
    give_up_at = time.monotonic() + PATIENCE_S
    job = client.jobs.get(job_id, wait_s=20)
    while not job.status.is_terminal and time.monotonic() < give_up_at:
        job = client.jobs.get(job_id, wait_s=20)
    if job.status is not JobStatus.SUCCEEDED:
        raise JobFailed(job)
    return job


def _fetch(client: Client, order: DemoOrder, job: Job, path: Path) -> DemoImage:
    (picture,) = job.images
    data = client.images.fetch(picture)
    path.write_bytes(data)
    image = Image.open(BytesIO(data)).convert("RGB")
    is_right = check(np.asarray(image, dtype=np.uint8), order.scene).is_right
    return DemoImage(order=order, job=job, image=image, path=path, is_right=is_right)


def orders(models: Iterable[str], per_level: int) -> list[DemoOrder]:
    """Ask the best model for scenes of every level, and each other one for an easy scene."""
    best = [
        DemoOrder(model=BEST, scene=scene)
        for level in LEVELS
        for scene in held_out(level, per_level, SEED)
    ]
    easy = held_out(LEVELS[0], 1, SEED)[0]
    return best + [DemoOrder(model=name, scene=easy) for name in sorted(models) if name != BEST]


def _submit(client: Client, order: DemoOrder) -> Job:
    return client.jobs.create(order.scene.caption, model=order.model, seed=SEED)


def make(
    client: Client, ordered: Sequence[DemoOrder], folder: Path, progress: Progress
) -> list[DemoImage]:
    """Submit all jobs at once, then fetch their images: workers load whatever model is named.

    Raises:
        ClientError: a job was refused or did not succeed.
    """
    made: list[DemoImage] = []
    task = progress.add_task("jobs", total=len(ordered))
    for order, job in [(order, _submit(client, order)) for order in ordered]:
        name = f"{order.model}-{order.scene.level}-{len(made):02d}.png"
        made.append(_fetch(client, order, _wait(client, job.id), folder / name))
        progress.advance(task)
    return made


def _show_table(made: Iterable[DemoImage], console: Console) -> None:
    """Print two lines a job, the second for its URL: no terminal is wide enough for both."""
    console.print(
        f"{'difficulty':12}{'level':16}{'seconds':>8}  {'as asked':10}prompt", style="bold"
    )
    for each in made:
        job, colour = each.job, "green" if each.is_right else "yellow"
        placed = f"{each.order.scene.level:<12}{job.placement.level:16}{job.timing.total_s:8.2f}"
        verdict = f"[{colour}]{'yes' if each.is_right else 'no':10}[/{colour}]"
        console.print(f"{placed}  {verdict}{each.order.scene.caption}", highlight=False)
        console.print(f"{'':12}{job.images[0].url}", highlight=False, markup=False, style="dim")


def _groups(made: Iterable[DemoImage]) -> Iterable[tuple[tuple[str, int], Iterable[DemoImage]]]:
    return groupby(made, key=lambda each: (each.order.model, each.order.scene.level))


def _sum_up(made: Sequence[DemoImage]) -> str:
    parts = []
    for (model, level), group in _groups(made):
        found = [each.is_right for each in group]
        name = "" if model == BEST else f" by {model}"
        parts.append(f"{sum(found)} of {len(found)} at difficulty {level}{name}")
    return "Show all that their prompt says: " + ", ".join(parts) + "."


def _save_sheet(made: Sequence[DemoImage], edits: Comparison, path: Path) -> None:
    images = [
        CaptionedImage(
            image=each.image,
            caption=f"{each.order.model}, {each.order.scene.level}: {each.order.scene.caption}",
            is_good=each.is_right,
        )
        for each in made
    ]
    heading = "Model, difficulty and prompt; a green frame: shows all that was asked"
    save_sheet(path, [edits.section, Section(heading=heading, images=images)])


def _empty(folder: Path) -> Path:
    """Make the folder and remove what an earlier demo left there."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "logs", ignore_errors=True)
    for old in folder.glob("*.png"):
        old.unlink()
    return folder


def demo(
    out: Annotated[Path, typer.Option(help="Where the images go.")] = Path("demo-output"),
    per_level: Annotated[int, typer.Option(min=1, help="Images of each difficulty.")] = 4,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 1,
) -> None:
    """Run the whole service on free ports, make images with it, stop it.

    Example: python -m zoo.demo.demo --per-level 2
    """
    console, folder = show.out(), _empty(out)
    with TemporaryDirectory(prefix="atelier-demo-") as data_dir:
        try:
            with running(Path(data_dir), workers=workers) as service:
                with connect(service.addresses.api, None) as client, show.progress_bar() as bar:
                    names = [model.id for model in client.models.list().data]
                    edits = retouch(client, partial(_wait, client), SEED, folder)
                    made = make(client, orders(names, per_level), folder, bar)
                code = service.stop()
        except (AtelierError, ClientError):
            _keep_logs(Path(data_dir) / "logs", folder / "logs")
            raise
    _show_table(made, console)
    show_edits(edits, console)
    console.print(_sum_up(made))
    _save_sheet(made, edits, folder / "sheet.png")
    console.print(
        f"{len(made) + len(edits.edits)} images and {folder / 'sheet.png'}; the service is stopped."
    )
    raise typer.Exit(code)


def _keep_logs(logs: Path, to: Path) -> None:
    if logs.exists():
        shutil.copytree(logs, to, dirs_exist_ok=True)
        show.err().print(f"The logs are in {to}.")


def main() -> None:
    """Run the demo; end with 1 and the reason if a job fails."""
    try:
        typer.run(demo)
    except (AtelierError, ClientError) as error:
        show.complain(str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
