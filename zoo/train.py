"""Train a model of the zoo, end to end and resumable.

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
from zoo.couples import Coupling
from zoo.family import FAMILY
from zoo.reading import ReadingRecipe
from zoo.recipe import DenoiserRecipe
from zoo.stages import COUPLE_SIZES, POOL_SIZES, Plan
from zoo.vae import VaeRecipe


class Stage(StrEnum):
    """A part of the training; each reads what those before it left in the workspace."""

    #: Byte-pair vocabulary from the grammar.
    TOKENIZER = "tokenizer"
    #: Text encoders that can tell what a caption says.
    READING = "reading"
    #: Pictures to latents and back.
    VAE = "vae"
    #: Not in the default list: more training for the decoder alone.
    DECODER = "decoder"
    #: Training scenes, encoded once.
    LATENTS = "latents"
    #: The UNet, on what the text encoders read.
    DENOISER = "denoiser"
    #: The stock folder.
    EXPORT = "export"


_WORK: dict[Stage, Callable[[Plan], bool]] = {
    Stage.TOKENIZER: stages.make_tokenizers,
    Stage.READING: stages.train_reader,
    Stage.VAE: stages.make_vae,
    Stage.DECODER: stages.finetune_decoder,
    Stage.LATENTS: stages.make_latents,
    Stage.DENOISER: stages.train_denoiser,
    Stage.EXPORT: stages.export_model,
}
_RECIPE, _VAE_RECIPE = DenoiserRecipe(), VaeRecipe()
DEFAULT_STAGES: list[Stage] = [stage for stage in Stage if stage is not Stage.DECODER]


def smoke(plan: Plan) -> Plan:
    """Shrink every stage to seconds; the model is useless, the path is the real one."""
    return replace(
        plan,
        reading_recipe=replace(plan.reading_recipe, steps=2, batch=4),
        recipe=replace(plan.recipe, steps=4, decay_steps=2, warmup_steps=1, batch=4),
        vae_recipe=replace(plan.vae_recipe, steps=3, decay_steps=1, batch=2, whole_batch=1),
        pool_sizes=dict.fromkeys(POOL_SIZES, 8),
        couple_sizes=dict.fromkeys(POOL_SIZES, 4),
        coupling=Coupling(steps=1, shard=4),
        save_every=2,
    )


def train(plan: Plan, chosen: list[Stage]) -> bool:
    """Run stages in order; stop after one that was interrupted."""
    plan.workspace.mkdir(parents=True, exist_ok=True)
    return all(_WORK[stage](plan) for stage in Stage if stage in chosen)


def main(
    name: Annotated[str, typer.Option(help=f"One of {', '.join(FAMILY)}.")] = "shapes-xl",
    stage: Annotated[
        list[Stage] | None, typer.Option(help="Run this stage only; repeat for several.")
    ] = None,
    init: Annotated[Path | None, typer.Option(help="Start from this stock folder.")] = None,
    reads_afresh: Annotated[
        bool, typer.Option("--read-afresh", help="Train text encoders even if it has some.")
    ] = False,
    teacher: Annotated[
        Path | None, typer.Option(help="Learn what this stock folder predicts, not the scenes.")
    ] = None,
    workspace: Annotated[Path, typer.Option(help="Working files go here.")] = Path(".zoo-cache"),
    output: Annotated[Path, typer.Option(help="The model goes here.")] = Path("zoo/weights"),
    seed: Annotated[int, typer.Option(help="Decides weights, scenes and noise.")] = 0,
    steps: Annotated[int, typer.Option(help="Denoiser steps.")] = _RECIPE.steps,
    decay_steps: Annotated[
        int, typer.Option(help="Last steps, of falling rate.")
    ] = _RECIPE.decay_steps,
    mix_steps: Annotated[
        int, typer.Option(help="Steps from easy scenes to hard ones; 0 to start with hard ones.")
    ] = _RECIPE.mix_steps,
    rate: Annotated[float, typer.Option(help="Peak learning rate.")] = _RECIPE.rate,
    vae_steps: Annotated[int, typer.Option(help="Autoencoder steps.")] = _VAE_RECIPE.steps,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    is_smoke: Annotated[
        bool, typer.Option("--smoke", help="Seconds instead of hours, to try the path.")
    ] = False,
) -> None:
    """Train a model from the grammar to a stock folder; run again to resume.

    Example: python -m zoo.train --name shapes-m --init zoo/weights/shapes-m --steps 6000
    """
    if name not in FAMILY:
        raise typer.BadParameter(f"no model is named {name}; there are {', '.join(FAMILY)}")
    configure("info", is_json=False)
    torch.set_num_threads(threads)
    chosen = stage or DEFAULT_STAGES
    member = FAMILY[name]
    plan = Plan(
        member=member,
        workspace=workspace / name,
        output=output / name,
        init=init,
        reads_afresh=reads_afresh,
        teacher=teacher,
        reading_recipe=ReadingRecipe(seed=seed),
        recipe=DenoiserRecipe(
            seed=seed, steps=steps, decay_steps=decay_steps, mix_steps=mix_steps, rate=rate
        ),
        vae_recipe=VaeRecipe(seed=seed, steps=vae_steps, decay_steps=int(vae_steps * 0.6)),
        pool_sizes=POOL_SIZES,
        couple_sizes=COUPLE_SIZES,
        coupling=Coupling(seed=seed),
        save_every=250,
        card=ServiceCard(
            name=name,
            family=member.layout,
            default_guidance=member.guidance,
            default_steps=member.steps,
            quality=member.quality,
            step_s=member.step_s,
        ),
    )
    is_done = train(smoke(plan) if is_smoke else plan, chosen)
    Console(stderr=True).print("finished" if is_done else "stopped; run again to resume")


app = typer.Typer(add_completion=False)
app.command()(main)

if __name__ == "__main__":
    app()
