"""Benchmark masked edits against TeaCache and FISEdit: time and likeness (InstGenIE §6.2, Table 2).

The same edits as in `bench.edit_quality`, one at a time, in CPU time from request to pixels: in
full, which is what stock diffusers makes; with the template's recording (ours); with TeaCache, at
two thresholds (`bench/parts/tea_cache`); and, of UNets, as FISEdit does. FISEdit finds the changed
region by itself after some steps; here it is given, and stands as a box around it. Inside the box
everything is computed, convolutions and attention, outside all is what was cached; norms take the
cached mean and deviation, and no step runs in full. That is our own engine with its convolutions
cropped, without the token around the mask and without the steps in full that correct a recording.

Scores and Fréchet distances are by the zoo's scorer, so they compare with no paper's, but with each
other.

    python -m bench.edit_baselines --quick
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import typer

from bench.edit_quality import WEIGHTS, Case, cases, record
from bench.parts.image_sets import Judge, similarity
from bench.parts.report import Figure, Instant, finish, machine, median, plain
from bench.parts.tea_cache import TeaCache
from catalog.masking.config import MaskingConfig
from catalog.models import read_models
from core.job import Quality
from core.model import Model
from worker.diffusion.runner import Pixels
from worker.diffusion.scorer import Scorer
from worker.families.diffusion_runner import DiffusionRunner
from worker.families.load import load
from worker.masking.activations import Activations

SCORER = Path("zoo/scorers/shapes")
#: Thresholds of TeaCache: what relative change of the output may add up before a step is computed.
THRESHOLDS = {"TeaCache, slow": 0.15, "TeaCache, fast": 0.4}
FISEDIT = MaskingConfig(dilate=0, full_share=0.0, crop=True)
#: Edits that TeaCache's polynomial is fitted to; they do not count.
FITTED = 3
#: Bytes: more than what is recorded of one template.
BUDGET = 2**32

#: Makes one edit.
Make = Callable[[Case], Pixels]


@dataclass(slots=True, kw_only=True)
class Made:
    """What one way of making edits has made."""

    pictures: list[Pixels] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


class Subject:
    """One model, loaded once for each way of making edits, as each hooks it."""

    def __init__(self, weights: Path, name: str) -> None:
        self.model: Model = read_models(weights)[name]
        self._folder = weights / name
        self._exact = self._load()
        self._cached = self._load()
        self.cache = TeaCache(self._cached.unet)
        self._reusing = {"ours": self._reuse(MaskingConfig())}
        if self.model.family in ("sd", "sdxl"):
            self._reusing["FISEdit"] = self._reuse(FISEDIT)

    def _load(self) -> DiffusionRunner:
        runner = load(self._folder, self.model, device="cpu", dtype="float32")
        assert isinstance(runner, DiffusionRunner)
        return runner

    def _reuse(self, knobs: MaskingConfig) -> DiffusionRunner:
        runner = self._load()
        runner.overlays.reuse(Activations(BUDGET), knobs)
        return runner

    def fit(self, chosen: Sequence[Case]) -> None:
        """Fit the polynomial of the cache to some edits."""
        for case in chosen:
            self._tea(0.0, case)
        self.cache.rescale = self.cache.seen.fitted()

    def ways(self) -> Iterator[tuple[str, Make]]:
        """Give every way of making an edit; what it records before is not timed."""
        yield "in full", partial(run, self._exact, Quality.EXACT)
        for name, runner in self._reusing.items():
            yield name, partial(run, runner, Quality.AUTO)
        for name, threshold in THRESHOLDS.items():
            yield name, partial(self._tea, threshold)

    def record(self, case: Case) -> None:
        """Let the template have been edited before."""
        for runner in self._reusing.values():
            record(runner, [case])

    def _tea(self, threshold: float, case: Case) -> Pixels:
        self.cache.threshold = threshold
        self.cache.begin(case.request.steps)
        return run(self._cached, Quality.EXACT, case)


def run(runner: DiffusionRunner, quality: Quality, case: Case) -> Pixels:
    """Make one edit, from its request to its pixels."""
    request = replace(case.request, quality=quality)
    sample = runner.open(request, request.seed, case.inputs)
    for _ in range(sample.num_steps):
        runner.advance([sample], runner.forward([sample]))
    return runner.decode(sample)


def make(subject: Subject, chosen: Sequence[Case]) -> dict[str, Made]:
    """Make every edit in every way, in turn."""
    made: dict[str, Made] = {}
    for case in chosen:
        subject.record(case)
        for name, way in subject.ways():
            begin = Instant.now()
            picture = way(case)
            found = made.setdefault(name, Made())
            found.cpu_s.append((Instant.now() - begin).cpu_s)
            found.pictures.append(picture)
    return made


def compare(chosen: Sequence[Case], made: dict[str, Made], judge: Judge) -> dict[str, Figure]:
    """Set every way beside the edit in full."""
    full, prompts = made["in full"], [case.task.prompt for case in chosen]
    figures = {"in full: CPU time of an edit": plain(median(full.cpu_s), "s")}
    for name, way in made.items():
        figures[f"{name}: score"] = plain(judge.score(prompts, way.pictures), "100 x cosine")
        if way is full:
            continue
        pairs = zip(full.cpu_s, way.cpu_s, strict=True)
        gain = median([one / other for one, other in pairs])
        figures[f"{name}: in full / it"] = plain(gain, "CPU time")
        ssim = similarity(full.pictures, way.pictures)
        figures[f"{name}: SSIM"] = plain(ssim, "mean")
        inside = [
            similarity([_under(case, one)], [_under(case, other)])
            for case, one, other in zip(chosen, full.pictures, way.pictures, strict=True)
        ]
        figures[f"{name}: SSIM under the mask"] = plain(sum(inside) / len(inside), "mean")
        far = judge.frechet(full.pictures, way.pictures)
        figures[f"{name}: Fréchet distance"] = plain(far, "x 100")
    return figures


def _under(case: Case, picture: Pixels) -> Pixels:
    """Cut the box around a mask out of a picture."""
    rows, columns = (np.flatnonzero(case.mask.any(axis=axis)) for axis in (1, 0))
    return picture[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def main(
    quick: bool = typer.Option(False, help="Fewer edits and steps, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
    model: str = typer.Option("shapes-hd", help="Model of the zoo."),
    weights: Path = typer.Option(WEIGHTS, help="Folder of models."),
    edits: int = typer.Option(32, help="Edits."),
) -> None:
    """Measure edits against other caches. Example: `python -m bench.edit_baselines --quick`."""
    torch.set_num_threads(1)
    subject = Subject(weights, model)
    count, steps = (6, 12) if quick else (edits, subject.model.default_steps)
    chosen = list(cases(count + FITTED, steps, subject.model))
    subject.fit(chosen[count:])
    made = make(subject, chosen[:count])
    figures = compare(chosen[:count], made, Judge(Scorer(SCORER)))
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread", model)
    raise SystemExit(finish("edit_baselines", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
