"""Edits of the demo: replace one figure of a picture, with and without activation reuse."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console

from cli.client.client import Client
from cli.client.picture import named
from cli.client.views import JobAnswer
from core.job import Quality
from zoo.replaced import has_new_figure, tasks
from zoo.scenes import draw
from zoo.scenes.words import Size

#: What each edit shows, and how much it may approximate.
_EDITS = (
    ("first of its template", Quality.AUTO),
    ("again, reusing it", Quality.AUTO),
    ("without reuse", Quality.EXACT),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retouched:
    """One edit of the demo."""

    title: str
    job: JobAnswer
    image: Image.Image
    is_right: bool  #: a figure of the prompted colour is under the mask


def retouch(
    client: Client, wait: Callable[[str], JobAnswer], model: str, seed: int, folder: Path
) -> list[Retouched]:
    """Replace the same figure of the same picture three times, one after the other.

    Raises:
        AtelierError: an edit was refused or did not succeed.
    """
    task = next(each for each in tasks(16, seed) if each.noun.size is Size.LARGE)
    template, mask = folder / "edit-template.png", folder / "edit-mask.png"
    Image.fromarray(draw(task.scene)).save(template)
    Image.fromarray(task.mask).save(mask)
    body = {
        "task": "edit",
        "prompt": task.prompt,
        "model": model,
        "template": named(str(template)),
        "mask": named(str(mask)),
    }
    made = []
    for number, (title, quality) in enumerate(_EDITS):
        submitted = client.submit(body | {"quality": quality}).view
        job = wait(submitted.id)
        data = client.fetch(job.images[0].url, job.images[0].sha256)
        (folder / f"edit-{number}.png").write_bytes(data)
        image = Image.open(BytesIO(data)).convert("RGB")
        is_right = has_new_figure(np.asarray(image, dtype=np.uint8), task)
        made.append(Retouched(title=title, job=job, image=image, is_right=is_right))
    return made


def show_edits(made: Iterable[Retouched], console: Console) -> None:
    """Print two lines an edit, as of other jobs."""
    console.print(f"{'edit':24}{'seconds of denoising':>20}  {'as asked':10}prompt", style="bold")
    for each in made:
        colour, verdict = ("green", "yes") if each.is_right else ("yellow", "no")
        seconds = f"{each.title:24}{each.job.timing.denoise_s:20.2f}"
        console.print(
            f"{seconds}  [{colour}]{verdict:10}[/{colour}]{each.job.prompt}", highlight=False
        )
        url = f"{'':12}{each.job.images[0].url}"
        console.print(url, highlight=False, markup=False, style="dim")
