"""Edits of the demo: replace one figure of a picture, with and without activation reuse."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image
from rich.console import Console

from atelier_client import Client, Job
from zoo.demo.sheet import CaptionedImage, Section
from zoo.replaced import Task, has_new_figure, tasks
from zoo.scenes import draw
from zoo.scenes.words import SIDE, Size

#: The model with the most tokens a picture: the more there are, the more a mask leaves out.
MODEL = "shapes-hd"

#: Share of the picture that is made anew: hardly more than covers the figure.
MASK_SHARE = 0.08

Quality = Literal["auto", "exact"]

#: What each edit shows, and how much it may approximate. The second and the third are made in turn,
#: so often: of each the fastest counts, as whatever else the machine does can only add.
_EDITS: tuple[tuple[str, Quality], ...] = (
    ("first of its template", "auto"),
    ("again, reusing it", "auto"),
    ("without reuse", "exact"),
)
_TURNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Retouched:
    """One edit of the demo."""

    title: str
    job: Job
    image: Image.Image
    is_right: bool  #: a figure of the prompted colour is under the mask

    @property
    def seconds(self) -> float:
        """How long it took, from the request to the stored image."""
        return self.job.timing.total_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One edit, made with a template that the worker has not seen, with one it has, and in full."""

    before: Image.Image
    edits: Sequence[Retouched]

    @property
    def summary(self) -> str:
        """Say how much faster an edit is that reuses its template."""
        _, warm, full = (each.seconds for each in self.edits)
        size = f"{self.before.width} x {self.before.height}"
        return (
            f"An edit of {size} pixels takes {warm:.1f} s reusing its template and {full:.1f} s in "
            f"full: {full / warm:.1f} times as fast"
        )

    @property
    def section(self) -> Section:
        """Show the picture before, and each edit with its seconds."""
        before = CaptionedImage(image=self.before, caption="before", is_good=True)
        after = [
            CaptionedImage(
                image=each.image,
                caption=f"{each.title}: {each.seconds:.1f} s",
                is_good=each.is_right,
            )
            for each in self.edits
        ]
        heading = f"{self.summary}. {MODEL}: {self.edits[0].job.prompt}"
        return Section(heading=heading, images=[before, *after], columns=1 + len(after))


def retouch(client: Client, wait: Callable[[str], Job], seed: int, folder: Path) -> Comparison:
    """Replace the same figure of the same picture again and again, one after the other.

    Raises:
        ClientError: an edit was refused or did not succeed.
    """
    task = _task(seed)
    template, mask = folder / "edit-template.png", folder / "edit-mask.png"
    model = next(each for each in client.models.list().data if each.id == MODEL)
    scale = model.sizes.default // SIDE
    before = Image.fromarray(draw(task.scene, scale))
    before.save(template)
    Image.fromarray(task.mask_at(scale)).save(mask)
    edit = partial(
        client.jobs.create, task.prompt, task="edit", model=MODEL, template=template, mask=mask
    )
    jobs = _fastest(lambda quality: wait(edit(quality=quality).id))
    made = []
    for number, ((title, _), job) in enumerate(zip(_EDITS, jobs, strict=True)):
        data = client.images.fetch(job.images[0])
        (folder / f"edit-{number}.png").write_bytes(data)
        image = Image.open(BytesIO(data)).convert("RGB")
        is_right = has_new_figure(np.asarray(image, dtype=np.uint8), task)
        made.append(Retouched(title=title, job=job, image=image, is_right=is_right))
    return Comparison(before=before, edits=made)


def _fastest(edit: Callable[[Quality], Job]) -> Sequence[Job]:
    """Make each edit, and those that are compared again and again; give the fastest of each."""
    first, *compared = (quality for _, quality in _EDITS)
    tries = [[edit(first)]]
    turns = [[edit(quality) for quality in compared] for _ in range(_TURNS)]
    tries += map(list, zip(*turns, strict=True))
    return [min(jobs, key=lambda job: job.timing.total_s) for jobs in tries]


def _task(seed: int) -> Task:
    """Choose a small figure at a named place, and put a mask over it."""
    small = (each for each in tasks(64, seed) if each.noun.size is Size.SMALL)
    task = next(each for each in small if each.scene.figures[0].place)
    side = SIDE * math.sqrt(MASK_SHARE)
    return replace(task, margin=side / 2 - task.scene.figures[0].radius, says_place=True)


def show_edits(compared: Comparison, console: Console) -> None:
    """Print two lines an edit, as of other jobs."""
    console.print(f"{'edit':24}{'seconds':>8}  {'as asked':10}prompt", style="bold")
    for each in compared.edits:
        colour, verdict = ("green", "yes") if each.is_right else ("yellow", "no")
        seconds = f"{each.title:24}{each.seconds:8.2f}"
        console.print(
            f"{seconds}  [{colour}]{verdict:10}[/{colour}]{each.job.prompt}", highlight=False
        )
        url = f"{'':12}{each.job.images[0].url}"
        console.print(url, highlight=False, markup=False, style="dim")
    console.print(f"{compared.summary}.", highlight=False)
