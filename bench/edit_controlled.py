"""Benchmark edits that a ControlNet steers: equal to the stock pipeline, sooner, and alike.

An edit in full is compared with the stock ControlNet-inpaint pipeline, by shapes-xl and its
ControlNet for outlines. What a user gets with reuse is the whole edit sooner: wall time of a random
model with attention at every token, its ControlNet in a process of its own, the template edited
before without it. And the same image, nearly: figures of the zoo are replaced under masks as in
`bench.edit_quality`, told the outline of the new one.

    python -m bench.edit_controlled --quick
"""

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import typer
from skimage.metrics import structural_similarity

from bench.edit_quality import Case, cases, make, record
from bench.parts.control_process import ControlProcess, on_cores
from bench.parts.local_controlnets import LocalControlNets
from bench.parts.report import Figure, at_least, at_most, finish, machine, median, plain
from bench.parts.steered_edit import SteeredEdits, inpaint_pipeline, make_stock
from catalog.masking.config import MaskingConfig
from catalog.models import read_models
from core.job import Control, Quality
from worker.control.client.remote import RemoteControlNets
from worker.control.server.load_network import load_network
from worker.control.server.model_cache import ModelCache
from worker.diffusion.loading.pipelines import load_controlnet
from worker.diffusion.runner import Pixels
from worker.families.load import load
from worker.families.sdxl import SdxlRunner
from worker.masking.activations import Activations
from zoo.control.condition import Kind, view
from zoo.control.measure import is_met
from zoo.replaced import Task
from zoo.scenes import Scene

MODEL, WEIGHTS = "shapes-xl", Path("zoo/weights")
CONTROLNETS = Path("zoo/adapters/controlnets")
KIND = Kind.EDGES

#: Share of the image under the mask, and how much sooner the whole edit must be there.
MASK, SOONER = 0.11, 1.5
#: How far an edit in full may be from the stock pipeline's.
EQUAL = 1e-4


def aim(task: Task) -> Scene:
    """Draw up the scene that an edit makes: the new figure where the old one was."""
    old = task.scene.figures[0]
    return replace(task.scene, figures=(replace(old, noun=task.noun),))


def steered(case: Case) -> Case:
    """Tell a ControlNet of the outline of the new figure."""
    control = Control(controlnet=KIND, image="")
    return replace(
        case,
        request=replace(case.request, controls=(control,)),
        inputs=replace(case.inputs, conditions=(view(KIND, aim(case.task)),)),
    )


def load_zoo() -> SdxlRunner:
    """Load shapes-xl, which reuses templates, with its ControlNets in the same process."""
    model = read_models(WEIGHTS)[MODEL]
    runner = load(WEIGHTS / MODEL, model, device="cpu", dtype="float32")
    assert isinstance(runner, SdxlRunner)
    residents = ModelCache(
        lambda name: load_network(CONTROLNETS / name, device="cpu", dtype="float32"), 2**32
    )
    runner.overlays.steer(LocalControlNets(residents))
    runner.overlays.reuse(Activations(2**32), MaskingConfig())
    return runner


def equality(runner: SdxlRunner, chosen: Sequence[Case]) -> float:
    """Measure how far edits in full are from the stock pipeline's, of 1."""
    controlnet = load_controlnet(CONTROLNETS / KIND, torch.float32)
    stock = inpaint_pipeline(runner.pipe, controlnet)
    far = []
    for case in chosen:
        request = replace(case.request, quality=Quality.EXACT)
        sample = runner.open(request, request.seed, case.inputs)
        for _ in range(sample.num_steps):
            runner.advance([sample], runner.forward([sample]))
        image = runner.image(sample).numpy()
        sample.close()
        far.append(float(np.abs(image - make_stock(stock, request, case.inputs)).max()))
    return max(far)


