"""How is a model of the zoo trained?

`python -m zoo.train --help`
"""

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from core.log import configure
from zoo import stages
from zoo.assemble import ServiceCard
from zoo.recipe import Recipe
from zoo.stages import POOL_SIZES, Plan
from zoo.vae import VaeRecipe


class Stage(StrEnum):
    """A part of the training; each reads what those before it left in the workspace."""

    #: Byte-pair vocabulary from the grammar.
    TOKENIZER = "tokenizer"
    #: Pictures to latents and back.
    VAE = "vae"
    #: Not in the default list: more training for the decoder alone.
    DECODER = "decoder"
    #: Training scenes, encoded once.
    LATENTS = "latents"
    #: UNet and text encoders.
    DENOISER = "denoiser"
    #: The stock folder.
    EXPORT = "export"


_WORK: dict[Stage, Callable[[Plan], bool]] = {
    Stage.TOKENIZER: stages.make_tokenizers,
    Stage.VAE: stages.make_vae,
    Stage.DECODER: stages.finetune_decoder,
    Stage.LATENTS: stages.make_latents,
    Stage.DENOISER: stages.train_denoiser,
    Stage.EXPORT: stages.export_model,
}
_RECIPE, _VAE_RECIPE = Recipe(), VaeRecipe()
DEFAULT_STAGES: list[Stage] = [stage for stage in Stage if stage is not Stage.DECODER]


def smoke(plan: Plan) -> Plan:
    """Shrink every stage to seconds; the model is useless, the path is the real one."""
    return replace(
        plan,
        recipe=replace(plan.recipe, steps=4, decay_steps=2, warmup_steps=1, batch=4),
        vae_recipe=replace(plan.vae_recipe, steps=3, decay_steps=1, batch=2, whole_batch=1),
        pool_sizes=dict.fromkeys(POOL_SIZES, 8),
        save_every=2,
    )


def train(plan: Plan, chosen: list[Stage]) -> bool:
    """Run stages in order; stop after one that was interrupted."""
    plan.workspace.mkdir(parents=True, exist_ok=True)
    return all(_WORK[stage](plan) for stage in Stage if stage in chosen)


def main(
    name: Annotated[str, typer.Option(help="Name of the model.")] = "shapes-xl",
    stage: Annotated[
        list[Stage] | None, typer.Option(help="Run this stage only; repeat for several.")
    ] = None,
    init: Annotated[Path | None, typer.Option(help="Start from this stock folder.")] = None,
    workspace: Annotated[Path, typer.Option(help="Working files go here.")] = Path(".zoo-cache"),
    output: Annotated[Path, typer.Option(help="The model goes here.")] = Path("zoo/weights"),
    seed: Annotated[int, typer.Option(help="Decides weights, scenes and noise.")] = 0,
    steps: Annotated[int, typer.Option(help="Denoiser steps.")] = _RECIPE.steps,
    decay_steps: Annotated[
        int, typer.Option(help="Last steps, of falling rate.")
    ] = _RECIPE.decay_steps,
    vae_steps: Annotated[int, typer.Option(help="Autoencoder steps.")] = _VAE_RECIPE.steps,
    guidance: Annotated[
        float, typer.Option(help="Default guidance of the model.")
    ] = ServiceCard().default_guidance,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    is_smoke: Annotated[
        bool, typer.Option("--smoke", help="Seconds instead of hours, to try the path.")
    ] = False,
) -> None:
    """Train a model from the grammar to a stock folder; run again to resume.

    Example: python -m zoo.train --init zoo/weights/shapes-xl --steps 6000
    """
    configure("info", is_json=False)
    torch.set_num_threads(threads)
    chosen = stage or DEFAULT_STAGES
    plan = Plan(
        workspace=workspace / name,
        output=output / name,
        init=init,
        recipe=Recipe(seed=seed, steps=steps, decay_steps=decay_steps),
        vae_recipe=VaeRecipe(seed=seed, steps=vae_steps, decay_steps=int(vae_steps * 0.6)),
        pool_sizes=POOL_SIZES,
        save_every=250,
        card=ServiceCard(name=name, default_guidance=guidance),
    )
    is_done = train(smoke(plan) if is_smoke else plan, chosen)
    Console(stderr=True).print("finished" if is_done else "stopped; run again to resume")


app = typer.Typer(add_completion=False)
app.command()(main)

if __name__ == "__main__":
    app()
