"""Train the ControlNets.

`python -m zoo.control.train --all --base zoo/weights/shapes-xl`
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
import typer
from diffusers import AutoencoderKL, ControlNetModel, UNet2DConditionModel
from rich.console import Console
from rich.progress import track
from transformers import CLIPTokenizer

from core.log import configure
from zoo import evaluate
from zoo.control import network
from zoo.control.card import Card
from zoo.control.condition import Kind
from zoo.control.training import POOL_SEED, ControlRecipe, ControlTraining
from zoo.latents import pool_folder, read_pools, write_pools
from zoo.runner import run
from zoo.scenes import LEVELS

#: Scenes of each level that a ControlNet learns from.
POOL_SIZE = 4096
#: Each ControlNet begins from the one before, which has learned to speak to the denoiser.
ORDER = (Kind.EDGES, Kind.DEPTH, Kind.LAYOUT)
#: Optimiser steps by kind: an outline from nothing, then what is like it, then colours.
STEPS = {Kind.EDGES: 500, Kind.DEPTH: 350, Kind.LAYOUT: 600}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where a run reads and writes."""

    #: The model to steer, a stock folder.
    base: Path
    #: A ControlNet to start from; None copies the base.
    init: Path | None
    #: Working files.
    workspace: Path
    #: Encoded training scenes.
    pool: Path
    #: A folder for each kind goes here.
    output: Path
    #: Scenes of each level.
    pool_size: int = POOL_SIZE
    #: Steps between checkpoints.
    save_every: int = 100


def _make_pools(plan: Plan) -> None:
    vae = AutoencoderKL.from_pretrained(plan.base / "vae").eval()
    tokenizer = CLIPTokenizer.from_pretrained(plan.base / "tokenizer")
    shards = write_pools(plan.pool, vae, tokenizer, _sizes(plan), POOL_SEED)
    for _ in track(shards, description="latents", total=None):
        pass


def _sizes(plan: Plan) -> dict[int, int]:
    return dict.fromkeys(LEVELS, plan.pool_size)


def _checkpoint(plan: Plan, recipe: ControlRecipe) -> Path:
    return plan.workspace / f"{recipe.kind}.pt"


def _start(plan: Plan, unet: UNet2DConditionModel) -> ControlNetModel:
    return ControlNetModel.from_pretrained(plan.init) if plan.init else network.from_unet(unet)


def train(plan: Plan, recipe: ControlRecipe) -> bool:
    """Train one ControlNet to a stock folder with a card; False if it was interrupted."""
    _make_pools(plan)
    plan.workspace.mkdir(parents=True, exist_ok=True)
    base = evaluate.load(plan.base)
    torch.manual_seed(recipe.seed)
    controlnet = _start(plan, base.unet)
    training = ControlTraining(controlnet, base, read_pools(plan.pool, _sizes(plan)), recipe)
    checkpoint = _checkpoint(plan, recipe)
    begun = time.process_time()
    if not run(training, recipe.kind, recipe.steps, checkpoint, plan.save_every):
        return False
    folder = plan.output / recipe.kind
    network.write(training.average, folder)
    minutes = (time.process_time() - begun) / 60
    card = Card(recipe=recipe, base=plan.base, init=plan.init, cpu_minutes=minutes)
    card.write(folder)
    return True


def train_all(plan: Plan, recipes: Sequence[ControlRecipe]) -> bool:
    """Train one after the other, each from the one before.

    The checkpoints go in the end, or a run on another base would take them for its own.
    """
    for recipe in recipes:
        if not train(plan, recipe):
            return False
        plan = replace(plan, init=plan.output / recipe.kind)
    for recipe in recipes:
        _checkpoint(plan, recipe).unlink()
    return True


def smoke(plan: Plan) -> Plan:
    """Shrink the data of a run to seconds."""
    return replace(plan, pool_size=8, save_every=2)


def shortened(recipe: ControlRecipe) -> ControlRecipe:
    """Shrink a run to seconds; the ControlNet is useless, the path is the real one."""
    return replace(recipe, steps=3, decay_steps=1, warmup_steps=1, batch=2)


def recipe_of(kind: Kind, seed: int) -> ControlRecipe:
    """Give the recipe of the shipped ControlNet of a kind."""
    steps = STEPS[kind]
    return ControlRecipe(kind=kind, seed=seed, steps=steps, decay_steps=steps * 2 // 3)


def main(
    base: Annotated[Path, typer.Option(help="The model to steer, a stock folder.")],
    kind: Annotated[Kind | None, typer.Option(help="Which ControlNet; or --all.")] = None,
    is_all: Annotated[bool, typer.Option("--all", help="All three, one after the other.")] = False,
    init: Annotated[Path | None, typer.Option(help="Start from this ControlNet.")] = None,
    workspace: Annotated[Path, typer.Option(help="Checkpoints.")] = Path(".zoo-cache/control"),
    output: Annotated[Path, typer.Option(help="The folders go here.")] = Path(
        "zoo/adapters/controlnets"
    ),
    seed: Annotated[int, typer.Option(help="Decides weights, scenes and noise.")] = 0,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    is_smoke: Annotated[
        bool, typer.Option("--smoke", help="Seconds instead of minutes, to try the path.")
    ] = False,
) -> None:
    """Train ControlNets to stock folders; run again to resume.

    Example: python -m zoo.control.train --all --base zoo/weights/shapes-xl
    """
    if is_all == (kind is not None):
        raise typer.BadParameter("name one --kind, or give --all")
    configure("info", is_json=False)
    torch.set_num_threads(threads)
    plan = Plan(
        base=base,
        init=init,
        workspace=workspace,
        pool=pool_folder(workspace.parent, base / "vae"),
        output=output,
    )
    recipes = [recipe_of(each, seed) for each in ([kind] if kind else ORDER)]
    if is_smoke:
        plan, recipes = smoke(plan), [shortened(recipe) for recipe in recipes]
    is_done = train_all(plan, recipes)
    Console(stderr=True).print("finished" if is_done else "stopped; run again to resume")


app = typer.Typer(add_completion=False)
app.command()(main)

if __name__ == "__main__":
    app()