def likeness(
    chosen: Sequence[Case], full: Sequence[Pixels], reused: Sequence[Pixels]
) -> dict[str, Figure]:
    """Compare edits that reuse their templates with those in full, under masks and around them."""
    whole, under, around = [], [], []
    for case, one, other in zip(chosen, full, reused, strict=True):
        mean, similar = structural_similarity(one, other, channel_axis=2, full=True)
        whole.append(float(mean))
        under.append(float(similar[case.mask].mean()))
        around.append(float(similar[~case.mask].mean()))
    return {
        "mask ratio, mean": plain(float(np.mean([case.mask.mean() for case in chosen])), "share"),
        "SSIM, whole image": at_least(float(np.mean(whole)), 0.98, "mean"),
        "SSIM under the mask": at_least(float(np.mean(under)), 0.93, "mean"),
        "SSIM outside the mask": at_least(float(np.mean(around)), 0.985, "mean"),
    }


def met(chosen: Sequence[Case], images: Sequence[Pixels]) -> Figure:
    """Say how often the outline is met."""
    pairs = zip(images, chosen, strict=True)
    return plain(float(np.mean([is_met(KIND, image, aim(c.task)) for image, c in pairs])), "share")


def quality(count: int, steps: int) -> dict[str, Figure]:
    """Compare edits of the zoo's pictures: with stock, and with and without reuse."""
    runner = load_zoo()
    plain_cases = list(cases(count, steps, runner.model))
    record(runner, plain_cases)  # without a ControlNet: recordings are for all edits
    chosen = [steered(case) for case in plain_cases]
    full, reused = (make(runner, chosen, each) for each in (Quality.EXACT, Quality.AUTO))
    figures = {
        "in full, largest difference to stock": at_most(equality(runner, chosen[:2]), EQUAL, "of 1")
    }
    return figures | {
        **likeness(chosen, full, reused),
        "outline met, in full": met(chosen, full),
        "outline met, reusing": met(chosen, reused),
        "outline met, no ControlNet": met(chosen, make(runner, plain_cases, Quality.EXACT)),
    }


def speed(folder: Path, steps: int, rounds: int) -> dict[str, Figure]:
    """Time whole edits: stock, ours in full, ours with reuse; they take turns."""
    base, *others = sorted(os.sched_getaffinity(0))
    taken: dict[str, list[float]] = {"stock": [], "full": [], "reused": []}
    edits = SteeredEdits(folder, steps)
    with ExitStack() as stack:
        process = ControlProcess(folder, others[:1] or [base])
        stack.callback(process.close)
        stack.enter_context(on_cores([base]))
        remote = RemoteControlNets(process.offer, arena_bytes=2**28, patience_s=60.0)
        stack.callback(remote.close)
        edits.steer(remote)
        edits.ours_s(MASK)  # the process loads what it needs
        for _ in range(rounds):
            taken["stock"].append(edits.stock_s(MASK))
            taken["full"].append(edits.ours_s(MASK, Quality.EXACT))
            taken["reused"].append(edits.ours_s(MASK))
    name = f"edit, mask {MASK:g}: stock / ours"
    return {
        "cores": plain(1 + len(others), ""),
        "edit, stock pipeline": plain(median(taken["stock"]), "s"),
        name: at_least(_gain(taken["stock"], taken["reused"]), SOONER, "ratio"),
        f"{name} in full": plain(_gain(taken["stock"], taken["full"]), "ratio"),
    }


def _gain(theirs: list[float], ours: list[float]) -> float:
    return median([a / b for a, b in zip(theirs, ours, strict=True)])


def main(
    quick: bool = typer.Option(False, help="Fewer edits and steps, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure edits under a ControlNet. Example: `python -m bench.edit_controlled --quick`."""
    torch.set_num_threads(1)
    figures = quality(*((8, 20) if quick else (16, 50)))
    with tempfile.TemporaryDirectory() as folder:
        figures |= speed(Path(folder), *((10, 2) if quick else (20, 2)))
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread a process")
    raise SystemExit(finish("edit_controlled", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
