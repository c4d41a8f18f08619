"""Benchmark image quality with ControlNet residuals one step late (Katz §9.3).

shapes-xl and its ControlNets, held-out scenes of all levels; the same noise, once with residuals of
the step at hand and once with those of the step before.

    python -m bench.controlnet_quality --quick
"""

from pathlib import Path

import numpy as np
import torch
import typer

from bench.parts.image_sets import Judge, similarity
from bench.parts.local_controlnets import LocalControlNets
from bench.parts.report import Figure, at_least, finish, machine, plain
from catalog.models import read_models
from core.job import Control, JobRequest
from worker.control.server.load_network import load_network
from worker.control.server.model_cache import ModelCache
from worker.control.stale import Stale
from worker.diffusion.runner import ControlImages, Pixels
from worker.diffusion.scorer import Scorer
from worker.families.load import load
from worker.families.sdxl import SdxlRunner
from zoo.control.condition import Kind, view
from zoo.control.measure import is_met
from zoo.scenes import LEVELS, Scene, held_out

WEIGHTS, CONTROLNETS = Path("zoo/weights"), Path("zoo/adapters/controlnets")
MODEL = "shapes-xl"
SCORER = Path("zoo/scorers/shapes")
SEED, GUIDANCE = 2026, 4.0


def load_steered(stale: Stale) -> SdxlRunner:
    """Load the model, with its ControlNets in the same process."""
    model = read_models(WEIGHTS)[MODEL]
    runner = load(WEIGHTS / model.name, model, device="cpu", dtype="float32")
    assert isinstance(runner, SdxlRunner)
    residents = ModelCache(
        lambda name: load_network(CONTROLNETS / name, device="cpu", dtype="float32"), 2**32
    )
    runner.overlays.steer(LocalControlNets(residents), stale)
    return runner


def make(runner: SdxlRunner, kind: Kind, scenes: list[Scene], steps: int) -> list[Pixels]:
    """Make a picture of each scene under its condition, all in one batch."""
    samples = []
    for seed, scene in enumerate(scenes):
        request = JobRequest(
            prompt=scene.caption,
            model=MODEL,
            width=64,
            height=64,
            steps=steps,
            guidance=GUIDANCE,
            seed=seed,
            controls=(Control(controlnet=kind, image=""),),
        )
        samples.append(runner.open(request, seed, ControlImages(images=(view(kind, scene),))))
    for _ in range(steps):
        runner.advance(samples, runner.forward(samples))
    for sample in samples:
        sample.close()
    return [runner.decode(sample) for sample in samples]


def measure(scenes: list[Scene], steps: int) -> dict[str, Figure]:
    """Compare both ways, for each kind of condition."""
    judge = Judge(Scorer(SCORER))
    waiting, late = load_steered(Stale.NEVER), load_steered(Stale.ALWAYS)
    figures = {}
    for kind in Kind:
        own, others = (make(runner, kind, scenes, steps) for runner in (waiting, late))
        figures[f"{kind}: SSIM, a step late"] = at_least(similarity(own, others), 0.77, "")
        far = judge.frechet(own, others)
        figures[f"{kind}: Fréchet distance, a step late"] = plain(far, "x 100")
        for name, images in (("at once", own), ("a step late", others)):
            met = [is_met(kind, *each) for each in zip(images, scenes, strict=True)]
            figures[f"{kind}: condition met, {name}"] = plain(float(np.mean(met)), "share")
            score = judge.score([scene.caption for scene in scenes], images)
            figures[f"{kind}: score, {name}"] = plain(score, "100 x cosine")
    return figures


def main(
    quick: bool = typer.Option(False, help="Fewer scenes and steps, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure what is lost. Example: `python -m bench.controlnet_quality --quick`."""
    torch.set_num_threads(1)
    count = 1 if quick else 4
    scenes = [scene for level in LEVELS for scene in held_out(level, count, SEED)]
    figures = measure(scenes, 20)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread")
    raise SystemExit(finish("controlnet_quality", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
